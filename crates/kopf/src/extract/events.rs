//! Kubernetes Events about the object: `kubectl describe` shows them.

use std::fmt::Display;
use std::sync::Arc;

use kopf_engine::{EventDraft, Poster};
use kopf_object::ObjectReference;

use super::FromCall;
use crate::call::ObjectCall;
use crate::error::Result;

/// Posts events about the object in the background. If an event cannot be posted, the handler does not fail.
///
/// ```
/// use kopf::extract::Events;
/// use kopf::{Operator, on};
///
/// async fn create(events: Events) -> kopf::Result<()> {
///     events.normal("Scheduled", "The backup is scheduled.");
///     Ok(())
/// }
/// # let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
/// ```
#[derive(Clone, Default)]
pub struct Events {
    /// None outside of a running operator.
    poster: Option<Poster>,
    reference: Arc<ObjectReference>,
}

impl Events {
    /// Events that go nowhere, for calling handlers in tests.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// Posts a normal event.
    pub fn normal(&self, reason: impl Into<String>, message: impl Display) {
        self.post("Normal", reason, message);
    }

    /// Posts a warning.
    pub fn warning(&self, reason: impl Into<String>, message: impl Display) {
        self.post("Warning", reason, message);
    }

    /// Posts an event of any type.
    pub fn post(&self, event_type: impl Into<String>, reason: impl Into<String>, message: impl Display) {
        let Some(poster) = &self.poster else { return };
        poster.post(EventDraft {
            reference: ObjectReference::clone(&self.reference),
            kind: event_type.into(),
            reason: reason.into(),
            message: message.to_string(),
            backoffs: Vec::new(),
        });
    }
}

impl<S: Sync, C: ObjectCall> FromCall<S, C> for Events {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        let services = call.invocation().operator.connection.services();
        let poster = services.map(|services| services.poster);
        Ok(Self { poster, reference: Arc::clone(call.context().reference()) })
    }
}
