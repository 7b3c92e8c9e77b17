//! 4. and 5. One turn of one object: the decisions of `kopf-reaction` are carried out, one after another.
//!
//! The worker of an object calls [`Reactor::react`] with a body. Calls go to the front, the patch to the
//! API; the answer of the patch is the next body, so that the next handler starts from it at once.

mod driver;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use kopf_object::{Body, ObjectReference};
use kopf_reaction::{
    Conclusion, Cycle, CycleInput, EventType, FinalizerChange, HandlerSet, Note, ReactionSettings, Resource, Settled,
    Severity, compact_sample, diff_repr, python_repr,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use self::driver::Driver;
use crate::apply::{Applied, ApplyError, Change, Incomplete, Means, Newest, apply};
use crate::background::Background;
use crate::gates::Gates;
use crate::invoke::{CycleContext, Front, FrontFailure};
use crate::memory::{ObjectMemory, Throttle, version_number};
use crate::metrics::{Metrics, PatchResult};
use crate::queue::{A_YEAR, Seat};
use crate::rest::Rest;
use crate::schema::{Placement, SchemaBook, placement};
use crate::{Api, Clock, FrontError, Level, Log, Record, Settings};

/// The loggers of objects.
pub(crate) const OBJECTS: &str = "kopf.objects";

/// What the compact storages write into the status.
static COMPACT_SAMPLE: LazyLock<Value> = LazyLock::new(compact_sample);

/// Cycles of one object in a row, before others have their turn.
const CYCLES_IN_A_ROW: usize = 8;

/// One kind of objects, and what serves it.
pub(crate) struct ServedKind {
    pub resource: Arc<Resource>,
    pub handlers: Arc<HandlerSet>,
    /// How objects look when there is nothing to do for them; None if it takes a whole cycle to know.
    pub settled: Option<Settled>,
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
        let settled = Settled::of(&handlers, &self.reaction);
        ServedKind { resource: Arc::clone(resource), handlers: Arc::new(handlers), settled }
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
            self.index_only(kind, uid, memory, turn, seat).await;
            return After::Indexed;
        }
        let reference = Arc::new(turn.body.reference());
        if matches!(memory.throttle, Throttle::Resting { .. }) {
            self.say(&reference, Level::Info, "Throttling is over. Switching back to normal operations.".to_owned());
        }
        let Turn { mut body, mut event, outdated, .. } = turn;
        let mut consistent = !outdated;
        if consistent {
            memory.saw(version_number(body.resource_version()));
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
                    memory.throttle = Throttle::Off;
                    return match wake {
                        _ if !consistent => After::Unchanged,
                        None => After::Rest,
                        Some(when) => After::Wake { when, body },
                    };
                }
                Ok(Progressed { patched, fully_handled, .. }) => {
                    let Some(newest) = patched else { return After::Rest };
                    memory.throttle = Throttle::Off;
                    memory.saw(version_number(newest.resource_version()));
                    if newest.is_released() || (fully_handled && self.is_settled(kind, memory, newest.raw())) {
                        return After::Rest;
                    }
                    let newest = match newest.into_body() {
                        Ok(newest) => newest,
                        Err(error) => {
                            let failure = Failure::Applying(Incomplete { error, newest: None });
                            return self.throttle(memory, &reference, None, failure);
                        }
                    };
                    // Also if a spy has patched the object on an old news: the echo of it will count as seen.
                    (body, event, consistent) = (newest, None, true);
                }
            }
        }
        After::Wake { when: self.clock.instant(), body }
    }

    /// Whether there is nothing to do for the object, as its text shows: then, no cycle is needed to see that.
    pub fn is_settled(&self, kind: &ServedKind, memory: &ObjectMemory, raw: &[u8]) -> bool {
        kind.settled.as_ref().is_some_and(|settled| {
            memory.has_nothing_pending()
                // The cycle would have something to say about it, if only for debugging.
                && !self.log.enabled(Level::Debug, OBJECTS)
                && settled.holds(raw)
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
            true => self.index(kind, &context, memory, reference, seat).await?,
            false => None,
        };
        if kind.handlers.only_indexes() {
            return Ok(Progressed {
                patched: None,
                wake: reindexing,
                gone: event == Some(EventType::Deleted),
                fully_handled: false,
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
            .remembering(memory.partly_handled.clone()),
            context: Arc::clone(&context),
            reference: Arc::clone(reference),
            kind,
            key,
            background: &mut memory.background,
            consistent,
            seat,
            wanted: None,
            transformations: false,
            last_error: None,
            decided: self.clock.instant(),
        };
        let conclusion = driver.run().await?;
        let (wanted, transformations) = (driver.wanted.take(), driver.transformations);
        memory.partly_handled.clone_from(&conclusion.partly_handled);
        if event == Some(EventType::Deleted) {
            return Ok(Progressed { patched: None, wake: None, gone: true, fully_handled: false });
        }
        let fully_handled = conclusion.fully_handled;
        // Delays count from the decision, however long the patch takes.
        let decided = driver.decided;
        let wake = conclusion.delay.map(|delay| decided + crate::seconds(delay).min(A_YEAR));
        let wake = [wake, reindexing].into_iter().flatten().min();
        let gone = self.conclude(kind, &context, reference, &body, conclusion, wanted, transformations).await?;
        let progressed = match gone {
            Concluded::Gone => Progressed { patched: None, wake: None, gone: true, fully_handled },
            Concluded::Untouched => Progressed { patched: None, wake, gone: false, fully_handled },
            Concluded::Patched(newest) => Progressed { patched: Some(newest), wake, gone: false, fully_handled },
        };
        memory.fully_handled_once |= fully_handled;
        Ok(progressed)
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
        context: &Arc<CycleContext>,
        reference: &Arc<ObjectReference>,
        body: &Body,
        conclusion: Conclusion,
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
        let applied = apply(self.means(), context, body, change).await;
        match &applied {
            Ok(Applied::Nothing) => {}
            Ok(Applied::Gone) => self.metrics.count_patch(PatchResult::Gone),
            Ok(Applied::Patched { .. }) => self.metrics.count_patch(PatchResult::Applied),
            Err(_) => self.metrics.count_patch(PatchResult::Failed),
        }
        let applied = applied.map_err(Failure::Applying)?;
        self.report(reference, &applied);
        match applied {
            Applied::Nothing => {
                if conclusion.handled && delay.is_none() && debugging {
                    self.debug(reference, "Handling cycle is finished, waiting for new changes.".to_owned());
                } else if let Some(seconds) = delay
                    && debugging
                {
                    self.debug(reference, format!("Sleeping for {seconds} seconds for the delayed handlers."));
                }
                Ok(Concluded::Untouched)
            }
            Applied::Gone => Ok(Concluded::Gone),
            Applied::Patched { newest, .. } => Ok(Concluded::Patched(newest)),
        }
    }

    pub(crate) fn means(&self) -> Means<'_> {
        let backoffs = &self.settings.networking.error_backoffs;
        Means { api: &self.api, front: &self.front, clock: &self.clock, backoffs }
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
                    self.say(reference, Level::Error, format!("Patching was refused, its content is lost: {refusal}"));
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
        let Some((errors, delay)) = memory.throttle.next_delay(&self.settings.queueing.error_delays) else {
            self.fail(reference, format!("An unexpected error: {failure}"), failure.into_error());
            return After::Rest;
        };
        let text = format!("Throttling for {delay} seconds due to an unexpected error: {failure}");
        self.fail(reference, text, failure.into_error());
        memory.throttle = Throttle::Resting { errors };
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
