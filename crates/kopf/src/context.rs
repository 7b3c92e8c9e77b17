//! An object and what happened to it, without types: what the callbacks of filters look at.
//!
//! Most extractors take their values from it. All handlers of one cycle, or of one review, share its contents.

pub(crate) mod patch;
pub(crate) mod memo;
pub(crate) mod review;

use std::sync::Arc;

use kopf_engine::{CycleContext, WebhookContext};
use kopf_object::{Body, Diff, FieldPath, ObjectReference};
use kopf_reaction::{Cause, EventType, Reason, Resource};
use serde_json::Value;

use self::memo::Memo;
use self::patch::Patch;
use self::review::{Review, ReviewRequest, ReviewState};

/// One state of one object: the parameter of filter callbacks, and of handlers that want everything untyped.
#[derive(Clone)]
pub struct Context {
    source: Source,
    reference: Arc<ObjectReference>,
}

/// What the engine knows about the object.
#[derive(Clone)]
enum Source {
    /// The object was listed, watched or patched.
    Cycle(Arc<CycleContext>),
    /// The cluster asks before it changes or converts the object.
    Review(Arc<WebhookContext>),
}

impl Context {
    pub(crate) fn of_cycle(cycle: Arc<CycleContext>) -> Self {
        Self::new(Source::Cycle(cycle))
    }

    pub(crate) fn of_review(webhook: Arc<WebhookContext>) -> Self {
        Self::new(Source::Review(webhook))
    }

    fn new(source: Source) -> Self {
        let mut context = Self { source, reference: Arc::default() };
        let mut reference = context.body().reference();
        // Items of lists do not name their kind, but the list does.
        reference.api_version.get_or_insert_with(|| context.resource().api_version());
        reference.kind.get_or_insert_with(|| context.resource().kind.clone());
        context.reference = Arc::new(reference);
        context
    }

    /// The whole object.
    pub fn body(&self) -> &Body {
        match &self.source {
            Source::Cycle(cycle) => &cycle.body,
            Source::Review(webhook) => &webhook.body,
        }
    }

    /// The value of a field, such as `spec.size`.
    pub fn get(&self, field: impl Into<FieldPath>) -> Option<&Value> {
        self.body().get(&field.into()).filter(|value| !value.is_null())
    }

    /// The name of the object; empty if it has none.
    pub fn name(&self) -> &str {
        self.body().name().unwrap_or_default()
    }

    /// The namespace of the object; None if it is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.body().namespace()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.body().labels().get(key)?.as_str()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.body().annotation(key)
    }

    /// The resource of the object, as the cluster serves it.
    pub fn resource(&self) -> &Resource {
        match &self.source {
            Source::Cycle(cycle) => &cycle.resource,
            Source::Review(webhook) => &webhook.resource,
        }
    }

    /// How the object came; None if it did not come by an event.
    pub fn event_type(&self) -> Option<EventType> {
        match &self.source {
            Source::Cycle(cycle) => cycle.event,
            Source::Review(_) => None,
        }
    }

    /// Why the handlers are called; None in reviews, and where the engine does not know it yet.
    pub fn reason(&self) -> Option<Reason> {
        self.cause().map(|cause| cause.reason)
    }

    /// The essence of the object as it was handled last; in reviews, the object before the change.
    pub fn old_value(&self) -> Option<&Value> {
        match &self.source {
            Source::Cycle(_) => self.cause()?.old.as_ref(),
            Source::Review(webhook) => webhook.old.as_ref(),
        }
    }

    /// The essence of the object now; in reviews, the object after the change.
    pub fn new_value(&self) -> Option<&Value> {
        match &self.source {
            Source::Cycle(_) => self.cause()?.new.as_ref(),
            Source::Review(webhook) => webhook.new.as_ref(),
        }
    }

    /// The difference between the old value and the new one.
    pub fn diff(&self) -> Option<&Diff> {
        match &self.source {
            Source::Cycle(_) => self.cause().map(|cause| &cause.diff),
            Source::Review(webhook) => Some(&webhook.diff),
        }
    }

    /// Who requests which change; None if the object is not under review.
    pub fn review(&self) -> Option<Arc<Review>> {
        let Source::Review(webhook) = &self.source else { return None };
        match &ReviewState::of(webhook).request {
            ReviewRequest::Admission(review) => Some(Arc::clone(review)),
            ReviewRequest::Conversion(_) | ReviewRequest::Unreadable(_) => None,
        }
    }

    /// The patch of the cycle or of the review.
    pub fn patch(&self) -> Patch {
        match &self.source {
            Source::Cycle(cycle) => {
                let slot = cycle.slot.get_or_init(|| Box::new(Patch::new()));
                slot.downcast_ref::<Patch>().cloned().unwrap_or_default()
            }
            Source::Review(webhook) => ReviewState::of(webhook).patch.clone(),
        }
    }

    /// The in-memory values of the object.
    pub fn memo(&self) -> Memo {
        let memory = match &self.source {
            Source::Cycle(cycle) => &cycle.memory,
            Source::Review(webhook) => &webhook.memory,
        };
        let slot = memory.get_or_init(|| Box::new(Memo::new()));
        slot.downcast_ref::<Memo>().cloned().unwrap_or_default()
    }

    /// The key of the object in the memory of the operator.
    pub(crate) fn uid(&self) -> Arc<str> {
        match &self.source {
            Source::Cycle(cycle) => Arc::clone(&cycle.uid),
            Source::Review(webhook) => webhook.body.object_uid().into(),
        }
    }

    pub(crate) fn reference(&self) -> &Arc<ObjectReference> {
        &self.reference
    }

    /// How errors name the object.
    pub(crate) fn title(&self) -> String {
        let kind = &self.resource().kind;
        let name = self.reference.name.as_deref().unwrap_or("(unnamed)");
        match self.reference.namespace.as_deref() {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }

    fn cause(&self) -> Option<&Arc<Cause>> {
        match &self.source {
            Source::Cycle(cycle) => cycle.cause.get(),
            Source::Review(_) => None,
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Context").field(&self.title()).finish()
    }
}
