//! What a request has learnt from outside so far, so that its verb can be run again.
//!
//! A verb runs several times if it needs webhooks: every run gets further by the answers that
//! `http/service.rs` has fetched after the run before. What a run has made up (names, uids, times) is
//! remembered as well, so that the next run goes on with the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::status::StatusError;
use crate::catalog::webhooks::Target;

/// What one request has learnt. Empty for requests that need nobody's word.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the place of the question in the course of the verb.
    answers: HashMap<String, Answered>,
    /// What earlier runs have made up.
    decided: HashMap<String, Value>,
    /// What this run would like to know.
    pending: Vec<(String, Call)>,
    /// What webhooks have said in this run for the client to know.
    warnings: Vec<String>,
}

/// An answer, with the uid of the question.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub uid: String,
    /// The decoded body, or why there is none.
    pub outcome: Result<Value, String>,
}

impl Replay {
    /// The answer to a question; None if it has to be asked first.
    pub(crate) fn ask(&self, key: &str, call: impl FnOnce() -> Call) -> Option<Answered> {
        let mut known = self.known();
        if let Some(answered) = known.answers.get(key) {
            return Some(answered.clone());
        }
        known.pending.push((key.to_owned(), call()));
        None
    }

    /// What was decided in an earlier run, or is decided now.
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

    /// Ends a run that cannot go on without answers. The client never sees it.
    pub(crate) fn wait() -> StatusError {
        StatusError::internal("an answer from outside is awaited")
    }

    pub(crate) fn warn(&self, warning: impl Into<String>) {
        self.known().warnings.push(warning.into());
    }

    /// Starts a run.
    pub(crate) fn begin(&self) {
        let mut known = self.known();
        known.pending.clear();
        known.warnings.clear();
    }

    /// What the run would like to know.
    pub(crate) fn take_pending(&self) -> Vec<(String, Call)> {
        std::mem::take(&mut self.known().pending)
    }

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

/// A question to a webhook.
#[derive(Debug)]
pub(crate) struct Call {
    pub target: Arc<Target>,
    pub timeout: Duration,
    pub uid: String,
    pub body: Value,
}
