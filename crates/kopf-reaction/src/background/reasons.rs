//! Why a task stops.

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
