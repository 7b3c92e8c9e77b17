//! Why a background task stops.

/// Why a task stops, and how far it is with that. The bits are those of kopf 1.45.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopReasons(u8);

impl StopReasons {
    /// The task has ended.
    pub const DONE: Self = Self(1);
    /// The object does not match the filters any more.
    pub const FILTERS_MISMATCH: Self = Self(2);
    /// The object is deleted, or its deletion is requested.
    pub const RESOURCE_DELETED: Self = Self(4);
    /// The operator pauses for another one with a higher priority.
    pub const OPERATOR_PAUSING: Self = Self(8);
    /// The operator stops.
    pub const OPERATOR_EXITING: Self = Self(16);
    /// The stop flag is set, and the function has time to exit.
    pub const DAEMON_SIGNALLED: Self = Self(32);
    /// The engine has cancelled the function.
    pub const DAEMON_CANCELLED: Self = Self(64);
    /// The function did not exit in time, and the engine does not wait for it any more.
    pub const DAEMON_ABANDONED: Self = Self(128);

    /// The reasons as a number.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is no reason at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of the other reasons are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// All reasons of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
