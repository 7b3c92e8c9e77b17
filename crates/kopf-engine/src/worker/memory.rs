//! What the operator remembers of an object between its passes: little, and nothing that it can do without.

use std::sync::Arc;

use kopf_reaction::IndexFailures;
use serde_json::Value;
use tokio::time::Instant;

use crate::background::TasksHandle;
use crate::front::{CycleContext, FrontSlot};
use crate::patching::ObjectPatch;
use crate::support::Version;

/// The memory of one object, from its first event until it is gone.
#[derive(Default)]
pub(crate) struct ObjectMemory {
    /// First seen by a listing: a candidate for resuming.
    pub noticed_by_listing: bool,
    /// Handled in full at least once in this process: resuming is over.
    pub fully_handled_once: bool,
    /// A change handler was called for it in this process.
    pub is_begun: bool,
    /// Updates in a row which its own handlers have caused.
    pub own_updates: u8,
    /// It is not in the cluster any more, but its deletion is still to be handled, in memory.
    pub is_gone: bool,
    /// The latest version that was looked at or made by our own patch.
    pub version: Option<Version>,
    /// What the finished handlers of an unfinished handling have seen; None when nothing is under way.
    pub partly_handled: Option<Arc<Value>>,
    /// The front's own things for the object: the memo.
    pub front: Option<Arc<FrontSlot>>,
    /// None if the object is in no index.
    pub indexing: Option<Box<IndexingMemory>>,
    pub throttle: Throttle,
    /// The daemons and timers of the object; None if it has never had any.
    pub background: Option<TasksHandle>,
}

impl ObjectMemory {
    /// Candidates for the resuming handlers.
    pub(crate) fn is_initial(&self) -> bool {
        self.noticed_by_listing && !self.fully_handled_once
    }

    /// Whether the version brings nothing new: it was seen, or is older than our own patch.
    pub(crate) fn knows(&self, version: Option<Version>) -> bool {
        matches!((self.version, version), (Some(known), Some(version)) if version <= known)
    }

    /// Neither handlers nor errors nor daemons of the object need another look at it.
    pub(crate) fn has_nothing_pending(&self) -> bool {
        self.partly_handled.is_none() && !self.throttle.is_on() && self.background.is_none() && !self.is_gone
    }

    /// Remembers the latest version.
    pub(crate) fn saw(&mut self, version: Option<Version>) {
        self.version = self.version.max(version);
    }
}

/// What is remembered of the indexing of one object.
#[derive(Default)]
pub(crate) struct IndexingMemory {
    /// The version that was indexed last; None if versions cannot be compared.
    pub version: Option<Version>,
    pub failures: IndexFailures,
    /// When a failed handler is due again.
    pub retry: Option<Instant>,
}

/// A change that the API could not take for the moment. It is kept until it can, so that no handler has to be called again
/// for what it has done already.
pub(crate) struct Unapplied {
    pub patch: ObjectPatch,
    /// For the transformations of the user's patch.
    pub context: Arc<CycleContext>,
    /// All handlers are done by it.
    pub fully_handled: bool,
}

/// The pauses of one object after unexpected errors; empty if all is well.
#[derive(Default)]
pub(crate) struct Throttle(Option<Box<Trouble>>);

/// What is remembered of an object that is throttled.
#[derive(Default)]
struct Trouble {
    /// How many errors there were in a row.
    errors: usize,
    /// The patch to send when the pause is over.
    unapplied: Option<Unapplied>,
}

impl Throttle {
    /// Whether the object is throttled, or was throttled and has not been handled since.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// One more error: how long to pause, in seconds; None if throttling is off by the settings.
    pub(crate) fn next_delay(&mut self, delays: &[f64]) -> Option<f64> {
        let trouble = self.0.get_or_insert_default();
        let delay = delays.get(trouble.errors).or(delays.last()).copied()?;
        trouble.errors = trouble.errors.saturating_add(1);
        Some(delay)
    }

    /// Keeps what could not be written.
    pub(crate) fn keep(&mut self, unapplied: Unapplied) {
        self.0.get_or_insert_default().unapplied = Some(unapplied);
    }

    /// What could not be written before.
    pub(crate) fn take_unapplied(&mut self) -> Option<Unapplied> {
        self.0.as_mut()?.unapplied.take()
    }

    /// All is well.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn versions() {
        let mut memory = ObjectMemory::default();
        assert!(!memory.knows(NonZeroU64::new(1)));
        memory.saw(NonZeroU64::new(5));
        memory.saw(NonZeroU64::new(3));
        // Zero stands for none.
        for (version, known) in [(4, true), (5, true), (6, false), (0, false)] {
            assert_eq!(memory.knows(NonZeroU64::new(version)), known, "{version:?}");
        }
    }

    #[test]
    fn throttling_grows_to_the_last_delay_and_stays_there() {
        let delays = [1.0, 2.0];
        let mut throttle = Throttle::default();
        let seen: Vec<f64> = (0..4).filter_map(|_| throttle.next_delay(&delays)).collect();
        assert_eq!(seen, [1.0, 2.0, 2.0, 2.0]);
        assert_eq!(Throttle::default().next_delay(&[]), None);
        assert!(throttle.take_unapplied().is_none());
    }
}
