//! An object and what has happened to it, without types: what callbacks of filters look at.
//!
//! It is also the source of most extractors. All handlers of one cycle share one.

use std::sync::Arc;

use kopf_engine::CycleContext;
use kopf_object::{Body, Diff, FieldPath, ObjectReference};
use kopf_reaction::{EventType, Reason, Resource};
use serde_json::Value;

use crate::extract::FromCall;
use crate::review::Reviewed;
use crate::{Call, Memo, Patch, Result, Review, call};

/// One moment of one object.
#[derive(Clone)]
pub struct Context {
    cycle: Arc<CycleContext>,
    reference: Arc<ObjectReference>,
    /// What else is known of an object under review by webhooks.
    reviewed: Option<Reviewed>,
}

impl Context {
    pub(crate) fn new(cycle: Arc<CycleContext>) -> Self {
        let mut reference = cycle.body.reference();
        // Items of lists do not tell their kind, but the list does.
        reference.api_version.get_or_insert_with(|| cycle.resource.api_version());
        reference.kind.get_or_insert_with(|| cycle.resource.kind.clone());
        Self { cycle, reference: Arc::new(reference), reviewed: None }
    }

    pub(crate) fn of_review(cycle: Arc<CycleContext>, reviewed: Reviewed) -> Self {
        Self { reviewed: Some(reviewed), ..Self::new(cycle) }
    }

    /// What is asked about the object; None where it is not under review.
    pub fn review(&self) -> Option<&Review> {
        self.reviewed.as_ref().map(|reviewed| reviewed.review.as_ref())
    }

    pub(crate) fn cycle(&self) -> Arc<CycleContext> {
        Arc::clone(&self.cycle)
    }

    pub(crate) fn reviewed(&self) -> Option<&Reviewed> {
        self.reviewed.as_ref()
    }

    /// The whole object.
    pub fn body(&self) -> &Body {
        &self.cycle.body
    }

    /// The value of a field, such as `spec.size`.
    pub fn get(&self, field: impl Into<FieldPath>) -> Option<&Value> {
        self.cycle.body.get(&field.into()).filter(|value| !value.is_null())
    }

    /// The name of the object; empty if it has none.
    pub fn name(&self) -> &str {
        self.cycle.body.name().unwrap_or_default()
    }

    /// The key of the object in the memory of the operator.
    pub(crate) fn uid(&self) -> &str {
        &self.cycle.uid
    }

    /// The namespace of the object; None if it is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.cycle.body.namespace()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.cycle.body.labels().get(key)?.as_str()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.cycle.body.annotation(key)
    }

    /// The kind of the object, as the cluster knows it.
    pub fn resource(&self) -> &Resource {
        &self.cycle.resource
    }

    /// How the object has come; None if it was not by an event.
    pub fn event_type(&self) -> Option<EventType> {
        self.cycle.event
    }

    /// What has happened; None if that is not known yet.
    pub fn reason(&self) -> Option<Reason> {
        self.cycle.cause.get().map(|cause| cause.reason)
    }

    /// The essence of the object as it was handled last.
    pub fn old(&self) -> Option<&Value> {
        self.cycle.cause.get()?.old.as_ref()
    }

    /// The essence of the object as it is now.
    pub fn new_value(&self) -> Option<&Value> {
        self.cycle.cause.get()?.new.as_ref()
    }

    /// What has changed in between.
    pub fn diff(&self) -> Option<&Diff> {
        self.cycle.cause.get().map(|cause| &cause.diff)
    }

    /// The patch of the cycle.
    pub fn patch(&self) -> Patch {
        let slot = self.cycle.slot.get_or_init(|| Box::new(Patch::new()));
        slot.downcast_ref::<Patch>().cloned().unwrap_or_default()
    }

    /// The memory of the object.
    pub fn memo(&self) -> Memo {
        let slot = self.cycle.memory.get_or_init(|| Box::new(Memo::new()));
        slot.downcast_ref::<Memo>().cloned().unwrap_or_default()
    }

    pub(crate) fn reference(&self) -> &Arc<ObjectReference> {
        &self.reference
    }

    /// How the object is called in errors.
    pub(crate) fn title(&self) -> String {
        call::title(&self.cycle.resource.kind, &self.reference)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Context").field(&self.title()).finish()
    }
}

impl<S: Sync> FromCall<S> for Context {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        Ok(call.context().clone())
    }
}
