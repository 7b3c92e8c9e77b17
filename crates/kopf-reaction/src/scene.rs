//! What a handling cycle looks at, once it is known what has happened: shared by the cycle, its
//! rounds of sub-handlers, and the calls under way.

use std::sync::Arc;

use kopf_object::{Body, Diff, FieldPath, diff};
use serde_json::Value;

use crate::handler::deduplicated;
use crate::{
    Cause, DiffBaseStorage, EventType, Handler, HandlerKind, Lifecycle, ProgressStorage, Reason, Resource, Subject,
};

/// The settings of the operator that matter for decisions.
#[derive(Clone, Debug)]
pub struct ReactionSettings {
    pub finalizer: String,
    pub progress: ProgressStorage,
    pub diffbase: DiffBaseStorage,
    pub lifecycle: Lifecycle,
    /// Seconds after an arbitrary error, where the handler does not say.
    pub default_backoff: f64,
}

impl Default for ReactionSettings {
    fn default() -> Self {
        Self {
            finalizer: "kopf.zalando.org/KopfFinalizerMarker".to_owned(),
            progress: ProgressStorage::default(),
            diffbase: DiffBaseStorage::default(),
            lifecycle: Lifecycle::default(),
            default_backoff: 60.0,
        }
    }
}

/// The handlers of one kind of objects.
#[derive(Clone, Debug, Default)]
pub struct HandlerSet {
    pub watching: Vec<Arc<Handler>>,
    pub changing: Vec<Arc<Handler>>,
    pub indexing: Vec<Arc<Handler>>,
    /// Daemons and timers.
    pub background: Vec<Arc<Handler>>,
    /// The change handlers without repetitions: whose progress can be on the objects.
    pub owned: Vec<Arc<Handler>>,
    /// The fields that handlers name: part of the essence wherever they are.
    pub extra_fields: Vec<FieldPath>,
}

impl HandlerSet {
    /// The handlers that serve a kind, out of all of an operator.
    pub fn of(resource: &Resource, handlers: &[Arc<Handler>]) -> Self {
        Self::from_handlers(handlers.iter().filter(|handler| handler.serves(resource)).cloned())
    }

    pub fn from_handlers(handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        let mut set = Self::default();
        for handler in handlers {
            // Indexes look at bodies, not at changes: their fields say nothing about the essence.
            let fields = handler.field.iter().chain(&handler.extra_fields);
            for field in fields.filter(|_| handler.kind != HandlerKind::Indexing) {
                if !set.extra_fields.contains(field) {
                    set.extra_fields.push(field.clone());
                }
            }
            match handler.kind {
                HandlerKind::Watching => set.watching.push(handler),
                HandlerKind::Changing => set.changing.push(handler),
                HandlerKind::Indexing => set.indexing.push(handler),
                HandlerKind::Daemon | HandlerKind::Timer => set.background.push(handler),
                HandlerKind::Activity | HandlerKind::Webhook => {}
            }
        }
        set.owned = deduplicated(set.changing.clone());
        set
    }

    /// There is nothing to be done with an object but to index it.
    pub fn only_indexes(&self) -> bool {
        self.watching.is_empty() && self.changing.is_empty() && self.background.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.only_indexes() && self.indexing.is_empty()
    }
}

/// One moment of one object, as the handlers get to see it.
#[derive(Clone, Debug)]
pub struct Scene {
    pub body: Body,
    /// The event that has brought the body; None if it came as the answer to a patch, or was waited with.
    pub event: Option<EventType>,
    pub cause: Cause,
    /// The essence as it was handled last.
    pub old: Option<Value>,
    /// The essence of now.
    pub new: Option<Value>,
    pub diff: Diff,
    pub deletion_ongoing: bool,
}

impl Scene {
    pub fn reason(&self) -> Reason {
        self.cause.reason
    }

    /// What the filters of events look at.
    pub fn as_event(&self) -> Subject<'_> {
        Subject { body: &self.body, change: None }
    }

    /// What the filters of changes look at.
    pub fn as_change(&self) -> Subject<'_> {
        Subject { body: &self.body, change: Some((self.old.as_ref(), self.new.as_ref())) }
    }

    /// The handlers that are declared for the reason, before any filters.
    pub(crate) fn declared_for(&self, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.reason.is_none_or(|reason| reason == self.cause.reason))
            .filter(|handler| !handler.initial || (self.cause.initial && (!self.deletion_ongoing || handler.deleted)))
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

    pub(crate) fn difference(old: Option<&Value>, new: Option<&Value>) -> Diff {
        diff(old, new)
    }
}
