//! One handling cycle of one object: from a body to the calls, and from their outcomes to what is stored.
//!
//! A state machine without I/O. The engine steps it; whenever it needs something from outside (a callback,
//! a storage of the user, a call of a handler) it asks, and goes on with the result. So a whole life of an
//! object, with crashes between any two steps, can be played through in a test.

mod settings;
mod effect;
mod data;
mod changes;
mod seen;
mod conclude;
mod sub_batch;
mod up_to_date;

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::{diff, finalizers, restore_essence};
use serde_json::Value;

pub use data::{CycleConclusion, CycleInput, CycleStep, FinalizerChange};
pub use effect::{Effect, EffectResult};
pub use settings::ReactionSettings;
pub use sub_batch::{SubBatch, SubBatchConclusion, SubBatchStep};
pub use up_to_date::UpToDateCheck;

use crate::storage::Corruption;
use crate::{
    BackgroundPlan, Batch, BatchStep, Cause, DetectedReason, ErrorsMode, Facts, FilterAnswers, FilterDepth,
    FilterQuestion, Handler, Lifecycle, Note, Reason, StorageOperation, detect, select_handlers,
};

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
        let handlers = handlers.into_iter().map(|handler| self.input.handlers.narrowed(handler)).collect();
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
        let diff = diff(old.as_ref(), new.as_ref());
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

/// The sub-handlers that the records of their parents name.
fn subrefs_of(records: &[(Arc<str>, Value)]) -> Vec<Arc<str>> {
    let subrefs = records.iter().filter_map(|(_, record)| record.get("subrefs")?.as_array()).flatten();
    subrefs.filter_map(Value::as_str).map(Arc::from).collect()
}
