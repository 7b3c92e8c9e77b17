//! The time of the schedule.

use std::time::Duration;

/// The time since the beginning of the operator in nanoseconds, which takes half of the memory of a [`Duration`].
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
