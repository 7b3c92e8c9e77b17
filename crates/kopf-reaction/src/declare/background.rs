//! What only daemons and timers have in their declarations.

use serde::Deserialize;

use super::backoff::Seconds;

/// What only daemons and timers have in their declarations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BackgroundOptions {
    /// Before the first call.
    pub initial_delay: Option<InitialDelay>,
    /// Timers: seconds between the calls; None means that there is only one, or one per idling.
    pub interval: Option<Seconds>,
    /// Timers: the interval counts from the start of a call to the start of the next one.
    pub sharp: bool,
    /// Timers: seconds for which the object must not have changed before a call.
    pub idle: Option<Seconds>,
    /// Daemons: seconds to exit by the flag, before the cancellation.
    pub cancellation_backoff: Option<Seconds>,
    /// Daemons: seconds to exit by the cancellation, before they are given up; None means never.
    pub cancellation_timeout: Option<Seconds>,
    /// Daemons: seconds between the looks at one that still exits.
    pub cancellation_polling: Option<Seconds>,
}

/// How long a daemon or a timer waits before its first call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum InitialDelay {
    Seconds(Seconds),
    /// A function of the user tells it; the front is asked.
    Callback {
        callback: bool,
    },
}
