//! Kubernetes Events about the object, as `kubectl describe` shows them.

use std::fmt::Display;
use std::sync::Arc;

use kopf_engine::{EventDraft, Poster};
use kopf_object::ObjectReference;

use crate::call::AnyCall;
use crate::extract::FromCall;
use crate::{Call, Result};

/// Posts events about the object, in the background; nothing fails if they cannot be posted.
///
/// ```
/// use kopf::Events;
///
/// async fn create(events: Events) -> kopf::Result<()> {
///     events.normal("Scheduled", "The backup is scheduled.");
///     Ok(())
/// }
/// # let _: kopf::Operator = kopf::Operator::new().on(kopf::create("kopfexamples"), create);
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

    /// Something has happened as it should.
    pub fn normal(&self, reason: impl Into<String>, message: impl Display) {
        self.post("Normal", reason, message);
    }

    /// Something is not as it should be.
    pub fn warning(&self, reason: impl Into<String>, message: impl Display) {
        self.post("Warning", reason, message);
    }

    /// An event of any type.
    pub fn post(&self, kind: impl Into<String>, reason: impl Into<String>, message: impl Display) {
        let Some(poster) = &self.poster else { return };
        poster.post(EventDraft {
            reference: ObjectReference::clone(&self.reference),
            kind: kind.into(),
            reason: reason.into(),
            message: message.to_string(),
            backoffs: Vec::new(),
        });
    }
}

impl<S: Sync> FromCall<S> for Events {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let services = call.invocation().operator.connection.services();
        let poster = services.map(|services| services.poster);
        Ok(Self { poster, reference: Arc::clone(call.context().reference()) })
    }
}
