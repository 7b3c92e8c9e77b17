//! Written scenarios: a simulated operator runs cycle by cycle, and records everything that happens.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kopf_reaction::{
    BackgroundView, CallError, CallOutcome, CallRequest, Cycle, CycleConclusion, CycleInput, CycleStep, Effect,
    EffectResult, EventType, Handler, HandlerSet, HandlerType, Note, ReactionSettings, StorageOperation, SubBatchStep,
};
use serde_json::{Value, json};

use super::ClusterObject;

pub(crate) type Outcome = Result<Option<Value>, CallError>;

/// An object, an operator, and the protocol of what happens between them.
pub(crate) struct Scenario {
    pub object: ClusterObject,
    settings: Arc<ReactionSettings>,
    handlers: Arc<HandlerSet>,
    pub children: HashMap<&'static str, Vec<Arc<Handler>>>,
    /// What the calls come to, by the handlers' ids; afterwards they succeed.
    outcomes: HashMap<&'static str, VecDeque<Outcome>>,
    /// What the callbacks of filters say, by the handlers' indexes.
    pub callbacks: HashMap<usize, bool>,
    /// What the storages of the user have.
    records: Vec<(Arc<str>, Value)>,
    pub event: Option<EventType>,
    initial: bool,
    pub consistent: bool,
    partly_handled: Option<Arc<Value>>,
    pub now: Timestamp,
    pub protocol: Vec<String>,
}

impl Scenario {
    pub(crate) fn new(content: Value, handlers: Vec<Arc<Handler>>) -> Self {
        let settings = ReactionSettings::default();
        Self {
            object: ClusterObject::new(content, &settings.finalizer),
            settings: Arc::new(settings),
            handlers: Arc::new(HandlerSet::from_handlers(handlers)),
            children: HashMap::new(),
            outcomes: HashMap::new(),
            callbacks: HashMap::new(),
            records: Vec::new(),
            event: Some(EventType::Added),
            initial: false,
            consistent: true,
            partly_handled: None,
            now: "2026-11-15T12:00:00Z".parse().expect("a time"),
            protocol: Vec::new(),
        }
    }

    pub(crate) fn with_settings(mut self, change: impl FnOnce(&mut ReactionSettings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    pub(crate) fn with_outcomes(mut self, id: &'static str, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        self.outcomes.insert(id, outcomes.into_iter().collect());
        self
    }

    /// The operator was just started, and has listed the object.
    pub(crate) fn listed(mut self) -> Self {
        (self.event, self.initial) = (Some(EventType::Listed), true);
        self
    }

    /// The operator is killed and started again: all that it remembers is on the object.
    pub(crate) fn restart(&mut self) {
        (self.event, self.initial, self.partly_handled) = (Some(EventType::Listed), true, None);
    }

    pub(crate) fn edit(&mut self, change: Value) {
        self.object.edit(|value| kopf_object::merge(value, &change));
        self.event = Some(EventType::Modified);
    }

    pub(crate) fn delete(&mut self) {
        self.object.delete(self.now);
        self.event = Some(EventType::Modified);
    }

    /// Cycles until the operator is idle, waiting as long as the delays say.
    pub(crate) fn run_until_idle(&mut self) {
        for _ in 0..20 {
            let before = self.object.version();
            let Some(delay) = self.run_cycle() else { return };
            if self.object.version() == before && delay == 0.0 {
                return;
            }
            self.now = self.now.checked_add(SignedDuration::from_secs_f64(delay)).expect("a time");
        }
        panic!("It never ends.\n{}", self.protocol.join("\n"));
    }

    /// One cycle; returns the delay until the next one, None if the object is gone.
    pub(crate) fn run_cycle(&mut self) -> Option<f64> {
        let input = CycleInput {
            body: self.object.body(),
            event: self.event.take(),
            handlers: Arc::clone(&self.handlers),
            settings: Arc::clone(&self.settings),
            initial: self.initial,
            consistent: self.consistent,
            background: BackgroundView::default(),
            verbose: true,
        };
        let mut cycle = Cycle::new(input).with_partly_handled(self.partly_handled.take());
        let mut result = None;
        let conclusion = loop {
            let step = cycle.step(result.take(), self.now, &mut || 0.5);
            self.write_notes(cycle.take_notes());
            match step {
                CycleStep::Done(conclusion) => break *conclusion,
                CycleStep::Effect(ask) => result = Some(self.answer(&mut cycle, ask)),
            }
        };
        let again = cycle.step(None, self.now, &mut || 0.5);
        assert!(matches!(again, CycleStep::Done(again) if again.patch.is_empty() && again.finalizer.is_none()));
        self.initial &= !conclusion.fully_handled;
        self.partly_handled.clone_from(&conclusion.partly_handled);
        self.apply(&conclusion)
    }

    fn apply(&mut self, conclusion: &CycleConclusion) -> Option<f64> {
        let version = self.object.version();
        self.object.merge(&conclusion.patch);
        self.write_patch(conclusion.patch.as_value(), "");
        for operation in &conclusion.operations {
            self.protocol.push(format!("storage: {}", json!(operation)));
            if let StorageOperation::Store { id, record } = operation {
                self.records.retain(|(known, _)| known != id);
                let mut kept = record.as_object().cloned().unwrap_or_default();
                kept.retain(|_, value| !value.is_null());
                self.records.push((Arc::clone(id), kept.into()));
            }
        }
        for (id, result) in &conclusion.results {
            self.protocol.push(format!("result: {id} {result}"));
        }
        if let Some(change) = conclusion.finalizer {
            self.protocol.push(format!("finalizer: {change:?}"));
            self.object.change_finalizer(change, self.object.version());
        }
        if conclusion.awaits_newer {
            self.protocol.push("awaits a newer body".to_owned());
        }
        if let Some(delay) = conclusion.delay {
            self.protocol.push(format!("delay: {delay}"));
        }
        let has_changed = self.object.version() != version && self.object.exists;
        conclusion.delay.or(has_changed.then_some(0.0))
    }

    fn write_notes(&mut self, notes: Vec<Note>) {
        for Note { severity, text, traceback, local } in notes {
            // The whole body would drown the rest.
            let text =
                text.split_once(" in progress: ").map_or(text.clone(), |(start, _)| format!("{start} in progress: …"));
            let (traceback, local) =
                (if traceback { " with traceback" } else { "" }, if local { " (local)" } else { "" });
            let severity = format!("{severity:?}").to_lowercase();
            self.protocol.push(format!("{severity}{local}: {text}{traceback}"));
        }
    }

    fn write_patch(&mut self, patch: &Value, place: &str) {
        match patch {
            Value::Object(fields) => {
                // The order does not matter to anybody.
                for (key, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                    let place = if place.is_empty() { key.clone() } else { format!("{place} {key}") };
                    self.write_patch(value, &place);
                }
            }
            leaf => {
                let place = place.strip_prefix("metadata annotations ").unwrap_or(place);
                let text = leaf.as_str().map_or_else(|| leaf.to_string(), |text| text.replace('\n', "\\n"));
                self.protocol.push(format!("patch: {place} = {text}"));
            }
        }
    }

    fn answer(&mut self, cycle: &mut Cycle, ask: Effect) -> EffectResult {
        match ask {
            Effect::Call(request) => EffectResult::Called(self.call(cycle, &request)),
            Effect::Filters(questions) => {
                let asked = questions.iter().map(|one| format!("{} {:?} {:?}", one.handler, one.slot, one.value));
                self.protocol.push(format!("filters? {}", asked.collect::<Vec<_>>().join("; ")));
                EffectResult::Filters(questions.iter().map(|question| self.callbacks[&question.handler]).collect())
            }
            Effect::Choose(candidates) => {
                let ids: Vec<&str> = candidates.iter().map(|handler| &*handler.id).collect();
                self.protocol.push(format!("choose? {}", ids.join(" ")));
                EffectResult::Chosen(candidates.last().map(|handler| handler.index).into_iter().collect())
            }
            Effect::Storage { ids, extra_fields, progress, diffbase } => {
                self.protocol.push(format!("storage? {} {extra_fields:?} {progress} {diffbase}", ids.join(" ")));
                let body = self.object.body();
                let old = self.records.iter().find(|(id, _)| &**id == "essence").map(|(_, essence)| essence.clone());
                EffectResult::Storage { old, new: Some(json!({"spec": body.spec()})), records: self.records.clone() }
            }
            Effect::Background(_) => unreachable!("no scenario has daemons"),
        }
    }

    fn call(&mut self, cycle: &mut Cycle, request: &CallRequest) -> CallOutcome {
        let CallRequest { handler, retry, runtime_seconds, timeout_seconds, .. } = request;
        let cause = Arc::clone(cycle.cause().expect("a cause"));
        let timeout = timeout_seconds.map(|seconds| format!(" of {seconds}s left")).unwrap_or_default();
        let mut line = format!("call: {} {} retry {retry}, {runtime_seconds}s", handler.id, cause.reason.as_str());
        if handler.handler_type == HandlerType::Event {
            line = format!("call: {} {:?}", handler.id, cause.event.and_then(EventType::as_str));
        }
        self.protocol.push(line + &timeout);
        let id = self.outcomes.keys().find(|id| ***id == *handler.id).copied();
        let returned = id.and_then(|id| self.outcomes.get_mut(id)?.pop_front()).unwrap_or(Ok(None));
        let mut subrefs = BTreeSet::new();
        let Some(children) = self.children.get(&*handler.id).cloned().filter(|_| returned.is_ok()) else {
            return CallOutcome { result: returned, subrefs };
        };
        let mut batch = cycle.sub_batch(children, None).expect("a cause");
        let mut result = None;
        loop {
            let step = batch.step(result.take(), self.now, &mut || 0.5);
            self.write_notes(batch.take_notes());
            match step {
                SubBatchStep::Effect(ask) => result = Some(self.answer(cycle, ask)),
                SubBatchStep::Done(conclusion) => {
                    subrefs.extend(conclusion.ids.iter().map(ToString::to_string));
                    cycle.add_sub_batch(conclusion.operations, conclusion.results);
                    let delay = conclusion.delay;
                    let result = if conclusion.done { returned } else { Err(CallError::ChildrenRetry { delay }) };
                    return CallOutcome { result, subrefs };
                }
            }
        }
    }
}

/// What has happened, line by line; since the last check.
#[track_caller]
pub(crate) fn check(scenario: &mut Scenario, expected: &str) {
    let happened = std::mem::take(&mut scenario.protocol);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let marked = |lines: &[&str], others: &[&str]| {
        let mark = |(position, line): (usize, &&str)| {
            let mark = if others.get(position) == Some(line) { " " } else { "!" };
            format!("{mark} {line}")
        };
        lines.iter().enumerate().map(mark).collect::<Vec<_>>().join("\n")
    };
    let lines: Vec<&str> = happened.iter().map(String::as_str).collect();
    let story = || {
        let object = scenario.object.value();
        format!("happened:\n{}\nexpected:\n{}\non {object:#}", marked(&lines, &expected), marked(&expected, &lines))
    };
    assert!(lines == expected, "{}", story());
}
