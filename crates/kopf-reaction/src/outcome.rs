//! The outcome of one call of a handler.
//!
//! The front returns a [`CallOutcome`]; a batch or a background task turns it into an [`Outcome`].

use std::collections::BTreeSet;

use serde_json::Value;

/// What the front returns for one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// The returned value, or the error.
    pub result: Result<Option<Value>, CallError>,
    /// The ids of the sub-handlers of all levels that the call has declared.
    pub subrefs: BTreeSet<String>,
}

/// The ways in which a call can fail.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// The user asks for a retry after the delay, or at once.
    Temporary {
        /// The text for the record.
        message: String,
        /// The text for the log.
        display: String,
        /// Seconds.
        delay: Option<f64>,
    },
    /// The user asks not to retry.
    Permanent {
        /// The text for the record.
        message: String,
        /// The text for the log.
        display: String,
    },
    /// An admission handler denies the change, with an HTTP status code for the API server.
    Denied {
        /// The text for the record.
        message: String,
        /// The text for the log and for the API server.
        display: String,
        /// The HTTP status code.
        code: Option<u16>,
    },
    /// The time or the attempts are used up; the message is complete.
    Exhausted {
        /// The text for the record and for the log.
        message: String,
    },
    /// The front has cancelled the call at its timeout.
    TimedOut,
    /// The operator stops, and the call has no outcome: as if it was never made.
    Abandoned,
    /// Some sub-handlers are not finished yet.
    ChildrenRetry {
        /// Seconds until the next sub-handler is due.
        delay: Option<f64>,
    },
    /// Any other error: the declaration of the handler decides what it means.
    Arbitrary {
        /// The text for the record.
        message: String,
        /// The text for the log.
        display: String,
    },
}

/// What one call means for the handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// No more attempts.
    pub is_final: bool,
    /// The text of the error; `None` means success.
    pub error: Option<String>,
    /// Seconds until the next attempt; `None` means at once.
    pub delay: Option<f64>,
    /// The returned value, for the status.
    pub result: Option<Value>,
    /// The ids of the sub-handlers of all levels.
    pub subrefs: BTreeSet<String>,
}
