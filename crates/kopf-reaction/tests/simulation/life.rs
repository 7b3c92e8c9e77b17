//! One simulated life: a cluster with one object, users, and an operator that can be killed at any moment.

mod history;
mod calls;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kopf_object::{Body, FieldPath};
use kopf_reaction::{
    BackgroundView, Cause, Cycle, CycleConclusion, CycleInput, DiffBaseStorage, EventType, Handler, HandlerSet,
    ReactionSettings, Reason, StorageOperation,
};
use serde_json::{Value, json};

use self::history::{Draft, History};
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
