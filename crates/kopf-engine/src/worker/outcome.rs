//! What one cycle came to, and why it may fail.

use std::time::Duration;

use kopf_object::Body;
use tokio::time::Instant;

use crate::front::FrontFailure;
use crate::patching::{IncompletePatch, Latest, PatchError};
use crate::support::FrontError;

/// How far a cycle has brought the object.
pub(super) struct CycleOutcome {
    /// The latest state, if anything was patched.
    pub patched: Option<Latest>,
    /// When handlers are due again.
    pub wake: Option<Instant>,
    /// The object turned out to be gone.
    pub gone: bool,
    /// All handlers are done.
    pub fully_handled: bool,
    /// The handlers cause one update of their own object after another: how long the next one must wait.
    pub own_update_delay: Option<Duration>,
}

impl CycleOutcome {
    pub(super) fn unpatched(wake: Option<Instant>, gone: bool) -> Self {
        Self { patched: None, wake, gone, fully_handled: false, own_update_delay: None }
    }
}

/// What a patch has done to the object.
pub(super) enum WriteOutcome {
    /// There was nothing to patch.
    Untouched,
    /// The latest state.
    Patched(Latest),
    /// The object turned out to be gone.
    Gone,
}

/// Why a cycle could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum CycleError {
    #[error("{}", .0.message)]
    Front(FrontFailure),
    #[error(transparent)]
    Patching(#[from] IncompletePatch),
}

impl From<FrontFailure> for CycleError {
    fn from(failure: FrontFailure) -> Self {
        Self::Front(failure)
    }
}

impl CycleError {
    /// The error of the user's code, for its traceback.
    pub(super) fn into_front_error(self) -> Option<FrontError> {
        match self {
            Self::Front(failure) => failure.error,
            Self::Patching(IncompletePatch { error: PatchError::Transformation(failure), .. }) => failure.error,
            Self::Patching(_) => None,
        }
    }

    /// The latest body, if the object was patched nevertheless.
    pub(super) fn latest(&self) -> Option<&Body> {
        match self {
            Self::Front(_) => None,
            Self::Patching(incomplete) => incomplete.latest.as_ref(),
        }
    }
}
