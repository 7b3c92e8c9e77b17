//! A batch of sub-handlers within the call of their parent.
//!
//! It reads and writes progress as the cycle does, under the ids `parent/child`, and reports to the parent whether all
//! sub-handlers are finished. Its results go into the patch of the cycle.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::effect::{Effect, EffectResult};
use super::seen::encode_seen_essence;
use super::settings::ReactionSettings;
use crate::declare::deduplicated;
use crate::storage::Corruption;
use crate::{
    Batch, BatchStep, Cause, FilterAnswers, FilterDepth, FilterQuestion, Handler, Lifecycle, Note, Reason,
    StorageOperation, select_handlers,
};

/// The machine of one batch of sub-handlers; the engine steps it like a cycle.
#[derive(Debug)]
pub struct SubBatch {
    cause: Arc<Cause>,
    settings: Arc<ReactionSettings>,
    handlers: Vec<Arc<Handler>>,
    lifecycle: Lifecycle,
    /// Sub-handlers with progress of a superseded reason, which counts as absent.
    superseded: Vec<Arc<str>>,
    verbose: bool,
    answers: FilterAnswers,
    asked: Vec<FilterQuestion>,
    matching: Option<Vec<Arc<Handler>>>,
    batch: Option<Batch>,
    notes: Vec<Note>,
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum SubBatchStep {
    /// Perform the effect, and step again with its result.
    Effect(Effect),
    /// Give the conclusion to the cycle and to the parent.
    Done(Box<SubBatchConclusion>),
}

/// The results of a batch of sub-handlers.
#[derive(Clone, Debug, Default)]
pub struct SubBatchConclusion {
    /// What to store.
    pub operations: Vec<StorageOperation>,
    /// The results of the calls, by handler ids.
    pub results: Vec<(Arc<str>, Value)>,
    /// All sub-handlers of the batch: references for all parents above.
    pub ids: Vec<Arc<str>>,
    /// All of them are finished.
    pub done: bool,
    /// Seconds until the next one is due.
    pub delay: Option<f64>,
}

impl SubBatch {
    pub(crate) fn new(
        cause: Arc<Cause>,
        settings: Arc<ReactionSettings>,
        handlers: Vec<Arc<Handler>>,
        lifecycle: Lifecycle,
        superseded: Vec<Arc<str>>,
        verbose: bool,
    ) -> Self {
        Self {
            cause,
            settings,
            handlers,
            lifecycle,
            superseded,
            verbose,
            answers: FilterAnswers::default(),
            asked: Vec::new(),
            matching: None,
            batch: None,
            notes: Vec::new(),
        }
    }

    /// Continues as far as possible; `result` is that of the last effect.
    pub fn step(
        &mut self,
        result: Option<EffectResult>,
        now: Timestamp,
        random: &mut dyn FnMut() -> f64,
    ) -> SubBatchStep {
        let mut records = None;
        match result {
            None => {}
            Some(EffectResult::Storage { records: read, .. }) => records = Some(read),
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
            // Only cycles start and stop daemons and timers.
            Some(EffectResult::Background { .. }) => {}
        }
        if self.matching.is_none() {
            let declared = self.cause.declared_for(&self.handlers);
            match select_handlers(&declared, self.cause.as_change(), FilterDepth::Full, &self.answers) {
                Ok(matching) => self.matching = Some(matching),
                Err(questions) => {
                    self.asked.clone_from(&questions);
                    return SubBatchStep::Effect(Effect::Filters(questions));
                }
            }
        }
        if self.batch.is_none() {
            let distinct = deduplicated(self.handlers.clone());
            let mut records = match records {
                Some(records) => records,
                None if self.settings.progress.is_front() => {
                    let ids = distinct.iter().map(|handler| Arc::clone(&handler.id)).collect();
                    return SubBatchStep::Effect(Effect::Storage {
                        ids,
                        extra_fields: Vec::new(),
                        progress: true,
                        diffbase: false,
                    });
                }
                None => self.read(&distinct),
            };
            records.retain(|(id, _)| !self.superseded.contains(id));
            let batch = Batch::stored(
                self.cause.reason.as_str(),
                records,
                self.matching.clone().unwrap_or_default(),
                self.lifecycle,
                self.settings.default_backoff,
                now,
            );
            self.batch = Some(batch.quiet(!self.verbose));
        }
        let Some(batch) = &mut self.batch else { return SubBatchStep::Done(Box::default()) };
        match batch.step(now, random) {
            BatchStep::Choose(candidates) => SubBatchStep::Effect(Effect::Choose(candidates)),
            BatchStep::Call(request) => SubBatchStep::Effect(Effect::Call(request)),
            BatchStep::Finished => {
                if matches!(self.cause.reason, Reason::Create | Reason::Update)
                    && let Some(new) = &self.cause.new
                {
                    batch.finished_with(&encode_seen_essence(new), |_| true);
                }
                SubBatchStep::Done(Box::new(SubBatchConclusion {
                    operations: batch.store(),
                    results: batch.take_results(),
                    ids: batch.ids().cloned().collect(),
                    done: batch.done(),
                    delay: batch.delay(now),
                }))
            }
        }
    }

    /// The batch, with the states of its handlers for the user's lifecycle function.
    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    /// The notes since the last time.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.batch.as_mut().map(Batch::take_notes).unwrap_or_default());
        notes
    }

    fn read(&mut self, handlers: &[Arc<Handler>]) -> Vec<(Arc<str>, Value)> {
        let mut corruptions = Vec::new();
        let mut fetch = |handler: &Arc<Handler>| {
            let record = self.settings.progress.fetch(
                &handler.id,
                self.cause.body.without_managed_fields(),
                &mut corruptions,
            )?;
            Some((Arc::clone(&handler.id), record))
        };
        let records = handlers.iter().filter_map(&mut fetch).collect();
        self.notes.extend(corruptions.into_iter().map(Corruption::into_note));
        records
    }
}
