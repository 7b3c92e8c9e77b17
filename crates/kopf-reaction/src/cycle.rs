//! One handling cycle of one object: from a body to the calls, and from their outcomes to what is stored.
//!
//! A state machine without I/O. The engine steps it; whenever it needs something from outside (a callback,
//! a storage of the user, a call of a handler) it asks, and goes on with the reply. So a whole life of an
//! object, with crashes between any two steps, can be played through in a test.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::{Body, FieldPath, MergePatch, finalizers};
use serde_json::Value;

use crate::cause::{Facts, purpose_title};
use crate::storage::Corruption;
use crate::{
    Answers, CallOutcome, CallRequest, ErrorsMode, FilterDepth, FilterQuestion, Handler, HandlerSet, Lifecycle, Note,
    ReactionSettings, Reason, Round, RoundStep, Scene, StorageOperation, SubRound, detect, python_repr, select,
};

/// How a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// By the first listing.
    Listed,
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As the handlers get to see it.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}

/// Everything that a cycle starts from.
#[derive(Clone, Debug)]
pub struct CycleInput {
    pub body: Body,
    /// None if the body is not new to the spies: the answer to a patch, or a wake-up.
    pub event: Option<EventType>,
    pub handlers: Arc<HandlerSet>,
    pub settings: Arc<ReactionSettings>,
    /// First seen by a listing, and not handled in full since.
    pub initial: bool,
    /// The body is not older than our last patch: state-dependent handlers may run.
    pub consistent: bool,
    /// Whether notes for debugging are wanted.
    pub verbose: bool,
}

/// What the cycle needs from outside.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The storages of the user; answered by [`Reply::Storage`].
    Storage { ids: Vec<Arc<str>>, extra_fields: Vec<FieldPath>, progress: bool, diffbase: bool },
    /// Callbacks of filters; answered by [`Reply::Filters`].
    Filters(Vec<FilterQuestion>),
    /// The lifecycle function of the user; answered by [`Reply::Chosen`].
    Choose(Vec<Arc<Handler>>),
    /// One handler; answered by [`Reply::Called`].
    Call(CallRequest),
}

/// The answers, in the order of the questions.
#[derive(Clone, Debug)]
pub enum Reply {
    Storage { old: Option<Value>, new: Option<Value>, records: Vec<(Arc<str>, Value)> },
    Filters(Vec<bool>),
    Chosen(Vec<usize>),
    Called(CallOutcome),
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum Step {
    Ask(Ask),
    Done(Box<Conclusion>),
}

/// What is to be done with our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    Add,
    Remove,
}

/// What a cycle came to.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// What the standard storages want to be written.
    pub patch: MergePatch,
    /// What storages of the user have to write themselves.
    pub operations: Vec<StorageOperation>,
    /// The results of handlers, for the status.
    pub results: Vec<(Arc<str>, Value)>,
    pub finalizer: Option<FinalizerChange>,
    /// Seconds until some handler is due again; None if there is nothing to wait for.
    pub delay: Option<f64>,
    /// The change handlers had their turn.
    pub handled: bool,
    /// Nothing is left to be done for this object; resuming is over.
    pub fully_handled: bool,
    /// A newer body must come before the change handlers have their turn.
    pub awaits_newer: bool,
}

/// The machine.
#[derive(Debug)]
pub struct Cycle {
    input: CycleInput,
    stage: Stage,
    scene: Option<Arc<Scene>>,
    answers: Answers,
    asked: Vec<FilterQuestion>,
    /// The records of the user's storage, once read.
    records: Vec<(Arc<str>, Value)>,
    round: Option<Round>,
    /// Whether the object is of any interest to the change handlers.
    interesting: bool,
    conclusion: Conclusion,
    /// Operations of the standard storages, before they become a patch.
    operations: Vec<StorageOperation>,
    notes: Vec<Note>,
}

/// Where the cycle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What was handled last is to be read.
    Reading,
    /// Which spies match?
    MatchingSpies,
    /// The spies are called.
    Spying,
    /// Are there change handlers for such an object, and does any of them need the finalizer?
    MatchingInterest,
    /// Which change handlers match?
    MatchingChanges,
    /// The change handlers are called.
    Changing,
    /// Everything is decided.
    Concluding,
    Finished,
}

impl Cycle {
    pub fn new(input: CycleInput) -> Self {
        Self {
            input,
            stage: Stage::Reading,
            scene: None,
            answers: Answers::default(),
            asked: Vec::new(),
            records: Vec::new(),
            round: None,
            interesting: false,
            conclusion: Conclusion::default(),
            operations: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Goes on as far as possible; `reply` answers what was asked last, `random` gives numbers in 0..1.
    pub fn step(&mut self, reply: Option<Reply>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> Step {
        let asked_storage = self.accept(reply, now, random);
        if self.stage == Stage::Reading {
            let settings = &self.input.settings;
            let (progress, diffbase) = (settings.progress.is_front(), settings.diffbase.is_front());
            if (progress || diffbase) && asked_storage.is_none() {
                let ids = self.input.handlers.owned.iter().map(|handler| Arc::clone(&handler.id)).collect();
                let extra_fields = self.input.handlers.extra_fields.clone();
                return Step::Ask(Ask::Storage { ids, extra_fields, progress, diffbase });
            }
            self.read(asked_storage);
            self.stage = Stage::MatchingSpies;
        }
        let Some(scene) = self.scene.clone() else { return self.conclude() };
        loop {
            let asking = match self.stage {
                Stage::MatchingSpies => self.match_spies(&scene, now),
                Stage::Spying | Stage::Changing => self.call(&scene, now, random),
                Stage::MatchingInterest => self.match_interest(&scene),
                Stage::MatchingChanges => self.match_changes(&scene, now),
                Stage::Reading | Stage::Concluding | Stage::Finished => return self.conclude(),
            };
            if let Some(ask) = asking {
                return Step::Ask(ask);
            }
        }
    }

    /// What has happened, once it is known.
    pub fn scene(&self) -> Option<&Arc<Scene>> {
        self.scene.as_ref()
    }

    /// The states of the handlers in the current round, for lifecycle functions of the user.
    pub fn round(&self) -> Option<&Round> {
        self.round.as_ref()
    }

    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(round) = &mut self.round {
            notes.extend(round.take_notes());
        }
        notes
    }

    /// A round of sub-handlers, asked for by a handler that is being called.
    pub fn sub_round(&self, handlers: Vec<Arc<Handler>>, lifecycle: Option<Lifecycle>) -> Option<SubRound> {
        let scene = Arc::clone(self.scene.as_ref()?);
        let lifecycle = lifecycle.unwrap_or(self.input.settings.lifecycle);
        Some(SubRound::new(scene, Arc::clone(&self.input.settings), handlers, lifecycle, self.input.verbose))
    }

    /// What a finished round of sub-handlers leaves behind.
    pub fn absorb(&mut self, operations: Vec<StorageOperation>, results: Vec<(Arc<str>, Value)>) {
        self.operations.extend(operations);
        self.conclusion.results.extend(results);
    }

    fn accept(
        &mut self,
        reply: Option<Reply>,
        now: Timestamp,
        random: &mut dyn FnMut() -> f64,
    ) -> Option<(Option<Value>, Option<Value>)> {
        match reply {
            None => {}
            Some(Reply::Storage { old, new, records }) => {
                self.records = records;
                return Some((old, new));
            }
            Some(Reply::Filters(answers)) => {
                for (question, answer) in std::mem::take(&mut self.asked).iter().zip(answers) {
                    self.answers.insert(question, answer);
                }
            }
            Some(Reply::Chosen(indexes)) => {
                if let Some(round) = &mut self.round {
                    round.chosen(&indexes);
                }
            }
            Some(Reply::Called(outcome)) => {
                if let Some(round) = &mut self.round {
                    round.called(outcome, now, random);
                }
            }
        }
        None
    }

    fn read(&mut self, from_front: Option<(Option<Value>, Option<Value>)>) {
        let CycleInput { body, settings, handlers, .. } = &self.input;
        let mut corruptions = Vec::new();
        let (mut old, mut new) = match from_front {
            Some(essences) if settings.diffbase.is_front() => essences,
            _ => (
                settings.diffbase.fetch(body.value(), &mut corruptions),
                Some(settings.diffbase.build(body.value(), &handlers.extra_fields)),
            ),
        };
        for essence in [&mut old, &mut new].into_iter().flatten() {
            settings.progress.clear(essence);
        }
        let diff = Scene::difference(old.as_ref(), new.as_ref());
        let deletion_ongoing = finalizers::is_deletion_ongoing(body.value());
        let cause = detect(Facts {
            event: self.input.event,
            deletion_ongoing,
            deletion_blocked: finalizers::is_deletion_blocked(body.value(), &settings.finalizer),
            handled_before: old.is_some(),
            changed: !diff.is_empty(),
            initial: self.input.initial,
        });
        let body = body.clone();
        self.scene =
            Some(Arc::new(Scene { body, event: self.input.event, cause, old, new, diff, deletion_ongoing }));
        self.report(corruptions);
    }

    fn report(&mut self, corruptions: Vec<Corruption>) {
        for Corruption { place, problem } in corruptions {
            let text = format!("The stored state in {place} is ignored, as it cannot be read: {problem}");
            self.notes.push(Note::warning(text).local());
        }
    }

    fn match_spies(&mut self, scene: &Scene, now: Timestamp) -> Option<Ask> {
        let spies = &self.input.handlers.watching;
        if spies.is_empty() || self.input.event.is_none() {
            self.stage = Stage::MatchingInterest;
            return None;
        }
        match select(spies, scene.as_event(), FilterDepth::Full, &self.answers) {
            Err(questions) => Some(self.ask(questions)),
            Ok(matching) => {
                let backoff = self.input.settings.default_backoff;
                let round = Round::transient(matching, ErrorsMode::Ignored, true, backoff, now);
                self.round = Some(round.quiet(!self.input.verbose));
                self.stage = Stage::Spying;
                None
            }
        }
    }

    fn call(&mut self, scene: &Arc<Scene>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> Option<Ask> {
        let Some(round) = &mut self.round else {
            self.stage = Stage::Concluding;
            return None;
        };
        match round.step(now, random) {
            RoundStep::Choose(candidates) => return Some(Ask::Choose(candidates)),
            RoundStep::Call(request) => return Some(Ask::Call(request)),
            RoundStep::Finished => {}
        }
        self.notes.extend(round.take_notes());
        self.conclusion.results.extend(round.take_results());
        if self.stage == Stage::Spying {
            self.round = None;
            self.stage = Stage::MatchingInterest;
        } else {
            self.finish_changes(scene, now);
            self.stage = Stage::Concluding;
        }
        None
    }

    /// Objects that match no handler are left alone; others are held as long as some handler needs that.
    fn match_interest(&mut self, scene: &Scene) -> Option<Ask> {
        let changing = &self.input.handlers.changing;
        let (matching, questions) = match select(changing, scene.as_change(), FilterDepth::Interest, &self.answers) {
            Err(questions) => (Vec::new(), questions),
            Ok(matching) => (matching, Vec::new()),
        };
        if !questions.is_empty() {
            return Some(self.ask(questions));
        }
        self.interesting = !matching.is_empty();
        let settings = &self.input.settings;
        let must_be_held = matching.iter().any(|handler| handler.requires_finalizer);
        let held = finalizers::is_deletion_blocked(scene.body.value(), &settings.finalizer);
        let gone = scene.reason() == Reason::Gone;

        self.stage = Stage::Concluding;
        if must_be_held && !held && !scene.deletion_ongoing && !gone {
            self.debug(|| Note::debug("Adding the finalizer, thus preventing the actual deletion.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Add);
        } else if !must_be_held && held && !gone {
            self.debug(|| Note::debug("Removing the finalizer, as there are no handlers requiring it.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Remove);
        } else if self.interesting && !self.input.consistent && !gone {
            self.conclusion.awaits_newer = true;
        } else if self.interesting {
            self.stage = Stage::MatchingChanges;
        }
        None
    }

    fn match_changes(&mut self, scene: &Arc<Scene>, now: Timestamp) -> Option<Ask> {
        self.conclusion.handled = true;
        let reason = scene.reason();
        if !reason.has_handlers() {
            let text = match reason {
                Reason::Gone => "Deleted, really deleted, and we are notified.",
                Reason::Free => "Deletion, but we are done with it, and we do not care.",
                _ => "Something has changed, but we are not interested (the essence is the same).",
            };
            self.debug(|| Note::debug(text));
            self.stage = Stage::Concluding;
            return None;
        }
        let declared = scene.declared_for(&self.input.handlers.changing);
        let matching = match select(&declared, scene.as_change(), FilterDepth::Full, &self.answers) {
            Err(questions) => return Some(self.ask(questions)),
            Ok(matching) => matching,
        };
        self.begin_changes(scene, matching, now);
        None
    }

    fn begin_changes(&mut self, scene: &Arc<Scene>, matching: Vec<Arc<Handler>>, now: Timestamp) {
        let settings = Arc::clone(&self.input.settings);
        let mut corruptions = Vec::new();
        let records = if settings.progress.is_front() {
            std::mem::take(&mut self.records)
        } else {
            let body = scene.body.value();
            let fetch = |handler: &Arc<Handler>, corruptions: &mut Vec<Corruption>| {
                let record = settings.progress.fetch(&handler.id, body, corruptions)?;
                Some((Arc::clone(&handler.id), record))
            };
            self.input.handlers.owned.iter().filter_map(|handler| fetch(handler, &mut corruptions)).collect()
        };
        self.report(corruptions);

        let idle = matching.is_empty();
        let title = scene.reason().title();
        let mut round = Round::stored(
            scene.reason().as_str(),
            records,
            matching,
            settings.lifecycle,
            settings.default_backoff,
            now,
        )
        .quiet(!self.input.verbose);
        let superseded = round.superseded();
        for (purpose, counts) in &superseded {
            self.notes.push(Note::info(format!(
                "{} is superseded by {title}: {} succeeded; {} failed; {} left to the moment.",
                capitalized(&purpose_title(purpose)),
                counts.success,
                counts.failure,
                counts.running,
            )));
        }
        if !superseded.is_empty() {
            round.repurpose();
        }
        // What was not taken over into the current purpose is of no use any more.
        if !round.superseded().is_empty() {
            self.operations.extend(round.purge(&self.input.handlers.owned));
        }
        self.debug(|| Note::debug(format!("{} is in progress: {}", capitalized(title), python_repr(scene.body.value()))));
        if !scene.diff.is_empty() && scene.old.is_some() && scene.new.is_some() {
            self.debug(|| Note::debug(format!("{} diff: {}", capitalized(title), diff_repr(scene))));
        }
        if idle {
            self.store_essence(scene);
            self.stage = Stage::Concluding;
        } else {
            self.round = Some(round);
            self.stage = Stage::Changing;
        }
    }

    fn finish_changes(&mut self, scene: &Scene, now: Timestamp) {
        let Some(round) = &self.round else { return };
        self.operations.extend(round.store());
        self.conclusion.delay = round.delay(now);
        if round.done() {
            let counts = round.counts();
            self.notes.push(Note::info(format!(
                "{} is processed: {} succeeded; {} failed.",
                capitalized(scene.reason().title()),
                counts.success,
                counts.failure,
            )));
            let purge = round.purge(&self.input.handlers.owned);
            self.operations.extend(purge);
            self.store_essence(scene);
        }
    }

    /// Everything is handled: what was seen now is what was handled last.
    fn store_essence(&mut self, scene: &Scene) {
        self.conclusion.fully_handled = true;
        if let Some(new) = &scene.new
            && scene.old.as_ref() != Some(new)
        {
            self.operations.push(StorageOperation::DiffBase { essence: new.clone() });
        }
    }

    fn conclude(&mut self) -> Step {
        let mut conclusion = std::mem::take(&mut self.conclusion);
        if self.stage != Stage::Finished
            && let Some(scene) = self.scene.clone()
        {
            self.stage = Stage::Finished;
            let held = finalizers::is_deletion_blocked(scene.body.value(), &self.input.settings.finalizer);
            let gone = scene.reason() == Reason::Gone;
            let waiting = conclusion.delay.is_some() || conclusion.awaits_newer;
            if scene.deletion_ongoing && held && !gone && !waiting && conclusion.finalizer.is_none() {
                self.debug(|| Note::debug("Removing the finalizer, thus allowing the actual deletion.").local());
                conclusion.finalizer = Some(FinalizerChange::Remove);
            }
            self.write(&scene, &mut conclusion);
        }
        Step::Done(Box::new(conclusion))
    }

    fn write(&mut self, scene: &Scene, conclusion: &mut Conclusion) {
        let settings = &self.input.settings;
        let body = scene.body.value();
        for operation in std::mem::take(&mut self.operations) {
            let for_front = match &operation {
                StorageOperation::DiffBase { .. } => settings.diffbase.is_front(),
                _ => settings.progress.is_front(),
            };
            if for_front {
                conclusion.operations.push(operation);
                continue;
            }
            match operation {
                StorageOperation::Store { id, record } => {
                    settings.progress.store(&id, &record, body, &mut conclusion.patch);
                }
                StorageOperation::Purge { id } => settings.progress.purge(&id, body, &mut conclusion.patch),
                StorageOperation::Touch { value } => {
                    settings.progress.touch(value.as_deref(), body, &mut conclusion.patch);
                }
                StorageOperation::DiffBase { essence } => {
                    settings.diffbase.store(&essence, body, &mut conclusion.patch);
                }
            }
        }
        // Only along with something else: it is not worth a request of its own.
        if !conclusion.patch.is_empty() && !settings.progress.is_front() {
            settings.progress.touch(None, body, &mut conclusion.patch);
        }
    }

    fn ask(&mut self, questions: Vec<FilterQuestion>) -> Ask {
        self.asked.clone_from(&questions);
        Ask::Filters(questions)
    }

    fn debug(&mut self, note: impl FnOnce() -> Note) {
        if self.input.verbose {
            self.notes.push(note());
        }
    }
}

fn capitalized(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// A diff as Python shows a tuple of tuples.
fn diff_repr(scene: &Scene) -> String {
    let items: Vec<String> = scene
        .diff
        .iter()
        .map(|item| {
            let json = item.to_json();
            let part = |position: usize| json.get(position).map(python_repr).unwrap_or_default();
            let field: Vec<String> = item.field.segments().map(crate::text::repr_str).collect();
            let comma = if field.len() == 1 { "," } else { "" };
            format!("({}, ({}{comma}), {}, {})", part(0), field.join(", "), part(2), part(3))
        })
        .collect();
    let comma = if items.len() == 1 { "," } else { "" };
    format!("({}{comma})", items.join(", "))
}
