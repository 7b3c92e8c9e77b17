//! What one call of a handler came to.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a front tells of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// The returned value, or the error.
    pub result: Result<Option<Value>, CallError>,
    /// The sub-handlers that were looked at in the call, of all levels.
    pub subrefs: BTreeSet<String>,
}

/// The ways in which a call can fail.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// To be tried again after the delay (at once if there is none), by the user's own wish.
    Temporary { message: String, display: String, delay: Option<f64> },
    /// Failed for good, by the user's own wish.
    Permanent { message: String, display: String },
    /// Failed for good, with a code for whoever has asked for admission.
    Denied { message: String, display: String, code: Option<u16> },
    /// Failed for good; the text says it all already.
    Exhausted { message: String },
    /// The call was cancelled because its time was over.
    TimedOut,
    /// Given up without an outcome, as the operator stops; as good as if it was never called.
    Abandoned,
    /// Some sub-handlers are not finished yet.
    ChildrenRetry { delay: Option<f64> },
    /// Anything else: what it means depends on the handler's declaration.
    Arbitrary { message: String, display: String },
}

/// What one call means for the handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// No more attempts.
    pub is_final: bool,
    /// The text of the error; None means success.
    pub error: Option<String>,
    /// Seconds until the next try; None means at once.
    pub delay: Option<f64>,
    /// What goes to the status.
    pub result: Option<Value>,
    pub subrefs: BTreeSet<String>,
}
