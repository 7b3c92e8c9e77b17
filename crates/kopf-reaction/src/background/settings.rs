//! The settings of the operator that matter for background tasks.

use std::time::Duration;

use crate::Seconds;

/// The settings of the operator that matter for runs.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// Seconds after an arbitrary error, where the handler does not say.
    pub default_backoff: f64,
    /// Between the looks at a run that still exits, where the handler does not say.
    pub cancellation_polling: Seconds,
    /// How long an instant takes.
    pub instant_exit: Duration,
    /// Whether notes for debugging are wanted.
    pub verbose: bool,
}

/// A number of seconds; what makes no sense is zero, and nothing is beyond what can be added up.
pub(super) fn duration(seconds: f64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |duration| duration.min(LONGEST))
}
