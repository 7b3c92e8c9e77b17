//! 3. What is remembered about an object between its cycles: little, and nothing that it can do without.

use std::num::NonZeroU64;
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
    pub version: Option<Version>,
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
    pub fn knows(&self, version: Option<Version>) -> bool {
        matches!((self.version, version), (Some(known), Some(version)) if version <= known)
    }

    /// Neither handlers nor errors nor daemons of the object need another look at it.
    pub fn has_nothing_pending(&self) -> bool {
        self.partly_handled.is_none() && self.throttle == Throttle::Off && self.background.is_none()
    }

    /// Remembers the newest version.
    pub fn saw(&mut self, version: Option<Version>) {
        self.version = self.version.max(version);
    }
}

/// A version of an object that can be compared with others. There is one per object, so that every word counts.
pub(crate) type Version = NonZeroU64;

/// The number in a resource version; None if it is not a number, and so cannot be compared.
pub(crate) fn version_number(version: Option<&str>) -> Option<Version> {
    version.and_then(|version| version.parse().ok())
}

/// The pauses of one object after unexpected errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Throttle {
    /// All is well.
    #[default]
    Off,
    /// The object rests after so many errors in a row.
    Resting { errors: u32 },
}

impl Throttle {
    /// One more error: how long to rest, in seconds; None if throttling is off by the settings.
    pub fn next_delay(self, delays: &[f64]) -> Option<(u32, f64)> {
        let errors = match self {
            Self::Off => 0,
            Self::Resting { errors } => errors,
        };
        let delay = delays.get(errors as usize).or(delays.last()).copied()?;
        Some((errors.saturating_add(1), delay))
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(version_number(Some("12")), NonZeroU64::new(12));
        assert_eq!(version_number(Some("0")), None);
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
