//! The cause: what an event means for the handlers, with everything that they get as arguments.
//!
//! The cycle detects it from the body and from what was handled last; the fronts pass its parts to the functions.

mod detect;

use std::sync::Arc;

use kopf_object::{Body, Diff};
use serde_json::Value;

pub use detect::{DetectedReason, Facts, detect};

use crate::{EventType, FilterSubject, Handler, Reason};

/// What has happened to an object, as its handlers see it.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The current state of the object.
    pub body: Body,
    /// The event of the body; `None` if the body comes from the response to a patch, or from memory.
    pub event: Option<EventType>,
    /// Why the change handlers are called.
    pub reason: Reason,
    /// The object existed before the operator started, and was not handled in full since.
    pub initial: bool,
    /// The essence that was handled last.
    pub old: Option<Value>,
    /// The current essence.
    pub new: Option<Value>,
    /// The changes from `old` to `new`.
    pub diff: Diff,
    /// Somebody has requested the deletion of the object.
    pub deletion_ongoing: bool,
}

impl Cause {
    /// What filters check for event handlers and background tasks.
    pub fn as_event(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: None }
    }

    /// What filters check for change handlers.
    pub fn as_change(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: Some((self.old.as_ref(), self.new.as_ref())) }
    }

    /// The handlers that are declared for this reason, before any filters.
    pub(crate) fn declared_for(&self, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.reason.is_none_or(|reason| reason == self.reason))
            .filter(|handler| !handler.initial || (self.initial && (!self.deletion_ongoing || handler.deleted)))
            .cloned()
            .collect()
    }

    /// The `old`, `new` and `diff` of one handler: of its field, if it has one.
    pub fn change_for(&self, handler: &Handler) -> (Option<Value>, Option<Value>, Diff) {
        match &handler.field {
            None => (self.old.clone(), self.new.clone(), self.diff.clone()),
            Some(field) => {
                let resolve =
                    |essence: &Option<Value>| essence.as_ref().and_then(|value| field.resolve(value)).cloned();
                (resolve(&self.old), resolve(&self.new), self.diff.reduce(field))
            }
        }
    }
}
