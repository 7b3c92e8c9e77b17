//! Who does what `kopf-reaction` decides, and the object that is being worked on.

use std::sync::{Arc, LazyLock};

use kopf_object::{Body, ObjectReference};
use kopf_reaction::{EventType, HandlerSet, ReactionSettings, Resource, Severity, UpToDateCheck, compact_sample};
use serde_json::Value;

use super::memory::ObjectMemory;
use super::pass::{ObjectInWork, ServedResource};
use crate::Settings;
use crate::background::Background;
use crate::calls::Caller;
use crate::discovery::schema::SchemaBook;
use crate::front::CycleContext;
use crate::patching::Patcher;
use crate::support::idle::IdleDetector;
use crate::support::log::OBJECTS;

/// What the compact storages write into the status.
static COMPACT_SAMPLE: LazyLock<Value> = LazyLock::new(compact_sample);

/// Does what `kopf-reaction` decides; shared by all workers.
pub(crate) struct Reactor {
    pub(super) caller: Arc<Caller>,
    pub(super) patcher: Arc<Patcher>,
    pub(super) settings: Arc<Settings>,
    reaction: Arc<ReactionSettings>,
    /// For the resources that keep everything in the status; None if the settings do not want that.
    compact_reaction: Option<Arc<ReactionSettings>>,
    pub(super) finalizer: Arc<str>,
    /// What the CRDs keep in the status.
    schemas: SchemaBook,
    /// The daemons and timers.
    pub background: Background,
    /// Notified of each pass.
    pub idle: IdleDetector,
}

/// What a reactor works with.
pub(crate) struct ReactorDeps {
    pub caller: Arc<Caller>,
    pub patcher: Arc<Patcher>,
    pub settings: Arc<Settings>,
    pub schemas: SchemaBook,
    pub background: Background,
    pub idle: IdleDetector,
}

/// A pass under way.
pub(super) struct ObjectPass<'a> {
    pub reactor: &'a Reactor,
    pub object: ObjectInWork<'a>,
    pub reference: Arc<ObjectReference>,
}

impl Reactor {
    pub(crate) fn new(deps: ReactorDeps) -> Self {
        let ReactorDeps { caller, patcher, settings, schemas, background, idle } = deps;
        let reaction = ReactionSettings {
            finalizer: settings.persistence.finalizer.clone(),
            progress: settings.persistence.progress_storage.clone(),
            diffbase: settings.persistence.diffbase_storage.clone(),
            lifecycle: settings.lifecycle,
            default_backoff: settings.execution.default_backoff,
        };
        Self {
            caller,
            patcher,
            reaction: Arc::new(reaction.expanded()),
            compact_reaction: settings.persistence.compact.then(|| Arc::new(reaction.compacted())),
            finalizer: settings.persistence.finalizer.as_str().into(),
            settings,
            schemas,
            background,
            idle,
        }
    }

    pub(crate) fn serve(&self, resource: &Arc<Resource>, handlers: HandlerSet) -> ServedResource {
        let up_to_date = UpToDateCheck::of(&handlers, &self.reaction);
        ServedResource { resource: Arc::clone(resource), handlers: Arc::new(handlers), up_to_date }
    }

    /// Whether nothing is left to do for the object, as its raw JSON shows: no cycle is needed to find that out.
    pub(crate) fn is_up_to_date(&self, served: &ServedResource, memory: &ObjectMemory, raw: &[u8]) -> bool {
        served.up_to_date.as_ref().is_some_and(|up_to_date| {
            memory.has_nothing_pending()
                // A cycle would log something about it, if only for debugging.
                && !self.caller.log.enabled(Severity::Debug, OBJECTS)
                && up_to_date.is_up_to_date(raw)
        })
    }

    /// Looked up in each cycle, because the schemas of resources change.
    pub(super) fn reaction_of(&self, resource: &Resource) -> &Arc<ReactionSettings> {
        match &self.compact_reaction {
            Some(compact)
                if resource.has_status_subresource() && self.schemas.keeps_in_status(resource, &COMPACT_SAMPLE) =>
            {
                compact
            }
            _ => &self.reaction,
        }
    }
}

impl ObjectPass<'_> {
    /// What the calls of one cycle share.
    pub(super) fn context(&mut self, body: Body, event: Option<EventType>) -> Arc<CycleContext> {
        Arc::new(CycleContext::new(
            Arc::clone(&self.object.key.uid),
            Arc::clone(&self.object.served.resource),
            body,
            event,
            Arc::clone(&self.reactor.finalizer),
            Arc::clone(self.object.memory.front.get_or_insert_default()),
        ))
    }

    pub(super) fn log(&self, severity: Severity, message: String) {
        self.reactor.caller.log.about(&self.reference, severity, message);
    }
}
