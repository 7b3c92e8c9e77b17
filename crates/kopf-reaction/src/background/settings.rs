//! The settings of the operator that matter for background tasks.

use std::time::Duration;

use crate::Seconds;

/// The settings of the operator that matter for background tasks.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// Seconds after an arbitrary error, unless the handler declares its backoff.
    pub default_backoff: f64,
    /// Seconds between checks of a task that is still exiting, unless the handler declares them.
    pub cancellation_polling: Seconds,
    /// How long the engine waits for functions that exit at once.
    pub instant_exit: Duration,
    /// Whether somebody wants notes for debugging.
    pub verbose: bool,
}

/// Converts seconds: NaN and negative numbers become zero, and the rest stays small enough for additions.
pub(super) fn duration(seconds: f64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |duration| duration.min(LONGEST))
}
