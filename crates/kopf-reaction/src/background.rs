//! Daemons and timers: what is declared of them, which of them must run, how they run, how they are stopped.
//!
//! The cycle of an object decides which runs begin and end ([`BackgroundPlan`]). Each run is a machine of its own
//! ([`BackgroundTask`]): when it is due, what came of a call, how far its stopping is. The engine keeps the time and calls.

mod plan;
mod task;
mod stopping;

use serde::Deserialize;

use crate::Seconds;

pub use plan::{BackgroundPlan, BackgroundView, TaskPhase};
pub use stopping::StopStep;
pub use task::{BackgroundTask, Moment, TaskEnding, TaskSettings, TaskStep};

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

/// Why a run is to stop, and how far its stopping has come. The bits are those of kopf 1.45.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopReasons(u8);

impl StopReasons {
    /// The run is over, for whatever reason.
    pub const DONE: Self = Self(1);
    /// The object does not match the filters any more.
    pub const FILTERS_MISMATCH: Self = Self(2);
    /// The object is deleted, or is about to be.
    pub const RESOURCE_DELETED: Self = Self(4);
    /// Another operator has the priority.
    pub const OPERATOR_PAUSING: Self = Self(8);
    /// The operator stops.
    pub const OPERATOR_EXITING: Self = Self(16);
    /// It was asked to exit by itself, and has time for it.
    pub const DAEMON_SIGNALLED: Self = Self(32);
    /// It was cancelled.
    pub const DAEMON_CANCELLED: Self = Self(64);
    /// It did not exit in time; nobody waits for it any more.
    pub const DAEMON_ABANDONED: Self = Self(128);

    pub const fn bits(self) -> u8 {
        self.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
