//! A batch of handler calls: which of the matching handlers are due, which of them to call now, and their outcomes.
//!
//! The same machine serves the change handlers and event handlers of a cycle, the sub-handlers of a handler, the index
//! handlers, the activities and the webhooks. Its owner steps it; the machine itself never waits.

mod lifecycle;
mod classify;
mod records;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub use lifecycle::Lifecycle;

pub(crate) use classify::{ErrorDefaults, classify, exhausted};

use crate::{Backoff, CallOutcome, ErrorsMode, Handler, HandlerState, Note, Outcome};

/// A batch of handler calls.
///
/// ```
/// use std::sync::Arc;
/// use jiff::Timestamp;
/// use kopf_reaction::{Batch, BatchStep, CallOutcome, ErrorsMode, Handler, HandlerType};
///
/// let now = Timestamp::UNIX_EPOCH;
/// let handlers = vec![Arc::new(Handler::new(0, "startup_fn", HandlerType::Activity))];
/// let mut batch = Batch::transient(handlers, ErrorsMode::Temporary, true, 60.0, now);
/// while let BatchStep::Call(request) = batch.step(now, &mut || 0.5) {
///     assert_eq!(&*request.handler.id, "startup_fn"); // here, the engine calls the function
///     batch.called(CallOutcome { result: Ok(None), subrefs: Default::default() }, now, &mut || 0.5);
/// }
/// assert!(batch.done());
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// The reason for the calls; `None` if the progress is not stored.
    purpose: Option<String>,
    /// By handler ids: first those with records, then the new ones.
    states: Vec<(Arc<str>, HandlerState)>,
    /// The handlers of this batch, in the order of their declaration.
    handlers: Vec<Arc<Handler>>,
    lifecycle: Lifecycle,
    defaults: ErrorDefaults,
    /// Whether the notes are only for the log.
    local: bool,
    stage: BatchStage,
    outcomes: Vec<(Arc<str>, Outcome)>,
    notes: Vec<Note>,
    /// Whether somebody wants notes for debugging.
    verbose: bool,
}

/// How far the batch is.
#[derive(Clone, Debug)]
enum BatchStage {
    /// The lifecycle has to choose among the due handlers.
    Choosing,
    /// The front is choosing among these.
    AwaitingChoice(Vec<Arc<Handler>>),
    /// The chosen handlers that are not called yet, the next one last.
    Calling(Vec<Arc<Handler>>),
    /// The front is calling this handler; the others come after it.
    AwaitingOutcome(Arc<Handler>, Vec<Arc<Handler>>),
    Finished,
}

/// What the owner of the batch has to do next.
#[derive(Clone, Debug)]
pub enum BatchStep {
    /// Call the user's lifecycle function, then [`Batch::chosen`].
    Choose(Vec<Arc<Handler>>),
    /// Call the handler, then [`Batch::called`].
    Call(CallRequest),
    /// All calls of this batch are made.
    Finished,
}

/// One call to make.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Whom to call.
    pub handler: Arc<Handler>,
    /// The number of attempts before this one.
    pub retry: u32,
    /// When the handler was first due.
    pub started: Timestamp,
    /// Seconds since it was first due.
    pub runtime_seconds: f64,
    /// Seconds after which the front cancels the call.
    pub timeout_seconds: Option<f64>,
}

/// How many handlers are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerCounts {
    /// Finished and succeeded.
    pub success: usize,
    /// Finished and failed.
    pub failure: usize,
    /// Not finished.
    pub running: usize,
}

impl Batch {
    /// A batch whose progress the object stores; `records` are those of all handlers of the resource.
    pub fn stored(
        purpose: &str,
        records: Vec<(Arc<str>, Value)>,
        handlers: Vec<Arc<Handler>>,
        lifecycle: Lifecycle,
        default_backoff: f64,
        now: Timestamp,
    ) -> Self {
        // Exactly as long as needed: it lives as long as the calls.
        let mut states: Vec<(Arc<str>, HandlerState)> = Vec::with_capacity(records.len() + handlers.len());
        for (id, record) in records {
            // Handlers of the same name share one record.
            if !states.iter().any(|(known, _)| *known == id) {
                states.push((id, HandlerState::from_record(&record, now)));
            }
        }
        for handler in &handlers {
            match states.iter_mut().find(|(id, _)| *id == handler.id) {
                Some((_, state)) => state.active = true,
                None => states.push((Arc::clone(&handler.id), HandlerState::new(Some(purpose), now))),
            }
        }
        Self::with_states(Some(purpose.to_owned()), states, handlers, lifecycle, ErrorsMode::Temporary, default_backoff)
    }

    /// A batch without stored progress: event handlers, activities, webhooks.
    pub fn transient(
        handlers: Vec<Arc<Handler>>,
        errors: ErrorsMode,
        local: bool,
        default_backoff: f64,
        now: Timestamp,
    ) -> Self {
        let mut batch = Self::remembered(Vec::new(), handlers, errors, default_backoff, now);
        batch.local = local;
        batch
    }

    /// A batch whose progress is kept in memory: index handlers.
    pub fn remembered(
        mut states: Vec<(Arc<str>, HandlerState)>,
        handlers: Vec<Arc<Handler>>,
        errors: ErrorsMode,
        default_backoff: f64,
        now: Timestamp,
    ) -> Self {
        for (id, state) in &mut states {
            state.active = handlers.iter().any(|handler| handler.id == *id);
        }
        for handler in &handlers {
            if !states.iter().any(|(id, _)| *id == handler.id) {
                states.push((Arc::clone(&handler.id), HandlerState::new(None, now)));
            }
        }
        let mut batch = Self::with_states(None, states, handlers, Lifecycle::AllAtOnce, errors, default_backoff);
        batch.local = true;
        batch
    }

    fn with_states(
        purpose: Option<String>,
        states: Vec<(Arc<str>, HandlerState)>,
        handlers: Vec<Arc<Handler>>,
        lifecycle: Lifecycle,
        errors: ErrorsMode,
        default_backoff: f64,
    ) -> Self {
        let defaults = ErrorDefaults { errors, backoff: Backoff::constant(default_backoff) };
        Self {
            purpose,
            states,
            handlers,
            lifecycle,
            defaults,
            local: false,
            stage: BatchStage::Choosing,
            outcomes: Vec::new(),
            notes: Vec::new(),
            verbose: true,
        }
    }

    /// Without notes for debugging.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.verbose = !quiet;
        self
    }

    /// What to do next; `random` returns numbers in 0..1.
    pub fn step(&mut self, now: Timestamp, random: &mut dyn FnMut() -> f64) -> BatchStep {
        loop {
            match std::mem::replace(&mut self.stage, BatchStage::Finished) {
                BatchStage::Choosing => {
                    let due: Vec<(Arc<Handler>, u32)> = self
                        .handlers
                        .iter()
                        .filter_map(|handler| self.state(&handler.id).map(|state| (handler, state)))
                        .filter(|(_, state)| state.awakened(now))
                        .map(|(handler, state)| (Arc::clone(handler), state.retries))
                        .collect();
                    match self.lifecycle.choose(&due, random) {
                        Some(chosen) => self.chosen_handlers(chosen),
                        None => {
                            let candidates: Vec<_> = due.into_iter().map(|(handler, _)| handler).collect();
                            self.stage = BatchStage::AwaitingChoice(candidates.clone());
                            return BatchStep::Choose(candidates);
                        }
                    }
                }
                BatchStage::AwaitingChoice(candidates) => {
                    self.stage = BatchStage::AwaitingChoice(candidates.clone());
                    return BatchStep::Choose(candidates);
                }
                BatchStage::Calling(mut queue) => {
                    let Some(handler) = queue.pop() else { return BatchStep::Finished };
                    let Some(state) = self.state_before(&handler.id) else {
                        self.stage = BatchStage::Calling(queue);
                        continue;
                    };
                    if self.verbose {
                        self.note(Note::debug(format!("{} is invoked.", handler.title())));
                    }
                    if let Some(error) = exhausted(&handler, &state, now) {
                        self.stage = BatchStage::AwaitingOutcome(handler, queue);
                        self.called(CallOutcome { result: Err(error), subrefs: Default::default() }, now, random);
                        continue;
                    }
                    let runtime_seconds = state.runtime(now).as_secs_f64();
                    let request = CallRequest {
                        retry: state.retries,
                        started: state.started,
                        runtime_seconds,
                        timeout_seconds: handler.timeout.as_ref().map(|timeout| timeout.as_f64() - runtime_seconds),
                        handler: Arc::clone(&handler),
                    };
                    self.stage = BatchStage::AwaitingOutcome(handler, queue);
                    return BatchStep::Call(request);
                }
                // Stepped while a call is under way: nothing else can be done.
                stage @ (BatchStage::AwaitingOutcome(..) | BatchStage::Finished) => {
                    self.stage = stage;
                    return BatchStep::Finished;
                }
            }
        }
    }

    /// Takes the choice of the user's lifecycle function, as indexes of handlers.
    pub fn chosen(&mut self, indexes: &[usize]) {
        if let BatchStage::AwaitingChoice(candidates) = &self.stage {
            let chosen = indexes
                .iter()
                .filter_map(|index| candidates.iter().find(|handler| handler.index == *index).cloned())
                .collect();
            self.chosen_handlers(chosen);
        }
    }

    fn chosen_handlers(&mut self, mut chosen: Vec<Arc<Handler>>) {
        chosen.reverse();
        self.stage = BatchStage::Calling(chosen);
    }

    /// Takes the outcome of the requested call.
    pub fn called(&mut self, call: CallOutcome, now: Timestamp, random: &mut dyn FnMut() -> f64) {
        let BatchStage::AwaitingOutcome(handler, queue) = std::mem::replace(&mut self.stage, BatchStage::Finished)
        else {
            return;
        };
        if let Some(before) = self.state_before(&handler.id) {
            let (outcome, note) = classify(&handler, &before, call, &self.defaults, now, random());
            let after = before.with_outcome(&outcome, now);
            self.states.iter_mut().filter(|(id, _)| *id == handler.id).for_each(|(_, state)| *state = after.clone());
            self.note(note);
            self.outcomes.push((Arc::clone(&handler.id), outcome));
        }
        self.stage = BatchStage::Calling(queue);
    }

    /// The state with the attempts before this batch: handlers of the same id share one state, but each of them is called.
    fn state_before(&self, id: &str) -> Option<HandlerState> {
        let mut state = self.state(id)?.clone();
        let tried = self.outcomes.iter().filter(|(called, _)| **called == *id).count();
        state.retries = state.retries.saturating_sub(u32::try_from(tried).unwrap_or(u32::MAX));
        Some(state)
    }

    fn note(&mut self, mut note: Note) {
        if self.verbose || note.severity > crate::Severity::Debug {
            note.local |= self.local;
            self.notes.push(note);
        }
    }

    /// The notes since the last time.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn state(&self, id: &str) -> Option<&HandlerState> {
        self.states.iter().find(|(known, _)| &**known == id).map(|(_, state)| state)
    }

    /// The states of the handlers by their ids, for the user's lifecycle function.
    pub fn states(&self) -> &[(Arc<str>, HandlerState)] {
        &self.states
    }

    /// The results of the succeeded calls, by handler ids.
    pub fn take_results(&mut self) -> Vec<(Arc<str>, Value)> {
        self.outcomes
            .iter_mut()
            .filter_map(|(id, outcome)| outcome.result.take().map(|result| (Arc::clone(id), result)))
            .filter(|(_, result)| !result.is_null())
            .collect()
    }

    /// The failed handlers, with the texts of their errors.
    pub fn failures(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        self.states
            .iter()
            .filter(|(_, state)| state.failure)
            .map(|(id, state)| (id, state.message.as_deref().unwrap_or_default()))
    }

    /// Starts another batch of calls with the current states.
    pub fn again(&mut self) {
        self.stage = BatchStage::Choosing;
        self.outcomes.clear();
    }

    /// Whether the object has records of any of the handlers.
    pub fn has_records(&self) -> bool {
        self.states.iter().any(|(_, state)| state.is_stored())
    }

    /// Whether this batch has called the handler without an error, or with an ignored one.
    pub fn has_succeeded(&self, id: &str) -> bool {
        let of_handler = self.outcomes.iter().rev().find(|(called, _)| &**called == id);
        of_handler.is_some_and(|(_, outcome)| outcome.is_final && outcome.error.is_none())
    }

    /// Whether any of the wanted handlers has finished in this batch.
    pub fn has_finished_any(&self, wanted: impl Fn(&Arc<str>) -> bool) -> bool {
        self.outcomes.iter().any(|(id, outcome)| outcome.is_final && wanted(id))
    }

    /// Whether all handlers of the batch are finished.
    pub fn done(&self) -> bool {
        self.states.iter().all(|(_, state)| !state.active || state.finished())
    }

    /// Seconds until the next handler is due; `None` if all are finished.
    pub fn delay(&self, now: Timestamp) -> Option<f64> {
        self.states
            .iter()
            .filter(|(_, state)| state.active && !state.finished())
            .map(|(_, state)| state.delayed.map_or(0.0, |delayed| delayed.duration_since(now).as_secs_f64().max(0.0)))
            .min_by(f64::total_cmp)
    }

    /// The ids of all handlers with a state.
    pub fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.states.iter().map(|(id, _)| id)
    }

    /// Counts the handlers of the current purpose, and of unknown ones.
    pub fn counts(&self) -> HandlerCounts {
        self.count(|purpose| purpose.is_none() || self.purpose.is_none() || purpose == self.purpose.as_deref())
    }

    /// Counts the handlers of each other purpose: usually there is none.
    pub fn superseded(&self) -> Vec<(String, HandlerCounts)> {
        let mut purposes: Vec<&str> = Vec::new();
        for purpose in self.states.iter().filter_map(|(_, state)| state.purpose.as_deref()) {
            if self.purpose.as_deref() != Some(purpose) && !purposes.contains(&purpose) {
                purposes.push(purpose);
            }
        }
        purposes.into_iter().map(|purpose| (purpose.to_owned(), self.count(|other| other == Some(purpose)))).collect()
    }

    fn count(&self, wanted: impl Fn(Option<&str>) -> bool) -> HandlerCounts {
        let mut counts = HandlerCounts::default();
        for (_, state) in self.states.iter().filter(|(_, state)| wanted(state.purpose.as_deref())) {
            match (state.success, state.failure) {
                (true, _) => counts.success += 1,
                (_, true) => counts.failure += 1,
                _ => counts.running += 1,
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests;
