//! 4. and 5. One turn of one object: the decisions of `kopf-reaction` are carried out, one after another.
//!
//! The worker of an object calls [`Reactor::react`] with a body. Calls go to the front, the patch to the
//! API; the answer of the patch is the next body, so that the next handler starts from it at once.

mod driver;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use kopf_object::{Body, ObjectReference, finalizers};
use kopf_reaction::{
    Cycle, CycleConclusion, CycleInput, EventType, FinalizerChange, HandlerSet, Note, ReactionSettings, Reason,
    Resource, Severity, UpToDateCheck, compact_sample, diff_repr, python_repr,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use self::driver::Driver;
use crate::background::Background;
use crate::calls::Gates;
use crate::discovery::schema::{Placement, SchemaBook, placement};
use crate::front::{CycleContext, Front, FrontFailure};
use crate::metrics::{Metrics, PatchResult};
use crate::patching::{Applied, ApplyError, Change, Incomplete, Means, Newest, apply};
use crate::queue::{A_YEAR, Seat};
use crate::support::idle::Rest;
use crate::worker::{ObjectMemory, Unapplied, version_number};
use crate::{Api, Clock, FrontError, Level, Log, Record, Settings};

/// The loggers of objects.
pub(crate) const OBJECTS: &str = "kopf.objects";

/// What the compact storages write into the status.
static COMPACT_SAMPLE: LazyLock<Value> = LazyLock::new(compact_sample);

/// Cycles of one object in a row, before others have their turn.
const CYCLES_IN_A_ROW: usize = 8;

/// Updates of one object in a row that its own handlers have caused, before the next ones are delayed.
const OWN_UPDATES_AT_MOST: u8 = 10;

/// The longest of these delays.
const LONGEST_BRAKE: Duration = Duration::from_secs(60);

/// How often the deletion of an object that is gone already is looked at while its daemons end.
const GHOST_POLLING: Duration = Duration::from_secs(1);

/// One kind of objects, and what serves it.
pub(crate) struct ServedKind {
    pub resource: Arc<Resource>,
    pub handlers: Arc<HandlerSet>,
    /// How objects look when there is nothing to do for them; None if it takes a whole cycle to know.
    pub up_to_date: Option<UpToDateCheck>,
}

/// What carries the decisions out; shared by all workers.
pub(crate) struct Reactor {
    pub api: Api,
    pub front: Arc<dyn Front>,
    pub clock: Clock,
    pub log: Log,
    pub settings: Arc<Settings>,
    pub reaction: Arc<ReactionSettings>,
    /// For the kinds that keep everything in the status; None if that is not wanted.
    pub compact_reaction: Option<Arc<ReactionSettings>>,
    pub finalizer: Arc<str>,
    /// The limits on the calls of handlers.
    pub gates: Gates,
    pub metrics: Metrics,
    /// What the CRDs keep in the status.
    pub schemas: SchemaBook,
    /// Which handlers were told that their results do not fit the schema.
    pub warned: Mutex<BTreeSet<String>>,
    /// The daemons and timers.
    pub background: Background,
    /// Told of each turn and each call in the background.
    pub rest: Rest,
}

/// What is to be done with the object after its turn.
pub(crate) enum After {
    /// Nothing is pending.
    Rest,
    /// To be looked at again, with this body unless a newer one comes.
    Wake { when: Instant, body: Body },
    /// Resting after an error; newer bodies wait, too. Without a body: whatever was pending, is still.
    Throttled { delay: Duration, body: Option<Body> },
    /// It was an old news: whatever was pending, is still.
    Unchanged,
    /// The object is indexed; its handlers have to wait for all others.
    Indexed,
    /// The object is gone.
    Forget,
}

/// What brings an object to its turn.
pub(crate) struct Turn {
    pub body: Body,
    /// None if the body was waited with.
    pub event: Option<EventType>,
    /// The body is older than what is known already: for the spies only.
    pub outdated: bool,
    /// The handlers have to wait until all indexes are complete.
    pub only_index: bool,
}

impl Reactor {
    pub fn served_kind(&self, resource: &Arc<Resource>, handlers: HandlerSet) -> ServedKind {
        let up_to_date = UpToDateCheck::of(&handlers, &self.reaction);
        ServedKind { resource: Arc::clone(resource), handlers: Arc::new(handlers), up_to_date }
    }

    /// One turn of an object; it never fails, but may throttle the object.
    pub async fn react(
        &self,
        kind: &ServedKind,
        key: u64,
        uid: &Arc<str>,
        memory: &mut ObjectMemory,
        turn: Turn,
        seat: &mut Seat,
    ) -> After {
        if turn.only_index {
            Box::pin(self.index_only(kind, uid, memory, turn, seat)).await;
            return After::Indexed;
        }
        let reference = Arc::new(turn.body.reference());
        if memory.throttle.is_on() {
            self.say(&reference, Level::Info, "Throttling is over. Switching back to normal operations.".to_owned());
        }
        let Turn { mut body, mut event, outdated, .. } = turn;
        let mut consistent = !outdated;
        if consistent {
            memory.saw(version_number(body.resource_version()));
            memory.own_updates = if event.is_some() { 0 } else { memory.own_updates };
        }
        if event == Some(EventType::Deleted) {
            memory.throttle.clear();
        } else if consistent && let Some(unapplied) = memory.throttle.take_unapplied() {
            match Box::pin(self.catch_up(memory, &reference, &body, unapplied)).await {
                Ok(Some(newest)) => body = newest,
                Ok(None) => return After::Forget,
                Err(failure) => return self.throttle(memory, &reference, Some(body), failure),
            }
        }
        for number in 0..CYCLES_IN_A_ROW {
            if number > 0 && seat.is_recalled() {
                break;
            }
            match self.cycle(kind, key, uid, memory, &reference, body.clone(), event, consistent, seat).await {
                Err(failure) if event == Some(EventType::Deleted) => {
                    self.fail(&reference, format!("An unexpected error: {failure}"), failure.into_error());
                    return After::Forget;
                }
                Ok(_) if event == Some(EventType::Deleted) => {
                    let Some(ghost) = self.ghost_of(kind, memory, &reference, &body) else { return After::Forget };
                    memory.is_ghost = true;
                    (body, event) = (ghost, None);
                }
                Err(failure) => {
                    if let Some(newest) = failure.newest() {
                        memory.saw(version_number(newest.resource_version()));
                        (body, consistent) = (newest.clone(), true);
                    }
                    return self.throttle(memory, &reference, consistent.then_some(body), failure);
                }
                Ok(Progressed { gone: true, .. }) => return After::Forget,
                Ok(Progressed { patched, wake, .. })
                    if !patched.as_ref().is_some_and(|newest| differs(newest, &body)) =>
                {
                    memory.throttle.clear();
                    return match wake {
                        _ if !consistent => After::Unchanged,
                        None if memory.is_ghost && memory.background.is_none() => After::Forget,
                        None if memory.is_ghost => After::Wake { when: self.clock.instant() + GHOST_POLLING, body },
                        None => After::Rest,
                        Some(when) => After::Wake { when, body },
                    };
                }
                Ok(Progressed { patched, fully_handled, brake, .. }) => {
                    let Some(newest) = patched else { return After::Rest };
                    memory.throttle.clear();
                    memory.saw(version_number(newest.resource_version()));
                    let is_released = newest.is_released() && !memory.is_ghost;
                    if is_released || (fully_handled && self.is_settled(kind, memory, newest.raw())) {
                        return After::Rest;
                    }
                    let newest = match newest.into_body() {
                        Ok(newest) => newest,
                        Err(error) => {
                            let failure = Failure::Applying(Incomplete { error, newest: None });
                            return self.throttle(memory, &reference, None, failure);
                        }
                    };
                    if let Some(delay) = brake {
                        return After::Wake { when: self.clock.instant() + delay, body: newest };
                    }
                    // Also if a spy has patched the object on an old news: the echo of it will count as seen.
                    (body, event, consistent) = (newest, None, true);
                }
            }
        }
        After::Wake { when: self.clock.instant(), body }
    }

    /// Whether there is nothing to do for the object, as its text shows: then, no cycle is needed to see that.
    pub fn is_settled(&self, kind: &ServedKind, memory: &ObjectMemory, raw: &[u8]) -> bool {
        kind.up_to_date.as_ref().is_some_and(|up_to_date| {
            memory.has_nothing_pending()
                // The cycle would have something to say about it, if only for debugging.
                && !self.log.enabled(Level::Debug, OBJECTS)
                && up_to_date.is_up_to_date(raw)
        })
    }

    /// One cycle: what is decided, is called and patched.
    #[allow(clippy::too_many_arguments)]
    async fn cycle(
        &self,
        kind: &ServedKind,
        key: u64,
        uid: &Arc<str>,
        memory: &mut ObjectMemory,
        reference: &Arc<ObjectReference>,
        body: Body,
        event: Option<EventType>,
        consistent: bool,
        seat: &mut Seat,
    ) -> Result<Progressed, Failure> {
        if let Some(background) = &memory.background
            && consistent
        {
            background.see(&body);
        }
        let context = self.context(kind, uid, memory, body.clone(), event);
        let reindexing = match consistent {
            true if !kind.handlers.index_handlers.is_empty() => {
                Box::pin(self.index(kind, &context, memory, reference, seat)).await?
            }
            true => None,
            false => None,
        };
        if kind.handlers.only_indexes() {
            return Ok(Progressed {
                patched: None,
                wake: reindexing,
                gone: event == Some(EventType::Deleted),
                fully_handled: false,
                brake: None,
            });
        }
        let mut driver = Driver {
            reactor: self,
            cycle: Cycle::new(CycleInput {
                body: body.clone(),
                event,
                handlers: Arc::clone(&kind.handlers),
                settings: Arc::clone(self.reaction_of(&kind.resource)),
                initial: memory.is_initial(),
                consistent,
                background: self.background.view(memory.background.as_ref()),
                verbose: self.log.enabled(Level::Debug, OBJECTS),
            })
            .with_partly_handled(memory.partly_handled.clone()),
            context: Arc::clone(&context),
            reference: Arc::clone(reference),
            kind,
            key,
            background: &mut memory.background,
            consistent,
            seat,
            called: Vec::new(),
            wanted: None,
            transformations: false,
            last_error: None,
            decided: self.clock.instant(),
        };
        let conclusion = driver.run().await;
        let called = std::mem::take(&mut driver.called);
        let (wanted, transformations, decided) = (driver.wanted.take(), driver.transformations, driver.decided);
        memory.is_begun |= !called.is_empty();
        let conclusion = conclusion?;
        memory.partly_handled.clone_from(&conclusion.partly_handled);
        if event == Some(EventType::Deleted) {
            let (patched, wake, brake) = (None, None, None);
            return Ok(Progressed { patched, wake, gone: true, fully_handled: false, brake });
        }
        let fully_handled = conclusion.fully_handled;
        let brake =
            if fully_handled { self.brake(memory, reference, &context, &called, wanted.as_ref()) } else { None };
        // Delays count from the decision, however long the patch takes.
        let wake = conclusion.delay.map(|delay| decided + crate::seconds(delay).min(A_YEAR));
        let wake = [wake, reindexing].into_iter().flatten().min();
        // Apart, so that those who wait for their handlers take no memory for it.
        let concluding = self.conclude(kind, memory, &context, reference, &body, conclusion, wanted, transformations);
        let concluded = Box::pin(concluding).await?;
        memory.fully_handled_once |= fully_handled;
        Ok(match concluded {
            Concluded::Gone => Progressed { patched: None, wake: None, gone: true, fully_handled, brake },
            Concluded::Untouched => Progressed { patched: None, wake, gone: false, fully_handled, brake },
            Concluded::Patched(newest) => Progressed { patched: Some(newest), wake, gone: false, fully_handled, brake },
        })
    }

    /// How long the next update is to be delayed, if the handlers cause one update of their object after another.
    fn brake(
        &self,
        memory: &mut ObjectMemory,
        reference: &Arc<ObjectReference>,
        context: &CycleContext,
        called: &[Arc<str>],
        wanted: Option<&Value>,
    ) -> Option<Duration> {
        let cause = context.cause.get()?;
        let is_wanted =
            wanted.and_then(Value::as_object).is_some_and(|wanted| wanted.keys().any(|key| key != "status"));
        let is_own = cause.reason == Reason::Update && context.event.is_none() && is_wanted;
        memory.own_updates = if is_own { memory.own_updates.saturating_add(1) } else { 0 };
        let excess = memory.own_updates.checked_sub(OWN_UPDATES_AT_MOST)?;
        let delay = Duration::from_secs(1 << excess.min(6)).min(LONGEST_BRAKE);
        let fields: BTreeSet<String> = cause.diff.iter().map(|item| item.field.to_string()).collect();
        let handlers: Vec<String> = called.iter().map(|id| python_repr(&Value::from(&**id))).collect();
        let text = format!(
            "Handler {} changes {} of its own object at each call, which calls it again: {} times in a row by now. \
            The next call is delayed by {} seconds.",
            handlers.join(", "),
            fields.into_iter().collect::<Vec<_>>().join(", "),
            memory.own_updates,
            delay.as_secs(),
        );
        self.say(reference, Level::Warning, text);
        Some(delay)
    }

    /// The last state of an object that has disappeared in spite of our finalizer; None if all is as it should be.
    ///
    /// The API server decides by the object that it has read first: if the finalizer is added just then, the object is
    /// deleted at once nevertheless. What its handlers have begun for it, they have to undo.
    fn ghost_of(
        &self,
        kind: &ServedKind,
        memory: &ObjectMemory,
        reference: &Arc<ObjectReference>,
        body: &Body,
    ) -> Option<Body> {
        let is_held = finalizers::is_deletion_blocked(body.without_managed_fields(), &self.finalizer);
        let is_overtaken = is_held && !finalizers::is_deletion_ongoing(body.without_managed_fields());
        let is_handled = kind.handlers.change_handlers.iter().any(|handler| handler.reason == Some(Reason::Delete));
        if !(is_overtaken && memory.is_begun && is_handled) {
            return None;
        }
        self.say(
            reference,
            Level::Warning,
            "The object was deleted at the moment when the finalizer was added, so that the finalizer had no effect. \
            The deletion handlers are called with its last state; their progress is kept in memory only."
                .to_owned(),
        );
        let mut ghost = body.value().clone();
        ghost["metadata"]["deletionTimestamp"] = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
        Some(Body::from_value(ghost))
    }

    /// Writes what was decided before, but could not be written then. None if the object is gone.
    async fn catch_up(
        &self,
        memory: &mut ObjectMemory,
        reference: &Arc<ObjectReference>,
        body: &Body,
        unapplied: Unapplied,
    ) -> Result<Option<Body>, Failure> {
        let Unapplied { change, context, fully_handled } = unapplied;
        match self.write(memory, &context, reference, body, change, fully_handled).await? {
            Concluded::Untouched => Ok(Some(body.clone())),
            Concluded::Gone => Ok(None),
            Concluded::Patched(newest) => {
                memory.throttle.clear();
                memory.fully_handled_once |= fully_handled;
                memory.saw(version_number(newest.resource_version()));
                let newest = newest.into_body();
                Ok(Some(newest.map_err(|error| Failure::Applying(Incomplete { error, newest: None }))?))
            }
        }
    }

    /// Looked up anew in each cycle, since the schemas of kinds change.
    fn reaction_of(&self, resource: &Resource) -> &Arc<ReactionSettings> {
        match &self.compact_reaction {
            Some(compact)
                if resource.has_status_subresource() && self.schemas.keeps_in_status(resource, &COMPACT_SAMPLE) =>
            {
                compact
            }
            _ => &self.reaction,
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn conclude(
        &self,
        kind: &ServedKind,
        memory: &mut ObjectMemory,
        context: &Arc<CycleContext>,
        reference: &Arc<ObjectReference>,
        body: &Body,
        conclusion: CycleConclusion,
        mut wanted: Option<Value>,
        transformations: bool,
    ) -> Result<Concluded, Failure> {
        let stored_by_user = !conclusion.operations.is_empty();
        if stored_by_user {
            wanted = self.front.write_storage(Arc::clone(context), conclusion.operations).await?;
        }
        for (id, result) in conclusion.results {
            self.deliver(&kind.resource, reference, &mut wanted, &id, result);
        }
        let (stored, finalizer) = (conclusion.patch, conclusion.finalizer);
        let is_last = conclusion.fully_handled || finalizer == Some(FinalizerChange::Remove);
        let change = Change { wanted, stored, stored_by_user, transformations, finalizer, is_last };
        let debugging = self.log.enabled(Level::Debug, OBJECTS);
        self.describe(reference, &change);
        let delay = conclusion.delay;
        if memory.is_ghost {
            return self.write_to_ghost(context, body, change).await;
        }
        let concluded = self.write(memory, context, reference, body, change, conclusion.fully_handled).await?;
        if matches!(concluded, Concluded::Untouched) && debugging {
            if conclusion.handled && delay.is_none() {
                self.debug(reference, "Handling cycle is finished, waiting for new changes.".to_owned());
            } else if let Some(seconds) = delay {
                self.debug(reference, format!("Sleeping for {seconds} seconds for the delayed handlers."));
            }
        }
        Ok(concluded)
    }

    /// Patches the object; what the API cannot take for the moment is kept for later.
    async fn write(
        &self,
        memory: &mut ObjectMemory,
        context: &Arc<CycleContext>,
        reference: &Arc<ObjectReference>,
        body: &Body,
        change: Change,
        fully_handled: bool,
    ) -> Result<Concluded, Failure> {
        let applied = apply(self.means(), context, body, &change).await;
        match &applied {
            Ok(Applied::Nothing) => {}
            Ok(Applied::Gone) => self.metrics.count_patch(PatchResult::Gone),
            Ok(Applied::Patched { .. }) => self.metrics.count_patch(PatchResult::Applied),
            Err(_) => self.metrics.count_patch(PatchResult::Failed),
        }
        let applied = match applied {
            Ok(applied) => applied,
            Err(incomplete) => {
                // Where the change itself is at fault, its handlers are called again.
                if incomplete.error.is_passing() {
                    let context = Arc::clone(context);
                    memory.throttle.keep(Unapplied { change, context, fully_handled });
                }
                return Err(Failure::Applying(incomplete));
            }
        };
        self.report(reference, &applied);
        Ok(match applied {
            Applied::Nothing => Concluded::Untouched,
            Applied::Gone => Concluded::Gone,
            Applied::Patched { newest, .. } => Concluded::Patched(newest),
        })
    }

    /// The same for an object that is not in the cluster any more: its last state is changed in memory.
    async fn write_to_ghost(
        &self,
        context: &Arc<CycleContext>,
        body: &Body,
        change: Change,
    ) -> Result<Concluded, Failure> {
        if change.finalizer == Some(FinalizerChange::Remove) {
            return Ok(Concluded::Gone);
        }
        if change.is_empty() {
            return Ok(Concluded::Untouched);
        }
        let mut ghost = body.value().clone();
        if let Some(wanted) = &change.wanted {
            kopf_object::merge(&mut ghost, wanted);
        }
        change.stored.apply_to(&mut ghost);
        if change.transformations {
            ghost = self.front.transform(Arc::clone(context), Body::from_value(ghost)).await?;
        }
        if let Some(metadata) = ghost.get_mut("metadata").and_then(Value::as_object_mut) {
            // It is no version that the server has ever had.
            metadata.shift_remove("resourceVersion");
        }
        Ok(Concluded::Patched(Newest::read(Body::from_value(ghost))))
    }

    pub(crate) fn means(&self) -> Means<'_> {
        let backoffs = &self.settings.networking.error_backoffs;
        Means { api: &self.api, front: &self.front, clock: &self.clock, log: &self.log, backoffs }
    }

    /// Says what is about to be sent, for debugging.
    pub(crate) fn describe(&self, reference: &Arc<ObjectReference>, change: &Change) {
        if self.log.enabled(Level::Debug, OBJECTS)
            && let Some(text) = change.describe()
        {
            self.debug(reference, text);
        }
    }

    /// Says what has become of a patch.
    pub(crate) fn report(&self, reference: &Arc<ObjectReference>, applied: &Applied) {
        match applied {
            Applied::Nothing => {}
            Applied::Gone => {
                self.debug(reference, "Patching was skipped: the object does not exist anymore.".to_owned());
            }
            Applied::Patched { inconsistencies, refusals, .. } => {
                for refusal in refusals {
                    let text =
                        format!("The API has rejected a patch; what the handlers wanted there is lost: {refusal}");
                    self.say(reference, Level::Error, text);
                }
                if !inconsistencies.is_empty() {
                    let text = format!("Merge-patching finished with inconsistencies: {}", diff_repr(inconsistencies));
                    self.say(reference, Level::Warning, text);
                }
            }
        }
    }

    /// Puts the result of a handler to where the schema keeps it.
    pub(crate) fn deliver(
        &self,
        resource: &Resource,
        reference: &Arc<ObjectReference>,
        wanted: &mut Option<Value>,
        id: &Arc<str>,
        result: Value,
    ) {
        let place = placement(self.schemas.status_schema(resource).as_deref(), id, &result);
        let patch = wanted.get_or_insert_with(|| Value::Object(Map::new()));
        let Some(status) =
            patch.as_object_mut().map(|patch| patch.entry("status").or_insert_with(|| Map::new().into()))
        else {
            return;
        };
        if !status.is_object() {
            *status = Map::new().into();
        }
        let Value::Object(status) = status else { return };
        match (place, result) {
            (Placement::MergedIntoStatus, Value::Object(fields)) => status.extend(fields),
            (Placement::Lost { reason }, _) => {
                if status.is_empty()
                    && let Some(Value::Object(patch)) = wanted
                {
                    patch.shift_remove("status");
                }
                let first = self.warned.lock().is_ok_and(|mut warned| warned.insert(id.to_string()));
                if first {
                    let text = format!(
                        "The result of handler {} cannot be stored: {reason}",
                        python_repr(&Value::from(&**id))
                    );
                    self.say(reference, Level::Warning, text);
                }
            }
            (_, Value::Object(fields)) => match status.get_mut(&**id) {
                Some(Value::Object(present)) => present.extend(fields),
                _ => {
                    status.insert(id.to_string(), fields.into());
                }
            },
            (_, result) => {
                status.insert(id.to_string(), result);
            }
        }
    }

    fn throttle(
        &self,
        memory: &mut ObjectMemory,
        reference: &Arc<ObjectReference>,
        body: Option<Body>,
        failure: Failure,
    ) -> After {
        let Some(delay) = memory.throttle.next_delay(&self.settings.queueing.error_delays) else {
            self.fail(reference, format!("An unexpected error: {failure}"), failure.into_error());
            return After::Rest;
        };
        let text = format!("Throttling for {delay} seconds due to an unexpected error: {failure}");
        self.fail(reference, text, failure.into_error());
        After::Throttled { delay: crate::seconds(delay), body }
    }

    fn debug(&self, reference: &Arc<ObjectReference>, message: String) {
        self.say(reference, Level::Debug, message);
    }

    pub(crate) fn say(&self, reference: &Arc<ObjectReference>, level: Level, message: String) {
        let reference = Some(Arc::clone(reference));
        self.log.record(Record { level, target: OBJECTS, message, reference, local: true, error: None });
    }

    pub(crate) fn fail(&self, reference: &Arc<ObjectReference>, message: String, error: Option<FrontError>) {
        let reference = Some(Arc::clone(reference));
        self.log.record(Record { level: Level::Error, target: OBJECTS, message, reference, local: true, error });
    }

    /// Writes what the decisions have to say; the error of the last call is for its traceback.
    pub(crate) fn write_notes(&self, reference: &Arc<ObjectReference>, notes: Vec<Note>, error: Option<FrontError>) {
        for note in notes {
            let level = level_of(note.severity);
            let error = if note.traceback { error.clone() } else { None };
            let reference = Some(Arc::clone(reference));
            let (message, local) = (note.text, note.local);
            self.log.record(Record { level, target: OBJECTS, message, reference, local, error });
        }
    }
}

/// How far a cycle has brought the object.
struct Progressed {
    /// The newest state, if anything was patched.
    patched: Option<Newest>,
    /// When handlers are due again.
    wake: Option<Instant>,
    /// The object turned out to be not there any more.
    gone: bool,
    /// All handlers are done.
    fully_handled: bool,
    /// The handlers cause one update after another: how long the next one is to wait.
    brake: Option<Duration>,
}

/// What the end of a cycle has done to the object.
enum Concluded {
    /// There was nothing to patch.
    Untouched,
    /// The newest state.
    Patched(Newest),
    /// The object turned out to be not there any more.
    Gone,
}

/// Why a cycle could not be brought to its end.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", .0.message)]
    Front(FrontFailure),
    #[error(transparent)]
    Applying(Incomplete),
}

impl From<FrontFailure> for Failure {
    fn from(failure: FrontFailure) -> Self {
        Self::Front(failure)
    }
}

impl Failure {
    fn into_error(self) -> Option<FrontError> {
        match self {
            Self::Front(failure) => failure.error,
            Self::Applying(Incomplete { error: ApplyError::Transformation(failure), .. }) => failure.error,
            Self::Applying(_) => None,
        }
    }

    /// The newest body, if the object was patched nevertheless.
    fn newest(&self) -> Option<&Body> {
        match self {
            Self::Front(_) => None,
            Self::Applying(incomplete) => incomplete.newest.as_ref(),
        }
    }
}

pub(crate) fn level_of(severity: Severity) -> Level {
    match severity {
        Severity::Debug => Level::Debug,
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warning,
        Severity::Error => Level::Error,
    }
}

/// A patch that has changed nothing gives no reason to look at the object again.
fn differs(newest: &Newest, body: &Body) -> bool {
    newest.resource_version().is_none() || newest.resource_version() != body.resource_version()
}

impl Change {
    /// What is about to be sent, for debugging.
    fn describe(&self) -> Option<String> {
        let mut whole = self.wanted.clone().unwrap_or_else(|| Map::new().into());
        kopf_object::combine(&mut whole, self.stored.as_value());
        let has_data = whole.as_object().is_some_and(|fields| !fields.is_empty());
        has_data.then(|| format!("Merge-patching the resource with: {}", python_repr(&whole)))
    }
}
