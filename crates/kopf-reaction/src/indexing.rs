//! Indexing: which index handlers to call for a body, and from which indexes to exclude the object afterwards.
//!
//! A small machine without I/O, which the engine steps like the cycle. The values stay with the front: it keeps the
//! result of a call under the id of the handler.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::Body;

use crate::{
    Batch, BatchStep, Effect, EffectResult, ErrorsMode, FilterAnswers, FilterDepth, FilterQuestion, FilterSubject,
    Handler, HandlerState, Note, Severity, select_handlers,
};

/// The progress of failed index handlers of one object, from one body to the next.
pub type IndexFailures = Vec<(Arc<str>, HandlerState)>;

/// The indexing of one body of one object.
#[derive(Debug)]
pub struct Indexing {
    body: Body,
    handlers: Vec<Arc<Handler>>,
    failures: IndexFailures,
    default_backoff: f64,
    /// Whether somebody wants notes about successes.
    verbose: bool,
    answers: FilterAnswers,
    asked: Vec<FilterQuestion>,
    batch: Option<Batch>,
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum IndexingStep {
    /// Perform the effect (only filters and calls), and step again with its result.
    Effect(Effect),
    /// Apply the conclusion.
    Done(IndexingConclusion),
}

/// What the engine has to do after the indexing of a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexingConclusion {
    /// The indexes to remove the object from, because it does not match, or the handler has failed.
    pub excluded: Vec<Arc<str>>,
    /// For the indexing of the next body.
    pub failures: IndexFailures,
    /// Seconds until the next attempt of a handler is due; `None` if none is.
    pub delay: Option<f64>,
}

impl Indexing {
    /// The indexing of a body, with the failures of the previous one.
    pub fn new(
        body: Body,
        handlers: &[Arc<Handler>],
        failures: IndexFailures,
        default_backoff: f64,
        verbose: bool,
    ) -> Self {
        Self {
            body,
            handlers: handlers.to_vec(),
            failures,
            default_backoff,
            verbose,
            answers: FilterAnswers::default(),
            asked: Vec::new(),
            batch: None,
        }
    }

    /// Continues as far as possible; `result` is that of the last effect, `random` returns numbers in 0..1.
    pub fn step(
        &mut self,
        result: Option<EffectResult>,
        now: Timestamp,
        random: &mut dyn FnMut() -> f64,
    ) -> IndexingStep {
        match (result, &mut self.batch) {
            (Some(EffectResult::Filters(answers)), _) => {
                for (question, answer) in std::mem::take(&mut self.asked).iter().zip(answers) {
                    self.answers.insert(question, answer);
                }
            }
            (Some(EffectResult::Called(outcome)), Some(batch)) => batch.called(outcome, now, random),
            _ => {}
        }
        if self.batch.is_none() {
            let subject = FilterSubject { body: &self.body, change: None };
            match select_handlers(&self.handlers, subject, FilterDepth::Full, &self.answers) {
                Err(questions) => {
                    self.asked.clone_from(&questions);
                    return IndexingStep::Effect(Effect::Filters(questions));
                }
                Ok(matching) => {
                    let failures = std::mem::take(&mut self.failures);
                    let batch = Batch::remembered(failures, matching, ErrorsMode::Ignored, self.default_backoff, now);
                    self.batch = Some(batch.quiet(true));
                }
            }
        }
        let Some(batch) = &mut self.batch else { return IndexingStep::Done(IndexingConclusion::default()) };
        match batch.step(now, random) {
            BatchStep::Call(request) => IndexingStep::Effect(Effect::Call(request)),
            // All handlers are called: such a batch never asks to choose.
            BatchStep::Choose(_) | BatchStep::Finished => IndexingStep::Done(self.conclude(now)),
        }
    }

    /// The notes since the last time. Since indexing is routine, notes below warnings are only for debugging.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let notes = self.batch.as_mut().map(Batch::take_notes).unwrap_or_default();
        notes.into_iter().filter(|note| self.verbose || note.severity >= Severity::Warning).collect()
    }

    fn conclude(&self, now: Timestamp) -> IndexingConclusion {
        let Some(batch) = &self.batch else { return IndexingConclusion::default() };
        let mut excluded: Vec<Arc<str>> = Vec::new();
        for handler in &self.handlers {
            if !batch.has_succeeded(&handler.id) && !excluded.contains(&handler.id) {
                excluded.push(Arc::clone(&handler.id));
            }
        }
        let failures = batch.states().iter().filter(|(_, state)| !state.success).cloned().collect();
        IndexingConclusion { excluded, failures, delay: batch.delay(now) }
    }
}
