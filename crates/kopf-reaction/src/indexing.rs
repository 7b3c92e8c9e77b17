//! Which index handlers are called for a body, and from which indexes the object is excluded afterwards.
//!
//! A small machine without I/O, stepped like the cycle. The values stay with the front: it keeps what a call has
//! returned under the id of the handler. What is decided here is who is called, and who must not keep anything.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::Body;

use crate::{
    Answers, Ask, ErrorsMode, FilterDepth, FilterQuestion, Handler, HandlerState, Note, Reply, Round, RoundStep,
    Severity, Subject, select,
};

/// The failures of index handlers on one object, from one body to the next; successes leave nothing behind.
pub type IndexFailures = Vec<(Arc<str>, HandlerState)>;

/// The indexing of one body of one object.
#[derive(Debug)]
pub struct Indexing {
    body: Body,
    handlers: Vec<Arc<Handler>>,
    failures: IndexFailures,
    default_backoff: f64,
    /// Whether successes are worth a note.
    verbose: bool,
    answers: Answers,
    asked: Vec<FilterQuestion>,
    round: Option<Round>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum IndexStep {
    /// Only filters and calls are ever asked for.
    Ask(Ask),
    Done(IndexConclusion),
}

/// What the indexing of a body came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexConclusion {
    /// The indexes that must have nothing of the object: it does not match, or its handler has failed.
    pub excluded: Vec<Arc<str>>,
    /// To be remembered for the next body.
    pub failures: IndexFailures,
    /// Seconds until some handler is to be tried again; None if there is nothing to wait for.
    pub delay: Option<f64>,
}

impl Indexing {
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
            answers: Answers::default(),
            asked: Vec::new(),
            round: None,
        }
    }

    /// Goes on as far as possible; `reply` answers what was asked last, `random` gives numbers in 0..1.
    pub fn step(&mut self, reply: Option<Reply>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> IndexStep {
        match (reply, &mut self.round) {
            (Some(Reply::Filters(answers)), _) => {
                for (question, answer) in std::mem::take(&mut self.asked).iter().zip(answers) {
                    self.answers.insert(question, answer);
                }
            }
            (Some(Reply::Called(outcome)), Some(round)) => round.called(outcome, now, random),
            _ => {}
        }
        if self.round.is_none() {
            let subject = Subject { body: &self.body, change: None };
            match select(&self.handlers, subject, FilterDepth::Full, &self.answers) {
                Err(questions) => {
                    self.asked.clone_from(&questions);
                    return IndexStep::Ask(Ask::Filters(questions));
                }
                Ok(matching) => {
                    let failures = std::mem::take(&mut self.failures);
                    let round = Round::remembered(failures, matching, ErrorsMode::Ignored, self.default_backoff, now);
                    self.round = Some(round.quiet(true));
                }
            }
        }
        let Some(round) = &mut self.round else { return IndexStep::Done(IndexConclusion::default()) };
        match round.step(now, random) {
            RoundStep::Call(request) => IndexStep::Ask(Ask::Call(request)),
            // All of them are called; there is nothing to choose.
            RoundStep::Choose(_) | RoundStep::Finished => IndexStep::Done(self.conclude(now)),
        }
    }

    /// Index handlers are many and routine: below warnings, they are one level quieter than others.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let notes = self.round.as_mut().map(Round::take_notes).unwrap_or_default();
        notes.into_iter().filter(|note| self.verbose || note.severity >= Severity::Warning).collect()
    }

    fn conclude(&self, now: Timestamp) -> IndexConclusion {
        let Some(round) = &self.round else { return IndexConclusion::default() };
        let mut excluded: Vec<Arc<str>> = Vec::new();
        for handler in &self.handlers {
            if !round.has_succeeded(&handler.id) && !excluded.contains(&handler.id) {
                excluded.push(Arc::clone(&handler.id));
            }
        }
        let failures = round.states().iter().filter(|(_, state)| !state.success).cloned().collect();
        IndexConclusion { excluded, failures, delay: round.delay(now) }
    }
}
