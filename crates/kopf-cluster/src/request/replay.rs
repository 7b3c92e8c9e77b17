//! The responses of webhooks to one request, and the values that its verb has generated.
//!
//! Verbs are synchronous, calls to webhooks are not. A verb that needs webhooks therefore runs several times:
//! each run stops at the first response that is missing, `http/service.rs` fetches the responses and runs the
//! verb again. Generated names, uids and times are kept as well, so that every run uses the same ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::status::StatusError;
use crate::catalog::webhooks::Target;

/// The state of one request between the runs of its verb. Empty if no webhook is involved.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The responses, by the step of the verb that needs them.
    answers: HashMap<String, Answered>,
    /// The values that earlier runs have decided on.
    decided: HashMap<String, Value>,
    /// The calls whose responses this run is missing.
    pending: Vec<(String, Call)>,
    /// The warnings of webhooks for the client, in this run.
    warnings: Vec<String>,
}

/// The response to a call, with the uid of the call.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub uid: String,
    /// The decoded body, or why the call has failed.
    pub outcome: Result<Value, String>,
}

impl Replay {
    /// The response to a call. If it is not there yet, adds the call to the pending ones and returns None.
    pub(crate) fn ask(&self, key: &str, call: impl FnOnce() -> Call) -> Option<Answered> {
        let mut known = self.known();
        if let Some(answered) = known.answers.get(key) {
            return Some(answered.clone());
        }
        known.pending.push((key.to_owned(), call()));
        None
    }

    /// The value that an earlier run has decided on, or else decides now and keeps it for later runs.
    pub(crate) fn once(
        &self,
        key: &str,
        decide: impl FnOnce() -> Result<Value, StatusError>,
    ) -> Result<Value, StatusError> {
        if let Some(decided) = self.known().decided.get(key) {
            return Ok(decided.clone());
        }
        let decided = decide()?;
        self.known().decided.insert(key.to_owned(), decided.clone());
        Ok(decided)
    }

    /// The error by which a run stops until the pending calls have their responses. Clients never see it.
    pub(crate) fn wait() -> StatusError {
        StatusError::internal("an answer from outside is awaited")
    }

    /// Adds a warning to the response of this run.
    pub(crate) fn warn(&self, warning: impl Into<String>) {
        self.known().warnings.push(warning.into());
    }

    /// Starts a run.
    pub(crate) fn begin(&self) {
        let mut known = self.known();
        known.pending.clear();
        known.warnings.clear();
    }

    /// The calls to make before the next run.
    pub(crate) fn take_pending(&self) -> Vec<(String, Call)> {
        std::mem::take(&mut self.known().pending)
    }

    /// Stores the response to a call for the next run.
    pub(crate) fn learn(&self, key: String, answered: Answered) {
        self.known().answers.insert(key, answered);
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.known().warnings)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call to a webhook.
#[derive(Debug)]
pub(crate) struct Call {
    pub target: Arc<Target>,
    pub timeout: Duration,
    pub uid: String,
    pub body: Value,
}
