//! 3. What is remembered about an object between its cycles: little, and nothing that it can do without.

use std::sync::Arc;

use serde_json::Value;

use crate::background::BackgroundOfObject;
use crate::indexes::IndexingMemory;
use crate::invoke::FrontSlot;

/// The memory of one object, from its first event until it is gone.
#[derive(Default)]
pub(crate) struct ObjectMemory {
    /// First seen by a listing: a candidate for resuming.
    pub noticed_by_listing: bool,
    /// Handled in full at least once in this process: resuming is over.
    pub fully_handled_once: bool,
    /// The newest version that was looked at or made by our own patch.
    pub version: Option<u64>,
    /// What the finished handlers of an unfinished handling have seen; None when nothing is under way.
    pub partly_handled: Option<Arc<Value>>,
    /// The front's own things for the object: the memo.
    pub front: Option<Arc<FrontSlot>>,
    /// None if the object is in no index.
    pub indexing: Option<Box<IndexingMemory>>,
    pub throttle: Throttle,
    /// The daemons and timers of the object; None if it has never had any.
    pub background: Option<BackgroundOfObject>,
}

impl ObjectMemory {
    /// Candidates for the resuming handlers.
    pub fn is_initial(&self) -> bool {
        self.noticed_by_listing && !self.fully_handled_once
    }

    /// Whether the version brings nothing new: it was seen, or is older than our own patch.
    pub fn knows(&self, version: Option<u64>) -> bool {
        matches!((self.version, version), (Some(known), Some(version)) if version <= known)
    }

    /// Neither handlers nor errors nor daemons of the object need another look at it.
    pub fn has_nothing_pending(&self) -> bool {
        self.partly_handled.is_none() && self.throttle == Throttle::Off && self.background.is_none()
    }

    /// Remembers the newest version.
    pub fn saw(&mut self, version: Option<u64>) {
        self.version = self.version.max(version);
    }
}

/// The number in a resource version; None if it is not a number, and so cannot be compared.
pub(crate) fn version_number(version: Option<&str>) -> Option<u64> {
    version.and_then(|version| version.parse().ok())
}

/// The pauses of one object after unexpected errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Throttle {
    /// All is well.
    #[default]
    Off,
    /// The object rests after so many errors in a row.
    Resting { errors: usize },
}

impl Throttle {
    /// One more error: how long to rest, in seconds; None if throttling is off by the settings.
    pub fn next_delay(self, delays: &[f64]) -> Option<(usize, f64)> {
        let errors = match self {
            Self::Off => 0,
            Self::Resting { errors } => errors,
        };
        let delay = delays.get(errors).or(delays.last()).copied()?;
        Some((errors + 1, delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let mut memory = ObjectMemory::default();
        assert!(!memory.knows(Some(1)));
        memory.saw(Some(5));
        memory.saw(Some(3));
        let table = [(Some(4), true), (Some(5), true), (Some(6), false), (None, false)];
        for (version, known) in table {
            assert_eq!(memory.knows(version), known, "{version:?}");
        }
        assert_eq!(version_number(Some("12")), Some(12));
        assert_eq!(version_number(Some("12x")), None);
    }

    #[test]
    fn throttling_grows_to_the_last_delay_and_stays_there() {
        let delays = [1.0, 2.0];
        let mut throttle = Throttle::Off;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (errors, delay) = throttle.next_delay(&delays).unwrap();
            throttle = Throttle::Resting { errors };
            seen.push(delay);
        }
        assert_eq!(seen, [1.0, 2.0, 2.0, 2.0]);
        assert_eq!(Throttle::Off.next_delay(&[]), None);
    }
}
