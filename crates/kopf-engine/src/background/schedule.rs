//! When something is due: one heap for all daemons and timers of the operator, a few words per entry.
//!
//! Whoever is put off gets a new entry under a new number; the old one is void, and is dropped when its time comes,
//! or earlier if too many of them have gathered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Weak;
use std::time::Duration;

use super::object_tasks::ObjectTasks;

/// Void entries that are not worth a clean-up.
const STALE_AT_LEAST: usize = 1024;

/// The heap.
#[derive(Default)]
pub(super) struct Schedule {
    entries: BinaryHeap<Reverse<DueTask>>,
    /// How many of them are void, as far as it is known.
    stale: usize,
}

/// The time since the beginning of the operator in nanoseconds, which takes half of the room of a [`Duration`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u64);

impl From<Duration> for Tick {
    fn from(duration: Duration) -> Self {
        // That is enough for five centuries.
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Tick> for Duration {
    fn from(tick: Tick) -> Self {
        Self::from_nanos(tick.0)
    }
}

/// One thing to come back to.
pub(super) struct DueTask {
    pub at: Tick,
    /// Entries of objects that are forgotten lead to nowhere.
    pub tasks: Weak<ObjectTasks>,
    /// Which run of the object.
    pub run: u32,
}

impl Schedule {
    /// Gives whether it comes before all others.
    pub fn add(&mut self, entry: DueTask) -> bool {
        let is_first = self.entries.peek().is_none_or(|Reverse(next)| entry.at < next.at);
        self.entries.push(Reverse(entry));
        is_first
    }

    /// One of the entries will not be needed.
    pub fn mark_stale(&mut self) {
        self.stale += 1;
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Duration> {
        self.entries.peek().map(|Reverse(entry)| entry.at.into())
    }

    pub fn pop_due(&mut self, now: Duration) -> Option<DueTask> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry)
    }

    /// An entry that was taken out had been void.
    pub fn dropped_stale(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }

    /// All the entries, if more than half of them are void; to be given back by [`Schedule::refill`].
    pub fn take_if_stale(&mut self) -> Option<Vec<DueTask>> {
        if self.stale < STALE_AT_LEAST || self.stale * 2 < self.entries.len() {
            return None;
        }
        self.stale = 0;
        Some(std::mem::take(&mut self.entries).into_iter().map(|Reverse(entry)| entry).collect())
    }

    pub fn refill(&mut self, kept: Vec<DueTask>) {
        self.entries.extend(kept.into_iter().map(Reverse));
    }
}

impl PartialEq for DueTask {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for DueTask {}

impl PartialOrd for DueTask {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DueTask {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
