//! Options of daemons and timers.

use serde::Deserialize;

use super::backoff::Seconds;

/// Options of daemons and timers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BackgroundOptions {
    /// The delay before the first call.
    pub initial_delay: Option<InitialDelay>,
    /// Timers: seconds between the calls; `None` means one call, or one per idle time.
    pub interval: Option<Seconds>,
    /// Timers: the interval counts from the start of a call to the start of the next one.
    pub sharp: bool,
    /// Timers: seconds for which the object must not have changed before a call.
    pub idle: Option<Seconds>,
    /// Daemons: seconds to exit by the stop flag, before the cancellation.
    pub cancellation_backoff: Option<Seconds>,
    /// Daemons: seconds to exit after the cancellation, before the engine abandons them; `None` means no limit.
    pub cancellation_timeout: Option<Seconds>,
    /// Daemons: seconds between checks of one that is still exiting.
    pub cancellation_polling: Option<Seconds>,
}

/// How long a daemon or a timer waits before its first call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum InitialDelay {
    /// A fixed delay.
    Seconds(Seconds),
    /// A function of the user decides; the engine asks the front.
    Callback {
        /// Always true.
        callback: bool,
    },
}
