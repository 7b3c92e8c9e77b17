//! The cause: what an event means for the handlers, and what they get to see of it.

mod detect;

use std::sync::Arc;

use kopf_object::{Body, Diff};
use serde_json::Value;

pub use detect::{DetectedReason, Facts, detect};

use crate::{EventType, FilterSubject, Handler, Reason};

/// One moment of one object, as the handlers get to see it.
#[derive(Clone, Debug)]
pub struct Cause {
    pub body: Body,
    /// The event that has brought the body; None if it came as the answer to a patch, or was waited with.
    pub event: Option<EventType>,
    pub reason: Reason,
    /// The object was there when the operator started, and was not handled in full since.
    pub initial: bool,
    /// The essence as it was handled last.
    pub old: Option<Value>,
    /// The essence of now.
    pub new: Option<Value>,
    pub diff: Diff,
    pub deletion_ongoing: bool,
}

impl Cause {
    /// What the filters of events look at.
    pub fn as_event(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: None }
    }

    /// What the filters of changes look at.
    pub fn as_change(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: Some((self.old.as_ref(), self.new.as_ref())) }
    }

    /// The handlers that are declared for the reason, before any filters.
    pub(crate) fn declared_for(&self, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.reason.is_none_or(|reason| reason == self.reason))
            .filter(|handler| !handler.initial || (self.initial && (!self.deletion_ongoing || handler.deleted)))
            .cloned()
            .collect()
    }

    /// Old, new and diff as one handler gets them: those of its field if it has one.
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
