//! 5. The cycle: one body of one object, from the detection of its cause to what the engine stores.
//!
//! It is a state machine without I/O. A worker of the engine steps it. Whenever it needs something from outside (a
//! callback, a storage of the user, a call of a handler), it returns an [`Effect`] and continues with the
//! [`EffectResult`]. So a test can simulate the whole life of an object, with a crash between any two steps.

mod settings;
mod effect;
mod data;
mod matching;
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
    Batch, BatchStep, Cause, DetectedReason, Facts, FilterAnswers, FilterQuestion, Handler, Lifecycle, Note,
    StorageOperation, detect,
};

/// The machine of one cycle.
///
/// ```
/// use std::sync::Arc;
/// use jiff::Timestamp;
/// use kopf_object::Body;
/// use kopf_reaction::*;
/// use serde_json::json;
///
/// let mut handler = Handler::new(0, "create_fn", HandlerType::Change);
/// handler.reason = Some(Reason::Create);
/// let mut cycle = Cycle::new(CycleInput {
///     body: Body::from_value(json!({"metadata": {"name": "example"}, "spec": {"size": 1}})),
///     event: Some(EventType::Added),
///     handlers: Arc::new(HandlerSet::from_handlers([Arc::new(handler)])),
///     settings: Arc::new(ReactionSettings::default()),
///     initial: false,
///     consistent: true,
///     background: BackgroundView::default(),
///     verbose: false,
/// });
///
/// // The cycle wants the handler called; the engine calls it, and steps the cycle with the outcome.
/// let now = Timestamp::UNIX_EPOCH;
/// let step = cycle.step(None, now, &mut || 0.5);
/// assert!(matches!(step, CycleStep::Effect(Effect::Call(request)) if &*request.handler.id == "create_fn"));
/// let outcome = CallOutcome { result: Ok(None), subrefs: Default::default() };
///
/// // All is handled now, and the patch says so.
/// let CycleStep::Done(conclusion) = cycle.step(Some(EffectResult::Called(outcome)), now, &mut || 0.5) else {
///     unreachable!("there is only one handler");
/// };
/// assert!(conclusion.fully_handled);
/// assert!(conclusion.patch.annotation("kopf.zalando.org/last-handled-configuration").is_some());
/// ```
#[derive(Debug)]
pub struct Cycle {
    input: CycleInput,
    stage: CycleStage,
    cause: Option<Arc<Cause>>,
    answers: FilterAnswers,
    asked: Vec<FilterQuestion>,
    /// The records of the user's storage, once the front has read them.
    records: Vec<(Arc<str>, Value)>,
    /// The essences of the user's storage, while the front reads the records of sub-handlers.
    essences: Option<(Option<Value>, Option<Value>)>,
    /// Unreadable records; logged only if any handler matches the object.
    corruptions: Vec<Corruption>,
    /// The handlers of this cycle that only resume: they continue under any reason, and may miss changes.
    resuming: Vec<Arc<str>>,
    /// Sub-handlers with progress of a superseded reason, which counts as absent.
    superseded: Vec<Arc<str>>,
    /// A sub-handler has finished in this cycle.
    finished_children: bool,
    /// The finished handlers and sub-handlers that have seen another essence than the current one.
    behind: Vec<Arc<str>>,
    batch: Option<Batch>,
    /// How many daemons and timers block the deletion of the object.
    blocking_tasks: usize,
    /// Some of the matching daemons and timers need the finalizer.
    background_needs_finalizer: bool,
    /// Some change handlers match the object, whatever has changed.
    is_relevant: bool,
    conclusion: CycleConclusion,
    /// What to store, before it goes into the patch or to the front.
    operations: Vec<StorageOperation>,
    notes: Vec<Note>,
}

/// How far the cycle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CycleStage {
    /// Read the last handled essence and the records.
    Reading,
    /// The front reads the records of sub-handlers from the user's storage.
    ReadingChildren,
    /// Find the matching event handlers.
    MatchingEventHandlers,
    /// Call the event handlers.
    CallingEventHandlers,
    /// Find the matching daemons and timers, and decide which to start and to stop.
    MatchingBackground,
    /// Find out whether any change handlers match the object at all, and whether they need the finalizer.
    MatchingRelevance,
    /// Find the change handlers that match this change.
    MatchingChanges,
    /// Call the change handlers.
    CallingChangeHandlers,
    /// Write the patch.
    Concluding,
    Finished,
}

impl Cycle {
    /// A cycle at its start.
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
            is_relevant: false,
            conclusion: CycleConclusion::default(),
            operations: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Continues with [`CycleConclusion::partly_handled`] of the previous cycle of the same object.
    ///
    /// If the object changes while some of its handlers are finished and others are not, the finished ones have not
    /// seen that change. In the end, the cycle stores the essence that they have seen, not the current one. So the
    /// change becomes the next update, and no handler misses it.
    pub fn with_partly_handled(mut self, partly_handled: Option<Arc<Value>>) -> Self {
        self.conclusion.partly_handled = partly_handled;
        self
    }

    /// Continues as far as possible; `result` is that of the last effect, `random` returns numbers in 0..1.
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
                // The essences, too: each storage removes its own records from them.
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

    /// The cause, once it is detected.
    pub fn cause(&self) -> Option<&Arc<Cause>> {
        self.cause.as_ref()
    }

    /// The current batch, with the states of its handlers for the user's lifecycle function.
    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    /// The notes since the last time.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(batch) = &mut self.batch {
            notes.extend(batch.take_notes());
        }
        notes
    }

    /// Starts a batch of sub-handlers, on request of the handler that is being called.
    pub fn sub_batch(&self, handlers: Vec<Arc<Handler>>, lifecycle: Option<Lifecycle>) -> Option<SubBatch> {
        let cause = Arc::clone(self.cause.as_ref()?);
        let lifecycle = lifecycle.unwrap_or(self.input.settings.lifecycle);
        let settings = Arc::clone(&self.input.settings);
        let handlers = handlers.into_iter().map(|handler| self.input.handlers.narrowed(handler)).collect();
        Some(SubBatch::new(cause, settings, handlers, lifecycle, self.superseded.clone(), self.input.verbose))
    }

    /// Takes over the results of a finished batch of sub-handlers.
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

/// The sub-handlers in the records of their parents.
fn subrefs_of(records: &[(Arc<str>, Value)]) -> Vec<Arc<str>> {
    let subrefs = records.iter().filter_map(|(_, record)| record.get("subrefs")?.as_array()).flatten();
    subrefs.filter_map(Value::as_str).map(Arc::from).collect()
}
