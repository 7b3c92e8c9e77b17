//! One pass of one object: its cycles, one after another, until nothing is left to do now.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kopf_object::{Body, ObjectReference};
use kopf_reaction::{EventType, HandlerSet, ReactionSettings, Resource, Severity, UpToDateCheck, compact_sample};
use serde_json::Value;

use super::cycle::{CycleError, CycleOutcome, WriteOutcome};
use super::memory::Unapplied;
use super::{AfterPass, ObjectInWork, ObjectMemory, Pass, ServedResource};
use crate::Settings;
use crate::background::Background;
use crate::calls::Caller;
use crate::discovery::schema::SchemaBook;
use crate::front::CycleContext;
use crate::patching::{IncompletePatch, Latest, Patcher};
use crate::support::idle::IdleDetector;
use crate::support::log::OBJECTS;
use crate::support::version_number;

/// What the compact storages write into the status.
static COMPACT_SAMPLE: LazyLock<Value> = LazyLock::new(compact_sample);

/// Cycles of one object in a row, before others have their passes.
const CYCLES_IN_A_ROW: usize = 8;

/// How often the deletion of an object that is gone already is looked at while its daemons end.
const GONE_OBJECT_POLLING: Duration = Duration::from_secs(1);

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
    pub fn new(deps: ReactorDeps) -> Self {
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

    pub fn serve(&self, resource: &Arc<Resource>, handlers: HandlerSet) -> ServedResource {
        let up_to_date = UpToDateCheck::of(&handlers, &self.reaction);
        ServedResource { resource: Arc::clone(resource), handlers: Arc::new(handlers), up_to_date }
    }

    /// Whether nothing is left to do for the object, as its raw JSON shows: no cycle is needed to find that out.
    pub fn is_up_to_date(&self, served: &ServedResource, memory: &ObjectMemory, raw: &[u8]) -> bool {
        served.up_to_date.as_ref().is_some_and(|up_to_date| {
            memory.has_nothing_pending()
                // A cycle would log something about it, if only for debugging.
                && !self.caller.log.enabled(Severity::Debug, OBJECTS)
                && up_to_date.is_up_to_date(raw)
        })
    }

    /// One pass of an object. It never fails, but may throttle the object.
    pub async fn pass(&self, object: ObjectInWork<'_>, pass: Pass) -> AfterPass {
        let reference = Arc::new(pass.body.reference());
        let mut object = ObjectPass { reactor: self, object, reference };
        if pass.only_index {
            Box::pin(object.index_only(pass)).await;
            return AfterPass::Indexed;
        }
        object.run(pass).await
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
    async fn run(&mut self, pass: Pass) -> AfterPass {
        let clock = &self.reactor.caller.clock;
        if self.object.memory.throttle.is_on() {
            self.log(Severity::Info, "Throttling is over. Switching back to normal operations.".to_owned());
        }
        let Pass { mut body, mut event, outdated, .. } = pass;
        let mut consistent = !outdated;
        if consistent {
            let memory = &mut *self.object.memory;
            memory.saw(version_number(body.resource_version()));
            memory.own_updates = if event.is_some() { 0 } else { memory.own_updates };
        }
        if event == Some(EventType::Deleted) {
            self.object.memory.throttle.clear();
        } else if consistent && let Some(unapplied) = self.object.memory.throttle.take_unapplied() {
            match Box::pin(self.catch_up(&body, unapplied)).await {
                Ok(Some(latest)) => body = latest,
                Ok(None) => return AfterPass::Forget,
                Err(error) => return self.throttle(Some(body), error),
            }
        }
        for number in 0..CYCLES_IN_A_ROW {
            if number > 0 && self.object.permit.must_yield() {
                break;
            }
            let outcome = self.cycle(&body, event, consistent).await;
            let memory = &mut *self.object.memory;
            match outcome {
                Err(error) if event == Some(EventType::Deleted) => {
                    self.log_error(format!("An unexpected error: {error}"), error);
                    return AfterPass::Forget;
                }
                Ok(_) if event == Some(EventType::Deleted) => {
                    let Some(last) = self.gone_in_spite_of_finalizer(&body) else { return AfterPass::Forget };
                    self.object.memory.is_gone = true;
                    (body, event) = (last, None);
                }
                Err(error) => {
                    if let Some(latest) = error.latest() {
                        memory.saw(version_number(latest.resource_version()));
                        (body, consistent) = (latest.clone(), true);
                    }
                    return self.throttle(consistent.then_some(body), error);
                }
                Ok(CycleOutcome { gone: true, .. }) => return AfterPass::Forget,
                Ok(CycleOutcome { patched, wake, .. })
                    if !patched.as_ref().is_some_and(|latest| differs(latest, &body)) =>
                {
                    memory.throttle.clear();
                    return match wake {
                        _ if !consistent => AfterPass::Unchanged,
                        None if memory.is_gone && memory.background.is_none() => AfterPass::Forget,
                        None if memory.is_gone => {
                            AfterPass::Requeue { when: clock.instant() + GONE_OBJECT_POLLING, body }
                        }
                        None => AfterPass::Idle,
                        Some(when) => AfterPass::Requeue { when, body },
                    };
                }
                Ok(CycleOutcome { patched, fully_handled, own_update_delay, .. }) => {
                    let Some(latest) = patched else { return AfterPass::Idle };
                    memory.throttle.clear();
                    memory.saw(version_number(latest.resource_version()));
                    let is_released = latest.is_released() && !memory.is_gone;
                    let served = self.object.served;
                    if is_released
                        || (fully_handled && self.reactor.is_up_to_date(served, self.object.memory, latest.raw()))
                    {
                        return AfterPass::Idle;
                    }
                    let latest = match latest.into_body() {
                        Ok(latest) => latest,
                        Err(error) => return self.throttle(None, IncompletePatch { error, latest: None }.into()),
                    };
                    if let Some(delay) = own_update_delay {
                        return AfterPass::Requeue { when: clock.instant() + delay, body: latest };
                    }
                    // Also if an event handler has patched the object on an outdated event: its echo will count as seen.
                    (body, event, consistent) = (latest, None, true);
                }
            }
        }
        AfterPass::Requeue { when: clock.instant(), body }
    }

    /// Writes what was decided before, but could not be written then. None if the object is gone.
    async fn catch_up(&mut self, body: &Body, unapplied: Unapplied) -> Result<Option<Body>, CycleError> {
        let fully_handled = unapplied.fully_handled;
        match self.write(body, unapplied).await? {
            WriteOutcome::Untouched => Ok(Some(body.clone())),
            WriteOutcome::Gone => Ok(None),
            WriteOutcome::Patched(latest) => {
                let memory = &mut *self.object.memory;
                memory.throttle.clear();
                memory.fully_handled_once |= fully_handled;
                memory.saw(version_number(latest.resource_version()));
                let latest = latest.into_body();
                Ok(Some(latest.map_err(|error| IncompletePatch { error, latest: None })?))
            }
        }
    }

    fn throttle(&mut self, body: Option<Body>, error: CycleError) -> AfterPass {
        let delays = &self.reactor.settings.queueing.error_delays;
        let Some(delay) = self.object.memory.throttle.next_delay(delays) else {
            self.log_error(format!("An unexpected error: {error}"), error);
            return AfterPass::Idle;
        };
        self.log_error(format!("Throttling for {delay} seconds due to an unexpected error: {error}"), error);
        AfterPass::Throttled { delay: crate::seconds(delay), body }
    }

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

    fn log_error(&self, message: String, error: CycleError) {
        self.reactor.caller.log.error_about(&self.reference, message, error.into_front_error());
    }
}

/// A patch that has changed nothing gives no reason to look at the object again.
fn differs(latest: &Latest, body: &Body) -> bool {
    latest.resource_version().is_none() || latest.resource_version() != body.resource_version()
}
