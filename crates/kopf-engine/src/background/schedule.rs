//! When something is due: one heap for all daemons and timers of the operator, a few words per entry.
//!
//! A task that is postponed gets a new entry under a new number. Its old entry is stale: it is dropped when its time
//! comes, or earlier if there are too many stale entries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Weak;
use std::time::Duration;

use super::object_tasks::ObjectTasks;
use super::tick::Tick;

/// Stale entries that are not worth removing.
const STALE_AT_LEAST: usize = 1024;

/// The heap.
#[derive(Default)]
pub(super) struct Schedule {
    entries: BinaryHeap<Reverse<DueTask>>,
    /// How many entries are known to be stale.
    stale: usize,
}

/// One thing to come back to.
pub(super) struct DueTask {
    pub at: Tick,
    /// Gone if the object is forgotten.
    pub tasks: Weak<ObjectTasks>,
    /// Which task of the object, by its number.
    pub number: u32,
}

impl Schedule {
    /// Returns whether it comes before all others.
    pub(super) fn add(&mut self, entry: DueTask) -> bool {
        let is_first = self.entries.peek().is_none_or(|Reverse(next)| entry.at < next.at);
        self.entries.push(Reverse(entry));
        is_first
    }

    /// One of the entries will not be needed.
    pub(super) fn mark_stale(&mut self) {
        self.stale += 1;
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.entries.peek().map(|Reverse(entry)| entry.at.into())
    }

    pub(super) fn pop_due(&mut self, now: Duration) -> Option<DueTask> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry)
    }

    /// An entry that was taken out was stale.
    pub(super) fn dropped_stale(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }

    /// All the entries, if more than half of them are stale; to be returned by [`Schedule::refill`].
    pub(super) fn take_if_stale(&mut self) -> Option<Vec<DueTask>> {
        if self.stale < STALE_AT_LEAST || self.stale * 2 < self.entries.len() {
            return None;
        }
        self.stale = 0;
        Some(std::mem::take(&mut self.entries).into_iter().map(|Reverse(entry)| entry).collect())
    }

    pub(super) fn refill(&mut self, kept: Vec<DueTask>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one per waiting timer.
    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<DueTask>() <= 24, "{}", size_of::<DueTask>());
    }
}
