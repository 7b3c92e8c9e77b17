//! One handling cycle of one object: from a body to the calls, and from their outcomes to what is stored.
//!
//! A state machine without I/O. The engine steps it; whenever it needs something from outside (a callback,
//! a storage of the user, a call of a handler) it asks, and goes on with the result. So a whole life of an
//! object, with crashes between any two steps, can be played through in a test.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::{Body, FieldPath, MergePatch, encode_essence_within, finalizers, restore_essence};
use serde_json::Value;

use crate::cause::purpose_title;
use crate::detect::Facts;
use crate::storage::Corruption;
use crate::{
    BackgroundPlan, BackgroundView, Batch, BatchStep, CallOutcome, CallRequest, Cause, DetectedReason, ErrorsMode,
    EventType, FilterAnswers, FilterDepth, FilterQuestion, Handler, HandlerSet, HandlerState, Lifecycle, Note,
    ReactionSettings, Reason, StorageOperation, SubBatch, detect, diff_repr, python_repr, select_handlers,
};

/// How long the essence may be that is stored with each finished handler of an unfinished batch. What is longer is
/// compressed, or has digests instead of large values.
const SEEN_ESSENCE_AT_MOST: usize = 2048;

/// Everything that a cycle starts from.
#[derive(Clone, Debug)]
pub struct CycleInput {
    pub body: Body,
    /// None if the body is not new to the event_handlers: the answer to a patch, or a wake-up.
    pub event: Option<EventType>,
    pub handlers: Arc<HandlerSet>,
    pub settings: Arc<ReactionSettings>,
    /// First seen by a listing, and not handled in full since.
    pub initial: bool,
    /// The body is not older than our last patch: state-dependent handlers may run.
    pub consistent: bool,
    /// The daemons and timers of the object.
    pub background: BackgroundView,
    /// Whether notes for debugging are wanted.
    pub verbose: bool,
}

/// What the cycle needs from outside.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The storages of the user; answered by [`EffectResult::Storage`].
    Storage { ids: Vec<Arc<str>>, extra_fields: Vec<FieldPath>, progress: bool, diffbase: bool },
    /// Callbacks of filters; answered by [`EffectResult::Filters`].
    Filters(Vec<FilterQuestion>),
    /// The lifecycle function of the user; answered by [`EffectResult::Chosen`].
    Choose(Vec<Arc<Handler>>),
    /// One handler; answered by [`EffectResult::Called`].
    Call(CallRequest),
    /// Start and stop daemons and timers; answered by [`EffectResult::Background`].
    Background(BackgroundPlan),
}

/// The answers, in the order of the questions.
#[derive(Clone, Debug)]
pub enum EffectResult {
    Storage {
        old: Option<Value>,
        new: Option<Value>,
        records: Vec<(Arc<str>, Value)>,
    },
    Filters(Vec<bool>),
    Chosen(Vec<usize>),
    Called(CallOutcome),
    /// How many of the daemons and timers must end before the object may disappear.
    Background {
        blocking: usize,
    },
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum CycleStep {
    Effect(Effect),
    Done(Box<CycleConclusion>),
}

/// What is to be done with our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    Add,
    Remove,
}

/// What a cycle came to.
#[derive(Clone, Debug, Default)]
pub struct CycleConclusion {
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
    /// What finished handlers have seen that is not stored as handled yet, as a list of essences: to be remembered
    /// for the next cycle, see [`Cycle::with_partly_handled`].
    pub partly_handled: Option<Arc<Value>>,
}

/// The machine.
#[derive(Debug)]
pub struct Cycle {
    input: CycleInput,
    stage: CycleStage,
    cause: Option<Arc<Cause>>,
    answers: FilterAnswers,
    asked: Vec<FilterQuestion>,
    /// The records of the user's storage, once read.
    records: Vec<(Arc<str>, Value)>,
    /// The essences of the user's storage, while the records of sub-handlers are still to be read.
    essences: Option<(Option<Value>, Option<Value>)>,
    /// What could not be read; told only if the object turns out to be of interest.
    corruptions: Vec<Corruption>,
    /// The handlers of this cycle that only resume: they go on under any reason, and need not see every change.
    resuming: Vec<Arc<str>>,
    /// The sub-handlers whose stored progress is of a superseded reason: it counts as absent.
    superseded: Vec<Arc<str>>,
    /// A sub-handler was finished in this cycle.
    finished_children: bool,
    /// The finished handlers and sub-handlers that have seen something else than there is now.
    behind: Vec<Arc<str>>,
    batch: Option<Batch>,
    /// How many daemons and timers must end before the object may disappear.
    blocking_tasks: usize,
    /// Some of the matching daemons and timers need the object to be held.
    background_needs_finalizer: bool,
    /// Whether the object is of any interest to the change handlers.
    interesting: bool,
    conclusion: CycleConclusion,
    /// Operations of the standard storages, before they become a patch.
    operations: Vec<StorageOperation>,
    notes: Vec<Note>,
}

/// Where the cycle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CycleStage {
    /// What was handled last is to be read.
    Reading,
    /// The user's storage is asked for the sub-handlers that its records name.
    ReadingChildren,
    /// Which event_handlers match?
    MatchingEventHandlers,
    /// The event_handlers are called.
    CallingEventHandlers,
    /// Which daemons and timers match?
    MatchingBackground,
    /// Are there change handlers for such an object, and does any of them need the finalizer?
    MatchingRelevance,
    /// Which change handlers match?
    MatchingChanges,
    /// The change handlers are called.
    CallingChangeHandlers,
    /// Everything is decided.
    Concluding,
    Finished,
}

impl Cycle {
    pub fn new(input: CycleInput) -> Self {
        Self {
            blocking_tasks: input.background.blocking_count(),
            background_needs_finalizer: false,
            input,
            stage: CycleStage::Reading,
            cause: None,
            answers: FilterAnswers::default(),
            asked: Vec::new(),
            records: Vec::new(),
            essences: None,
            corruptions: Vec::new(),
            resuming: Vec::new(),
            superseded: Vec::new(),
            finished_children: false,
            behind: Vec::new(),
            batch: None,
            interesting: false,
            conclusion: CycleConclusion::default(),
            operations: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// With what the previous cycle of the same object has left in [`CycleConclusion::partly_handled`].
    ///
    /// If the object changes while some of its handlers are finished and others are not, the finished ones have not
    /// seen that change. What they have seen is then stored as handled at the end, not what is there now;
    /// so the change becomes the next update, and no handler misses it.
    pub fn with_partly_handled(mut self, partly_handled: Option<Arc<Value>>) -> Self {
        self.conclusion.partly_handled = partly_handled;
        self
    }

    /// Goes on as far as possible; `result` answers what was asked last, `random` gives numbers in 0..1.
    pub fn step(&mut self, result: Option<EffectResult>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> CycleStep {
        let asked_storage = self.accept(result, now, random);
        if self.stage == CycleStage::Reading {
            let settings = &self.input.settings;
            let (progress, diffbase) = (settings.progress.is_front(), settings.diffbase.is_front());
            if (progress || diffbase) && asked_storage.is_none() {
                let ids = self
                    .input
                    .handlers
                    .distinct_change_handlers
                    .iter()
                    .map(|handler| Arc::clone(&handler.id))
                    .collect();
                let extra_fields = self.input.handlers.extra_fields.clone();
                // The essences, too: each storage clears them of what it keeps there itself.
                return CycleStep::Effect(Effect::Storage { ids, extra_fields, progress: true, diffbase: true });
            }
            let children = subrefs_of(&self.records);
            if !children.is_empty() {
                self.essences = asked_storage;
                self.stage = CycleStage::ReadingChildren;
                let (ids, extra_fields) = (children, Vec::new());
                return CycleStep::Effect(Effect::Storage { ids, extra_fields, progress: true, diffbase: false });
            }
            self.read(asked_storage);
            self.stage = CycleStage::MatchingEventHandlers;
        } else if self.stage == CycleStage::ReadingChildren {
            let essences = self.essences.take();
            self.read(essences);
            self.stage = CycleStage::MatchingEventHandlers;
        }
        let Some(cause) = self.cause.clone() else { return self.conclude() };
        loop {
            let asking = match self.stage {
                CycleStage::MatchingEventHandlers => self.match_event_handlers(&cause, now),
                CycleStage::CallingEventHandlers | CycleStage::CallingChangeHandlers => self.call(&cause, now, random),
                CycleStage::MatchingBackground => self.match_background(&cause),
                CycleStage::MatchingRelevance => self.match_relevance(&cause),
                CycleStage::MatchingChanges => self.match_changes(&cause, now),
                CycleStage::Reading | CycleStage::ReadingChildren | CycleStage::Concluding | CycleStage::Finished => {
                    return self.conclude();
                }
            };
            if let Some(effect) = asking {
                return CycleStep::Effect(effect);
            }
        }
    }

    /// What has happened, once it is known.
    pub fn cause(&self) -> Option<&Arc<Cause>> {
        self.cause.as_ref()
    }

    /// The states of the handlers in the current batch, for lifecycle functions of the user.
    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(batch) = &mut self.batch {
            notes.extend(batch.take_notes());
        }
        notes
    }

    /// A batch of sub-handlers, asked for by a handler that is being called.
    pub fn sub_batch(&self, handlers: Vec<Arc<Handler>>, lifecycle: Option<Lifecycle>) -> Option<SubBatch> {
        let cause = Arc::clone(self.cause.as_ref()?);
        let lifecycle = lifecycle.unwrap_or(self.input.settings.lifecycle);
        let settings = Arc::clone(&self.input.settings);
        Some(SubBatch::new(cause, settings, handlers, lifecycle, self.superseded.clone(), self.input.verbose))
    }

    /// What a finished batch of sub-handlers leaves behind.
    pub fn add_sub_batch(&mut self, operations: Vec<StorageOperation>, results: Vec<(Arc<str>, Value)>) {
        let is_final = |record: &Value| record["success"] == true || record["failure"] == true;
        self.finished_children |= operations
            .iter()
            .any(|operation| matches!(operation, StorageOperation::Store { record, .. } if is_final(record)));
        self.operations.extend(operations);
        self.conclusion.results.extend(results);
    }

    fn accept(
        &mut self,
        result: Option<EffectResult>,
        now: Timestamp,
        random: &mut dyn FnMut() -> f64,
    ) -> Option<(Option<Value>, Option<Value>)> {
        match result {
            None => {}
            Some(EffectResult::Storage { old, new, records }) => {
                self.records.extend(records);
                return Some((old, new));
            }
            Some(EffectResult::Filters(answers)) => {
                for (question, answer) in std::mem::take(&mut self.asked).iter().zip(answers) {
                    self.answers.insert(question, answer);
                }
            }
            Some(EffectResult::Chosen(indexes)) => {
                if let Some(batch) = &mut self.batch {
                    batch.chosen(&indexes);
                }
            }
            Some(EffectResult::Called(outcome)) => {
                if let Some(batch) = &mut self.batch {
                    batch.called(outcome, now, random);
                }
            }
            Some(EffectResult::Background { blocking }) => self.blocking_tasks = blocking,
        }
        None
    }

    fn read(&mut self, from_front: Option<(Option<Value>, Option<Value>)>) {
        let CycleInput { body, settings, handlers, .. } = &self.input;
        let mut corruptions = Vec::new();
        let (mut old, mut new) = match from_front {
            Some(essences) => essences,
            None => (
                settings.diffbase.fetch(body.without_managed_fields(), &mut corruptions),
                Some(settings.diffbase.build(body.with_fields(&handlers.extra_fields), &handlers.extra_fields)),
            ),
        };
        if let Some(new) = &mut new {
            settings.progress.clear(new);
        }
        old = old.map(|stored| restore_essence(stored, new.as_ref()));
        if let Some(old) = &mut old {
            settings.progress.clear(old);
        }
        let diff = Cause::difference(old.as_ref(), new.as_ref());
        let deletion_ongoing = finalizers::is_deletion_ongoing(body.without_managed_fields());
        let DetectedReason { reason, initial } = detect(Facts {
            event: self.input.event,
            deletion_ongoing,
            deletion_blocked: finalizers::is_deletion_blocked(body.without_managed_fields(), &settings.finalizer),
            handled_before: old.is_some(),
            changed: !diff.is_empty(),
            initial: self.input.initial,
        });
        let body = body.clone();
        self.cause =
            Some(Arc::new(Cause { body, event: self.input.event, reason, initial, old, new, diff, deletion_ongoing }));
        self.corruptions = corruptions;
    }

    fn match_event_handlers(&mut self, cause: &Cause, now: Timestamp) -> Option<Effect> {
        let event_handlers = &self.input.handlers.event_handlers;
        if event_handlers.is_empty() || self.input.event.is_none() {
            self.stage = CycleStage::MatchingBackground;
            return None;
        }
        match select_handlers(event_handlers, cause.as_event(), FilterDepth::Full, &self.answers) {
            Err(questions) => Some(self.ask_filters(questions)),
            Ok(matching) => {
                let backoff = self.input.settings.default_backoff;
                let batch = Batch::transient(matching, ErrorsMode::Ignored, true, backoff, now);
                self.batch = Some(batch.quiet(!self.input.verbose));
                self.stage = CycleStage::CallingEventHandlers;
                None
            }
        }
    }

    fn call(&mut self, cause: &Arc<Cause>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> Option<Effect> {
        let Some(batch) = &mut self.batch else {
            self.stage = CycleStage::Concluding;
            return None;
        };
        match batch.step(now, random) {
            BatchStep::Choose(candidates) => return Some(Effect::Choose(candidates)),
            BatchStep::Call(request) => return Some(Effect::Call(request)),
            BatchStep::Finished => {}
        }
        self.notes.extend(batch.take_notes());
        self.conclusion.results.extend(batch.take_results());
        if self.stage == CycleStage::CallingEventHandlers {
            self.batch = None;
            self.stage = CycleStage::MatchingBackground;
        } else {
            self.finish_changes(cause, now);
            self.stage = CycleStage::Concluding;
        }
        None
    }

    /// Daemons and timers begin before the change handlers, and are asked to end before them.
    fn match_background(&mut self, cause: &Cause) -> Option<Effect> {
        let gone = cause.reason == Reason::Gone;
        let CycleInput { handlers, background: view, consistent, .. } = &self.input;
        if (handlers.background_handlers.is_empty() && view.tasks.is_empty()) || (!consistent && !gone) {
            self.stage = CycleStage::MatchingRelevance;
            return None;
        }
        let unfinished = handlers.background_handlers.iter().filter(|handler| !view.ended.contains(&handler.id));
        let unfinished: Vec<_> = unfinished.cloned().collect();
        let matching = match select_handlers(&unfinished, cause.as_event(), FilterDepth::Full, &self.answers) {
            Err(_) if gone => Vec::new(),
            Err(questions) => return Some(self.ask_filters(questions)),
            Ok(matching) => matching,
        };
        self.stage = CycleStage::MatchingRelevance;
        self.background_needs_finalizer = matching.iter().any(|handler| handler.requires_finalizer);
        let plan = if gone || cause.deletion_ongoing {
            BackgroundPlan::for_deleted(view)
        } else {
            BackgroundPlan::for_present(&matching, view)
        };
        (!plan.is_empty()).then_some(Effect::Background(plan))
    }

    /// Objects that match no handler are left alone; others are held as long as some handler needs that.
    fn match_relevance(&mut self, cause: &Cause) -> Option<Effect> {
        let changing = &self.input.handlers.change_handlers;
        let (matching, questions) =
            match select_handlers(changing, cause.as_change(), FilterDepth::Interest, &self.answers) {
                Err(questions) => (Vec::new(), questions),
                Ok(matching) => (matching, Vec::new()),
            };
        if !questions.is_empty() {
            return Some(self.ask_filters(questions));
        }
        self.interesting = !matching.is_empty();
        let settings = &self.input.settings;
        // Not of the matching ones: there, a function that is declared several times is only once.
        let holding: Vec<_> = changing.iter().filter(|handler| handler.requires_finalizer).cloned().collect();
        let must_be_held = self.background_needs_finalizer
            || self.blocking_tasks > 0
            || select_handlers(&holding, cause.as_change(), FilterDepth::Interest, &self.answers)
                .is_ok_and(|holding| !holding.is_empty());
        let held = finalizers::is_deletion_blocked(cause.body.without_managed_fields(), &settings.finalizer);
        let gone = cause.reason == Reason::Gone;

        self.stage = CycleStage::Concluding;
        if !self.input.consistent && !gone {
            // Neither the finalizer nor the handlers are decided on by what is known to be outdated.
            self.conclusion.awaits_newer = true;
        } else if must_be_held && !held && !cause.deletion_ongoing && !gone {
            self.debug(|| Note::debug("Adding the finalizer, thus preventing the actual deletion.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Add);
        } else if !must_be_held && held && !gone {
            self.debug(|| Note::debug("Removing the finalizer, as there are no handlers requiring it.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Remove);
        } else if self.interesting {
            self.stage = CycleStage::MatchingChanges;
        }
        None
    }

    fn match_changes(&mut self, cause: &Arc<Cause>, now: Timestamp) -> Option<Effect> {
        self.conclusion.handled = true;
        let reason = cause.reason;
        if !reason.has_handlers() {
            let text = match reason {
                Reason::Gone => "Deleted, really deleted, and we are notified.",
                Reason::Free => "Deletion, but we are done with it, and we do not care.",
                _ => "Something has changed, but we are not interested (the essence is the same).",
            };
            self.debug(|| Note::debug(text));
            if reason == Reason::Noop {
                let (batch, stored) = self.batch_of(cause, Vec::new(), now);
                if stored || self.has_missed(cause) {
                    self.revert_changes(cause, &batch);
                }
            }
            self.stage = CycleStage::Concluding;
            return None;
        }
        let declared = cause.declared_for(&self.input.handlers.change_handlers);
        let matching = match select_handlers(&declared, cause.as_change(), FilterDepth::Full, &self.answers) {
            Err(questions) => return Some(self.ask_filters(questions)),
            Ok(matching) => matching,
        };
        let changing: Vec<_> = declared.into_iter().filter(|handler| !handler.initial).collect();
        let changing =
            select_handlers(&changing, cause.as_change(), FilterDepth::Full, &self.answers).unwrap_or_default();
        let resuming = matching.iter().filter(|one| !changing.iter().any(|other| other.id == one.id));
        self.resuming = resuming.map(|handler| Arc::clone(&handler.id)).collect();
        self.begin_changes(cause, matching, now);
        None
    }

    /// The handlers with their states, and whether anything is stored for them, be it readable or not.
    fn batch_of(&mut self, cause: &Cause, matching: Vec<Arc<Handler>>, now: Timestamp) -> (Batch, bool) {
        let settings = Arc::clone(&self.input.settings);
        let distinct_change_handlers = &self.input.handlers.distinct_change_handlers;
        let (records, children): (Vec<_>, Vec<_>) = if settings.progress.is_front() {
            let records = std::mem::take(&mut self.records);
            records.into_iter().partition(|(id, _)| distinct_change_handlers.iter().any(|handler| handler.id == *id))
        } else {
            let body = cause.body.without_managed_fields();
            let mut fetch =
                |id: &Arc<str>| Some((Arc::clone(id), settings.progress.fetch(id, body, &mut self.corruptions)?));
            let records: Vec<_> = distinct_change_handlers.iter().filter_map(|handler| fetch(&handler.id)).collect();
            let children = subrefs_of(&records).iter().filter_map(&mut fetch).collect();
            (records, children)
        };
        for (id, record) in records.iter().chain(&children) {
            self.recall_seen(cause, id, &HandlerState::from_record(record, now));
        }
        let reason = cause.reason.as_str();
        let batch = Batch::stored(reason, records, matching, settings.lifecycle, settings.default_backoff, now)
            .quiet(!self.input.verbose);
        let stored = batch.has_records() || !self.corruptions.is_empty();
        self.notes.extend(std::mem::take(&mut self.corruptions).into_iter().map(Corruption::into_note));
        (batch, stored)
    }

    /// The object is again what it was before the unfinished handling: that handling is of no use any more,
    /// but what was finished in it has to be undone by an update.
    fn revert_changes(&mut self, cause: &Cause, batch: &Batch) {
        let changing = &self.input.handlers.change_handlers;
        // Handlers that only resume have nothing to undo; they go on where they were.
        let goes_on =
            |id: &Arc<str>| cause.initial && !changing.iter().any(|handler| handler.id == *id && !handler.initial);
        let purged = batch.purge_except(&self.input.handlers.distinct_change_handlers, goes_on);
        self.operations.extend(purged);
        self.store_seen(cause);
    }

    fn begin_changes(&mut self, cause: &Arc<Cause>, matching: Vec<Arc<Handler>>, now: Timestamp) {
        let idle = matching.is_empty();
        let title = cause.reason.title();
        let (mut batch, stored) = self.batch_of(cause, matching, now);
        if cause.reason == Reason::Resume && self.has_missed(cause) {
            self.revert_changes(cause, &batch);
            self.stage = CycleStage::Concluding;
            return;
        }
        let superseded = batch.superseded();
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
            self.conclusion.partly_handled = None;
            for (id, state) in batch.states() {
                self.recall_seen(cause, id, state);
            }
            self.superseded = batch.supersede(&self.resuming, now);
            let purged = self.superseded.iter().map(|id| StorageOperation::Purge { id: Arc::clone(id) });
            self.operations.extend(purged);
        }
        self.debug(|| {
            Note::debug(format!("{} is in progress: {}", capitalized(title), python_repr(cause.body.value())))
        });
        if !cause.diff.is_empty() && cause.old.is_some() && cause.new.is_some() {
            self.debug(|| Note::debug(format!("{} diff: {}", capitalized(title), diff_repr(&cause.diff))));
        }
        if idle {
            if stored {
                self.operations.extend(batch.purge(&self.input.handlers.distinct_change_handlers));
            }
            self.store_essence(cause);
            self.stage = CycleStage::Concluding;
        } else {
            self.batch = Some(batch);
            self.stage = CycleStage::CallingChangeHandlers;
        }
    }

    fn finish_changes(&mut self, cause: &Cause, now: Timestamp) {
        let missed = self.has_missed(cause);
        let Some(batch) = &mut self.batch else { return };
        let tells_states = matches!(cause.reason, Reason::Create | Reason::Update);
        let finished = self.finished_children || batch.has_finished_any(|id| !self.resuming.contains(id));
        if let Some(new) = cause.new.as_ref().filter(|_| tells_states && (missed || (finished && !batch.done()))) {
            batch.finished_with(&encode_seen_essence(new), |id| !self.resuming.contains(id));
        }
        let counts = batch.counts();
        // Those that have seen what is there now need not see it again in the update for those that have not.
        let carried = match batch.done() && missed && tells_states {
            true => batch.carry_over(Reason::Update.as_str(), |id, state| {
                let is_behind = |id: &str| self.behind.iter().any(|behind| &**behind == id);
                state.essence.is_some() && !is_behind(id) && !state.subrefs.iter().any(|id| is_behind(id))
            }),
            false => Vec::new(),
        };
        self.operations.extend(batch.store());
        self.conclusion.delay = batch.delay(now);
        if batch.done() && cause.reason == Reason::Delete && self.blocking_tasks > 0 {
            // What is finished is kept until the daemons have ended, too; or else it would be done again then.
            return;
        }
        if batch.done() {
            self.notes.push(Note::info(format!(
                "{} is processed: {} succeeded; {} failed.",
                capitalized(cause.reason.title()),
                counts.success,
                counts.failure,
            )));
            let purge = batch.purge_except(&self.input.handlers.distinct_change_handlers, |id| carried.contains(id));
            self.operations.extend(purge);
            self.store_essence(cause);
            return;
        }
        if finished
            && tells_states
            && let Some(new) = &cause.new
        {
            self.add_seen(new.clone());
        }
    }

    /// What a finished handler of an unfinished batch has seen, by the record that it has left.
    fn recall_seen(&mut self, cause: &Cause, id: &Arc<str>, state: &HandlerState) {
        let is_of_a_change = [Reason::Create, Reason::Update].iter().any(|reason| {
            let counts = matches!(cause.reason, Reason::Noop | Reason::Resume) || cause.reason == *reason;
            counts && state.purpose.as_deref() == Some(reason.as_str())
        });
        let Some(seen) = state.seen(cause.new.as_ref()).filter(|_| is_of_a_change) else { return };
        if Some(&seen) != cause.new.as_ref() {
            self.behind.push(Arc::clone(id));
        }
        self.add_seen(seen);
    }

    fn add_seen(&mut self, essence: Value) {
        let mut seen = self.take_seen();
        if !seen.contains(&essence) {
            seen.push(essence);
        }
        self.conclusion.partly_handled = Some(Arc::new(Value::Array(seen)));
    }

    /// Everything is handled, as far as it was seen.
    fn store_essence(&mut self, cause: &Cause) {
        self.conclusion.fully_handled = true;
        if cause.reason == Reason::Delete {
            self.conclusion.partly_handled = None;
        }
        self.store_seen(cause);
    }

    /// Whether a finished handler has seen something else than there is now.
    fn has_missed(&self, cause: &Cause) -> bool {
        let seen = self.conclusion.partly_handled.as_deref().and_then(Value::as_array);
        seen.is_some_and(|seen| seen.iter().any(|seen| Some(seen) != cause.new.as_ref()))
    }

    /// What was handled last is what is there now; but where a finished handler has seen something else, it is that.
    fn store_seen(&mut self, cause: &Cause) {
        let missed = self.has_missed(cause);
        let seen = self.take_seen();
        let Some(new) = &cause.new else { return };
        let essence = as_seen(new, &seen);
        if missed {
            // The change is still to be handled; storages elsewhere give no event that would tell it.
            self.conclusion.delay = Some(0.0);
            // What is there now was seen too, by the other handlers; but that is not what is stored.
            self.conclusion.partly_handled = Some(Arc::new(Value::Array(vec![new.clone()])));
        }
        if cause.old.as_ref() != Some(&essence) {
            self.operations.push(StorageOperation::DiffBase { essence });
        }
    }

    fn take_seen(&mut self) -> Vec<Value> {
        match self.conclusion.partly_handled.take().map(Arc::unwrap_or_clone) {
            Some(Value::Array(seen)) => seen,
            _ => Vec::new(),
        }
    }

    fn conclude(&mut self) -> CycleStep {
        let mut conclusion = std::mem::take(&mut self.conclusion);
        if self.stage != CycleStage::Finished
            && let Some(cause) = self.cause.clone()
        {
            self.stage = CycleStage::Finished;
            let held =
                finalizers::is_deletion_blocked(cause.body.without_managed_fields(), &self.input.settings.finalizer);
            let gone = cause.reason == Reason::Gone;
            let waiting = conclusion.delay.is_some() || conclusion.awaits_newer || self.blocking_tasks > 0;
            if cause.deletion_ongoing && held && !gone && !waiting && conclusion.finalizer.is_none() {
                self.debug(|| Note::debug("Removing the finalizer, thus allowing the actual deletion.").local());
                conclusion.finalizer = Some(FinalizerChange::Remove);
            }
            self.write(&cause, &mut conclusion);
        }
        CycleStep::Done(Box::new(conclusion))
    }

    fn write(&mut self, cause: &Cause, conclusion: &mut CycleConclusion) {
        let settings = &self.input.settings;
        let body = cause.body.without_managed_fields();
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

    fn ask_filters(&mut self, questions: Vec<FilterQuestion>) -> Effect {
        self.asked.clone_from(&questions);
        Effect::Filters(questions)
    }

    fn debug(&mut self, note: impl FnOnce() -> Note) {
        if self.input.verbose {
            self.notes.push(note());
        }
    }
}

/// The essence, as it is stored with each handler that has finished with it.
pub(crate) fn encode_seen_essence(essence: &Value) -> String {
    encode_essence_within(essence, SEEN_ESSENCE_AT_MOST).trim_end().to_owned()
}

/// The sub-handlers that the records of their parents name.
fn subrefs_of(records: &[(Arc<str>, Value)]) -> Vec<Arc<str>> {
    let subrefs = records.iter().filter_map(|(_, record)| record.get("subrefs")?.as_array()).flatten();
    subrefs.filter_map(Value::as_str).map(Arc::from).collect()
}

/// An essence that differs from the new one wherever one of the seen ones does, so that an update gets to know it.
fn as_seen(new: &Value, seen: &[Value]) -> Value {
    let mut essence = new.clone();
    for seen in seen {
        let mut difference = Cause::difference(Some(new), Some(seen));
        difference.0.retain(|item| item.field.resolve(&essence) == item.field.resolve(new));
        essence = difference.apply(&essence);
    }
    essence
}

fn capitalized(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
