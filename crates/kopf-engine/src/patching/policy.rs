//! What each error of a patch means.

use kopf_object::Body;

use crate::ApiError;
use crate::front::FrontFailure;

/// A change that was not made in full; to be tried again later.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct IncompletePatch {
    pub error: PatchError,
    /// The latest body, if a part of the change was made.
    pub latest: Option<Body>,
}

/// Why a change could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatchError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the answer to a patch cannot be read: {0}")]
    PatchAnswer(#[from] serde_json::Error),
    #[error("the object changes faster than it can be patched")]
    Conflicts,
    #[error("there is another object under the same name")]
    Replaced,
    #[error("the transformations of the patch have failed: {}", .0.message)]
    Transformation(FrontFailure),
}

impl PatchError {
    /// The same change may be accepted later on.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Api(error) => matches!(ErrorPolicy::of(error), ErrorPolicy::Retry | ErrorPolicy::Throttle),
            Self::PatchAnswer(_) | Self::Conflicts => true,
            Self::Replaced | Self::Transformation(_) => false,
        }
    }
}

/// What an error of a patch patcher; see the table of [`super`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorPolicy {
    /// The object is not there any more.
    Gone,
    /// The content is at fault, and will be later on, too.
    Reject,
    /// It may help to send it again, at once or soon.
    Retry,
    /// Only time can help.
    Throttle,
}

impl ErrorPolicy {
    pub(super) fn of(error: &ApiError) -> Self {
        match error {
            ApiError::NotFound(_) => Self::Gone,
            ApiError::Unprocessable(_) | ApiError::Client(_) => Self::Reject,
            ApiError::Conflict(_) | ApiError::Unclear { .. } => Self::Retry,
            // Those of the server and of the network were retried by the request layer as far as that is safe.
            ApiError::Unauthorized(_)
            | ApiError::Forbidden(_)
            | ApiError::Gone(_)
            | ApiError::TooManyRequests(_)
            | ApiError::Server(_)
            | ApiError::Timeout { .. }
            | ApiError::Connecting { .. }
            | ApiError::Connection { .. }
            | ApiError::Decoding { .. }
            | ApiError::Building { .. } => Self::Throttle,
        }
    }
}
