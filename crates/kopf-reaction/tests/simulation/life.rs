//! One simulated life: a cluster with one object, users, and an operator that can be killed at any moment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kopf_object::{Body, FieldPath};
use kopf_reaction::{
    BackgroundView, Batch, CallError, CallOutcome, CallRequest, Cause, Cycle, CycleConclusion, CycleInput, CycleStep,
    DiffBaseStorage, Effect, EffectResult, EventType, Handler, HandlerSet, HandlerType, ReactionSettings, Reason,
    StorageOperation, SubBatchStep,
};
use serde_json::{Value, json};

use super::ClusterObject;
use super::plan::{Action, Edit, FOREIGN_FINALIZER, Fate, Fortune, Life, declare_all, settings};

pub(crate) struct Simulation {
    pub object: ClusterObject,
    pub operator: Operator,
    pub history: History,
    /// How many patches had anything in them.
    pub patches: usize,
    /// The log lines about the object.
    pub logged: Vec<String>,
    /// What the storages of the user keep, if there are such.
    database: Database,
    settings: Arc<ReactionSettings>,
    handlers: Arc<HandlerSet>,
    children: HashMap<Arc<str>, Vec<Arc<Handler>>>,
    now: Timestamp,
    random: Random,
    /// What comes of the next calls, the next one last; afterwards all goes well.
    fortunes: Vec<Fortune>,
    /// All bodies that there ever were.
    bodies: Vec<Body>,
    /// For failing tests.
    log: Vec<String>,
}

/// The memory of the running operator; lost when it is killed.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    listed: bool,
    fully_handled: bool,
    partly_handled: Option<Arc<Value>>,
    /// The event that has not been looked at yet.
    event: Option<EventType>,
    /// The object was handled before this process began.
    pub was_handled: bool,
    /// The handlers that were due, even in vain: they may time out before they are called.
    pub served: HashSet<Arc<str>>,
}

#[derive(Clone, Debug, Default)]
struct Database {
    records: BTreeMap<Arc<str>, Value>,
    essence: Option<Value>,
}

/// What is known about the past, to check in the end that nothing was lost.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// What each handler has seen (of its field) when it was finished, and whether it succeeded.
    pub seen: HashMap<Arc<str>, (Value, bool)>,
    pub finished_deletions: HashSet<Arc<str>>,
    /// Finished ones which an operator has taken over from its predecessor: they do not resume again.
    pub inherited: HashSet<Arc<str>>,
    pub was_held_at_deletion: bool,
    pub tier_was_edited: bool,
    pub essences_stored: usize,
    /// Finished and stored in the batch under way.
    finished_in_batch: HashSet<Arc<str>>,
    /// The handlers with stored successes: the reason, and how many essences and edits there were.
    succeeded: HashSet<(Arc<str>, Reason, usize, usize)>,
    /// How many attempts of a handler are stored in its batch.
    attempts: HashMap<(Arc<str>, usize), u32>,
    edits: usize,
    /// Counts up whenever counters may start again: with each reason, and with each stored essence.
    batches: usize,
    last_reason: Option<Reason>,
}

impl History {
    /// Whether the handler or one of its parents has failed.
    pub(crate) fn has_failed_above(&self, id: &str) -> bool {
        let parents = id.match_indices('/').map(|(position, _)| &id[..position]);
        parents.into_iter().any(|parent| self.seen.get(parent).is_some_and(|(_, success)| !success))
    }
}

/// What has happened in one cycle; it counts only if it gets stored.
struct Draft {
    /// The handler, what it has seen, whether it has succeeded.
    finished: Vec<(Arc<str>, Value, bool)>,
    tried: Vec<Arc<str>>,
    /// The calls that have raised an error, whatever that means for the handler.
    raised: Vec<Arc<str>>,
    /// The edits that are in the body.
    edits: usize,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What comes after a cycle.
enum AfterCycle {
    Again,
    Wait(f64),
    Idle,
}

impl Simulation {
    /// The whole life, to its calm end.
    pub(crate) fn run_life(life: &Life) -> Self {
        let mut simulation = Self::new(life);
        for action in &life.actions {
            simulation.act(action);
        }
        simulation.calm_down();
        simulation
    }

    fn new(life: &Life) -> Self {
        let mut handlers = Vec::new();
        let mut children = HashMap::new();
        for (number, plan) in life.plans.iter().enumerate() {
            declare_all(number, plan, &mut handlers, &mut children);
        }
        let settings = Arc::new(settings(life));
        let tier = if life.gold { "gold" } else { "tin" };
        let mut content = json!({"metadata": {"labels": {"tier": tier}}, "spec": {"x": 0}});
        if life.is_held_by_others {
            content["metadata"]["finalizers"] = json!([FOREIGN_FINALIZER]);
        }
        let object = ClusterObject::new(content, &settings.finalizer);
        let event = if life.operator_first { EventType::Added } else { EventType::Listed };
        Self {
            operator: Operator { listed: !life.operator_first, event: Some(event), ..Operator::default() },
            history: History::default(),
            patches: 0,
            logged: Vec::new(),
            database: Database::default(),
            settings,
            handlers: Arc::new(HandlerSet::from_handlers(handlers)),
            children,
            now: "2026-11-15T12:00:00Z".parse().expect("a time"),
            random: Random(life.seed | 1),
            fortunes: life.fortunes.clone(),
            bodies: vec![object.body()],
            object,
            log: Vec::new(),
        }
    }

    pub(crate) fn act(&mut self, action: &Action) {
        self.log.push(format!("{action:?}"));
        match action {
            Action::Edit(edit) => self.edit(edit),
            Action::Later(seconds) => self.pass(f64::from(*seconds)),
            Action::Restart => self.restart(),
            Action::Stale(choice) => self.look_at_stale_body(usize::from(*choice)),
            Action::Cycle(fate, edit) => {
                self.run_cycle(fate, edit.as_ref());
            }
        }
    }

    /// Nothing more happens from outside; the operator has all the time it needs.
    fn calm_down(&mut self) {
        self.log.push("Everything is calm now.".to_owned());
        self.fortunes.clear();
        self.change(|value| {
            if let Some(Value::Array(finalizers)) = value.pointer_mut("/metadata/finalizers") {
                finalizers.retain(|finalizer| finalizer != FOREIGN_FINALIZER);
            }
        });
        for _ in 0..500 {
            match self.run_cycle(&Fate::Fine, None) {
                AfterCycle::Idle => return,
                AfterCycle::Wait(seconds) => self.pass(seconds),
                AfterCycle::Again => {}
            }
        }
        panic!("It never becomes idle.\n{}", self.story());
    }

    /// The last event of an object that is gone.
    pub(crate) fn check_last_event(&mut self) {
        let mut cycle = self.cycle(self.object.body(), Some(EventType::Deleted), true);
        let conclusion = self.run(&mut cycle, None, None, &mut self.draft()).expect("not killed");
        assert!(conclusion.patch.is_empty() && conclusion.operations.is_empty(), "{conclusion:#?}");
        assert_eq!((conclusion.finalizer, conclusion.delay), (None, None), "{conclusion:#?}");
    }

    pub(crate) fn story(&self) -> String {
        format!("{}\n{:#}\n{:#?}", self.log.join("\n"), self.object.value(), self.history.inherited)
    }

    pub(crate) fn essence(&self) -> Value {
        let mut essence = kopf_object::build_essence(self.object.value(), &kopf_object::EssenceOptions::default());
        for prefix in ["kopf.zalando.org", "my.example.com"] {
            kopf_object::clear_progress_annotations(&mut essence, prefix);
        }
        essence
    }

    /// What is stored as handled last, wherever that is.
    pub(crate) fn stored_essence(&self) -> Option<Value> {
        let encoded = match &self.settings.diffbase {
            DiffBaseStorage::Front => return self.database.essence.clone(),
            DiffBaseStorage::Status { field, .. } => field.resolve(self.object.value()),
            _ => self.object.value().pointer("/metadata/annotations/kopf.zalando.org~1last-handled-configuration"),
        };
        serde_json::from_str(encoded?.as_str()?).ok()
    }

    /// Where any progress of handlers is stored, wherever that is.
    pub(crate) fn progress_left(&self) -> Vec<String> {
        let is_progress = |key: &&String| key.contains(".org/h") || key.contains(".com/h");
        let body = self.object.body();
        let mut places: Vec<String> = body.annotations().keys().filter(is_progress).cloned().collect();
        let in_status = body.get(&FieldPath::parse("status.mine.progress")).and_then(Value::as_object);
        places.extend(in_status.into_iter().flat_map(|records| records.keys().cloned()));
        places.extend(self.database.records.keys().map(ToString::to_string));
        places
    }

    fn pass(&mut self, seconds: f64) {
        self.now = self.now.checked_add(SignedDuration::from_secs_f64(seconds)).expect("a time");
    }

    fn edit(&mut self, edit: &Edit) {
        let now = self.now;
        match edit {
            Edit::SpecX(new) => self.change(|value| set_spec(value, "x", *new)),
            Edit::SpecY(new) => self.change(|value| set_spec(value, "y", *new)),
            Edit::Label(new) => self.change(|value| value["metadata"]["labels"]["l"] = new.to_string().into()),
            Edit::Annotation(new) => {
                self.change(|value| value["metadata"]["annotations"]["a"] = new.to_string().into());
            }
            Edit::Tier(gold) => {
                let tier = if *gold { "gold" } else { "tin" };
                self.history.tier_was_edited |= self.object.value()["metadata"]["labels"]["tier"] != tier;
                self.change(|value| value["metadata"]["labels"]["tier"] = tier.into());
            }
            Edit::Delete => {
                if !self.object.is_deletion_ongoing() {
                    self.history.was_held_at_deletion = self.object.is_held();
                    self.change(|value| value["metadata"]["deletionTimestamp"] = now.to_string().into());
                }
            }
        }
    }

    /// Somebody else changes the object, and the watch reports it.
    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let before = self.object.version();
        self.object.edit(change);
        if self.object.version() != before {
            self.history.edits += 1;
            self.bodies.push(self.object.body());
            if self.operator.event != Some(EventType::Listed) {
                self.operator.event = Some(EventType::Modified);
            }
        }
    }

    fn restart(&mut self) {
        let was_handled = self.stored_essence().is_some();
        self.operator = Operator { listed: true, event: Some(EventType::Listed), was_handled, ..Operator::default() };
        self.history.inherited.extend(self.history.finished_in_batch.iter().cloned());
    }

    fn cycle(&self, body: Body, event: Option<EventType>, consistent: bool) -> Cycle {
        let input = CycleInput {
            body,
            event,
            handlers: Arc::clone(&self.handlers),
            settings: Arc::clone(&self.settings),
            initial: self.operator.listed && !self.operator.fully_handled,
            consistent,
            background: BackgroundView::default(),
            verbose: false,
        };
        Cycle::new(input).with_partly_handled(self.operator.partly_handled.clone())
    }

    fn draft(&self) -> Draft {
        Draft { finished: Vec::new(), tried: Vec::new(), raised: Vec::new(), edits: self.history.edits }
    }

    /// An outdated body is for the event handlers only.
    fn look_at_stale_body(&mut self, choice: usize) {
        let body = self.bodies[choice % self.bodies.len()].clone();
        let mut cycle = self.cycle(body, Some(EventType::Modified), false);
        let mut draft = self.draft();
        let conclusion = self.run(&mut cycle, None, None, &mut draft).expect("not killed");
        assert_eq!(draft.tried, Vec::<Arc<str>>::new(), "{}", self.story());
        assert!(conclusion.patch.is_empty() && conclusion.operations.is_empty(), "{conclusion:#?}");
        assert_eq!((conclusion.finalizer, conclusion.handled, conclusion.fully_handled), (None, false, false));
        assert_eq!(conclusion.partly_handled, self.operator.partly_handled);
    }

    fn run_cycle(&mut self, fate: &Fate, meanwhile: Option<&Edit>) -> AfterCycle {
        if !self.object.exists {
            return AfterCycle::Idle;
        }
        self.pass(1.0);
        let (body, version, event) = (self.object.body(), self.object.version(), self.operator.event.take());
        let mut cycle = self.cycle(body, event, true);
        let mut draft = self.draft();
        let steps = if let Fate::KilledAfter(steps) = fate { Some(*steps) } else { None };
        let Some(conclusion) = self.run(&mut cycle, steps, meanwhile, &mut draft) else {
            self.restart();
            return AfterCycle::Again;
        };
        let cause = Arc::clone(cycle.cause().expect("a cause"));
        self.observe(cause.reason);
        if let Some(batch) = cycle.batch() {
            self.note_finished(batch, &cause, &self.handlers.distinct_change_handlers, &mut draft);
        }
        let notes = cycle.take_notes();
        let texts = notes.into_iter().filter(|note| !note.local).map(|note| note.text).collect::<Vec<_>>();
        self.log.push(format!("  {:?}: {}\n    {}", cause.reason, conclusion.patch.as_value(), texts.join("\n    ")));
        self.logged.extend(texts);
        match fate {
            Fate::Refused => AfterCycle::Again,
            Fate::KilledBeforePatch => {
                self.restart();
                AfterCycle::Again
            }
            _ => self.apply(&cause, conclusion, version, fate, draft),
        }
    }

    fn apply(
        &mut self,
        cause: &Cause,
        conclusion: CycleConclusion,
        version: u64,
        fate: &Fate,
        draft: Draft,
    ) -> AfterCycle {
        let (known, stored) = (self.object.version(), self.stored_essence());
        let mut patch = conclusion.patch.clone();
        for (id, result) in &conclusion.results {
            patch.set(&FieldPath::from(["status", id]), result.clone());
        }
        let is_empty =
            conclusion.patch.is_empty() && conclusion.operations.is_empty() && conclusion.finalizer.is_none();
        self.patches += usize::from(!is_empty);
        self.object.merge(&patch);
        self.store(&conclusion);
        let essence = self.stored_essence();
        self.record(cause, draft, essence != stored, conclusion.fully_handled);
        if (conclusion.fully_handled || essence != stored) && essence != cause.new {
            // What comes next is another update, even if it happens to have the same old and new.
            self.history.succeeded.clear();
            // Only this operator remembers what the handlers have seen: it is not what is stored.
            let all = self.handlers.distinct_change_handlers.iter().chain(self.children.values().flatten());
            self.history.finished_in_batch.extend(all.map(|handler| Arc::clone(&handler.id)));
        }
        if matches!(fate, Fate::KilledBetweenPatches) {
            // The progress of the deletion is purged already, but the object is still held: it is deleted again.
            self.history.succeeded.retain(|(_, reason, ..)| *reason != Reason::Delete);
            self.restart();
            return AfterCycle::Again;
        }
        self.operator.fully_handled |= conclusion.fully_handled;
        self.operator.partly_handled = conclusion.partly_handled;
        if let Some(change) = conclusion.finalizer {
            // The answer of the merge-patch is the latest body, unless somebody else has changed the object before.
            let guard = if known == version { self.object.version() } else { version };
            self.object.change_finalizer(change, guard);
        }
        if self.object.version() != known || self.operator.event.is_some() {
            self.bodies.push(self.object.body());
            return AfterCycle::Again;
        }
        conclusion.delay.map_or(AfterCycle::Idle, AfterCycle::Wait)
    }

    /// What the storages of the user do.
    fn store(&mut self, conclusion: &CycleConclusion) {
        for operation in conclusion.operations.iter().cloned() {
            match operation {
                StorageOperation::Store { id, record } => {
                    let mut kept = record.as_object().cloned().unwrap_or_default();
                    kept.retain(|_, value| !value.is_null());
                    self.database.records.insert(id, kept.into());
                }
                StorageOperation::Purge { id } => {
                    self.database.records.remove(&id);
                }
                StorageOperation::DiffBase { essence } => self.database.essence = Some(essence),
                StorageOperation::Touch { .. } => {}
            }
        }
    }

    /// What has happened is stored, so it counts.
    fn record(&mut self, cause: &Cause, draft: Draft, essence_is_new: bool, batch_is_over: bool) {
        let history = &mut self.history;
        for id in draft.tried {
            *history.attempts.entry((id, history.batches)).or_default() += 1;
        }
        for (id, seen, success) in draft.finished {
            history.inherited.remove(&id);
            self.operator.served.insert(Arc::clone(&id));
            history.finished_in_batch.insert(Arc::clone(&id));
            if cause.reason == Reason::Delete {
                history.finished_deletions.insert(Arc::clone(&id));
            }
            if success {
                history.succeeded.insert((Arc::clone(&id), cause.reason, history.essences_stored, draft.edits));
            }
            history.seen.insert(id, (seen, success));
        }
        if essence_is_new || batch_is_over {
            history.finished_in_batch.clear();
            history.batches += 1;
        }
        history.essences_stored += usize::from(essence_is_new);
    }

    fn observe(&mut self, reason: Reason) {
        if self.history.last_reason.replace(reason) != Some(reason) {
            self.history.batches += 1;
        }
    }

    /// Steps the cycle to its end, or until it is killed (None).
    fn run(
        &mut self,
        cycle: &mut Cycle,
        mut steps: Option<u8>,
        mut meanwhile: Option<&Edit>,
        draft: &mut Draft,
    ) -> Option<CycleConclusion> {
        let mut result = None;
        loop {
            let now = self.now;
            let step = cycle.step(result.take(), now, &mut || self.random.next());
            if let Some(left) = &mut steps {
                *left = left.checked_sub(1)?;
            }
            result = Some(match step {
                CycleStep::Done(conclusion) => return Some(*conclusion),
                CycleStep::Effect(Effect::Call(request)) => {
                    if let Some(edit) = meanwhile.take() {
                        self.edit(edit);
                    }
                    EffectResult::Called(self.call(cycle, &request, draft))
                }
                CycleStep::Effect(ask) => self.answer(cycle, ask),
            });
        }
    }

    fn answer(&mut self, cycle: &Cycle, ask: Effect) -> EffectResult {
        let body = cycle.cause().map_or_else(|| self.object.body(), |cause| cause.body.clone());
        match ask {
            Effect::Filters(questions) => {
                let is_gold = body.labels().get("tier").is_some_and(|tier| tier == "gold");
                EffectResult::Filters(vec![is_gold; questions.len()])
            }
            Effect::Choose(candidates) => {
                let mut chosen: Vec<usize> = candidates.iter().map(|handler| handler.index).collect();
                chosen.retain(|_| self.random.next() < 0.5);
                if let (true, Some(first)) = (chosen.is_empty(), candidates.first()) {
                    chosen.push(first.index);
                }
                EffectResult::Chosen(chosen)
            }
            Effect::Storage { ids, extra_fields, .. } => {
                let options = kopf_object::EssenceOptions { extra_fields, ..Default::default() };
                let new = Some(kopf_object::build_essence(body.value(), &options));
                let read = |id: Arc<str>| Some((Arc::clone(&id), self.database.records.get(&id)?.clone()));
                let records = ids.into_iter().filter_map(read).collect();
                EffectResult::Storage { old: self.database.essence.clone(), new, records }
            }
            Effect::Call(_) => unreachable!("calls are answered elsewhere"),
            Effect::Background(_) => unreachable!("there are no daemons in this simulation"),
        }
    }

    fn call(&mut self, cycle: &mut Cycle, request: &CallRequest, draft: &mut Draft) -> CallOutcome {
        let handler = &request.handler;
        let result = self.fortune();
        let mut subrefs = BTreeSet::new();
        if handler.handler_type == HandlerType::Event {
            return CallOutcome { result, subrefs };
        }
        let cause = Arc::clone(cycle.cause().expect("a cause"));
        self.observe(cause.reason);
        self.check_call(&cause, request, draft);
        draft.tried.push(Arc::clone(&handler.id));
        draft.raised.extend(result.is_err().then(|| Arc::clone(&handler.id)));
        if let (Ok(_), Some(children)) = (&result, self.children.get(&handler.id).cloned()) {
            let (done, delay) = self.call_children(cycle, &children, &mut subrefs, draft);
            if !done {
                return CallOutcome { result: Err(CallError::ChildrenRetry { delay }), subrefs };
            }
        }
        CallOutcome { result, subrefs }
    }

    fn call_children(
        &mut self,
        cycle: &mut Cycle,
        children: &[Arc<Handler>],
        subrefs: &mut BTreeSet<String>,
        draft: &mut Draft,
    ) -> (bool, Option<f64>) {
        let mut batch = cycle.sub_batch(children.to_vec(), None).expect("a cause");
        let mut result = None;
        loop {
            let now = self.now;
            match batch.step(result.take(), now, &mut || self.random.next()) {
                SubBatchStep::Effect(Effect::Call(request)) => {
                    let outcome = self.call(cycle, &request, draft);
                    subrefs.extend(outcome.subrefs.iter().cloned());
                    result = Some(EffectResult::Called(outcome));
                }
                SubBatchStep::Effect(ask) => result = Some(self.answer(cycle, ask)),
                SubBatchStep::Done(conclusion) => {
                    subrefs.extend(conclusion.ids.iter().map(ToString::to_string));
                    let cause = cycle.cause().expect("a cause");
                    self.note_finished(batch.batch().expect("a batch"), cause, children, draft);
                    cycle.add_sub_batch(conclusion.operations, conclusion.results);
                    return (conclusion.done, conclusion.delay);
                }
            }
        }
    }

    /// The handlers that are finished since now; also those without a call, as their attempts or time are used up.
    fn note_finished(&self, batch: &Batch, cause: &Cause, handlers: &[Arc<Handler>], draft: &mut Draft) {
        for (id, state) in batch.states().iter().filter(|(_, state)| state.active && state.stopped == Some(self.now)) {
            let handler = handlers.iter().find(|handler| handler.id == *id).expect("a declared handler");
            let seen = cause.change_for(handler).1.unwrap_or_default();
            let success = state.success && !draft.raised.contains(id);
            draft.finished.push((Arc::clone(id), seen, success));
        }
    }

    /// What must hold whenever a handler is called.
    fn check_call(&self, cause: &Cause, request: &CallRequest, draft: &Draft) {
        let CallRequest { handler, retry, timeout_seconds, .. } = request;
        let (id, history) = (&handler.id, &self.history);
        assert!(handler.retries.is_none_or(|retries| *retry < retries), "{id} is tried too often\n{}", self.story());
        assert!(timeout_seconds.is_none_or(|seconds| seconds > 0.0), "{id} has no time left\n{}", self.story());
        let attempts = history.attempts.get(&(Arc::clone(id), history.batches)).copied().unwrap_or_default();
        assert!(*retry >= attempts, "{id}: {attempts} attempts are stored, but this one has {retry}\n{}", self.story());
        let occasion = (Arc::clone(id), cause.reason, history.essences_stored, draft.edits);
        let repeated = !cause.initial && history.succeeded.contains(&occasion);
        assert!(!repeated, "{id} is called again after its success was stored\n{}", self.story());
    }

    fn fortune(&mut self) -> Result<Option<Value>, CallError> {
        let (message, display) = ("boo".to_owned(), "boo".to_owned());
        match self.fortunes.pop().unwrap_or(Fortune::Success) {
            Fortune::Success => Ok(None),
            Fortune::Result => Ok(Some(json!({"at": self.now.to_string()}))),
            Fortune::Temporary(delay) => Err(CallError::Temporary { message, display, delay }),
            Fortune::Permanent => Err(CallError::Permanent { message, display }),
            Fortune::Arbitrary => Err(CallError::Arbitrary { message, display }),
            Fortune::TimedOut => Err(CallError::TimedOut),
        }
    }
}

fn set_spec(value: &mut Value, key: &str, new: Option<u8>) {
    let Some(spec) = value["spec"].as_object_mut() else { return };
    match new {
        Some(new) => {
            spec.insert(key.to_owned(), new.into());
        }
        None => {
            spec.shift_remove(key);
        }
    }
}
