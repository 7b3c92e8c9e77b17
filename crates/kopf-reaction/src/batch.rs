//! One batch of calls: which of the matching handlers are due, which of them are called, what came of it.
//!
//! The same machine serves the change handlers of a cycle, the sub-handlers of a running handler,
//! the spies on events, and the activities. It is stepped by its owner and never waits itself.

mod lifecycle;
mod classify;
mod records;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub use lifecycle::Lifecycle;

pub(crate) use classify::{ErrorDefaults, classify, exhausted};

use crate::{Backoff, CallOutcome, ErrorsMode, Handler, HandlerState, Note, Outcome};

/// The states of the handlers, and the calls under way.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Why the handlers are called; None where nothing is stored.
    purpose: Option<String>,
    /// In the order in which the handlers were met.
    states: Vec<(Arc<str>, HandlerState)>,
    /// The handlers of this batch, in the order of their declaration.
    handlers: Vec<Arc<Handler>>,
    lifecycle: Lifecycle,
    defaults: ErrorDefaults,
    /// Whether the notes are about technical things only (spies).
    local: bool,
    stage: BatchStage,
    outcomes: Vec<(Arc<str>, Outcome)>,
    notes: Vec<Note>,
    /// Whether notes for debugging are wanted at all.
    verbose: bool,
}

/// Where the batch is.
#[derive(Clone, Debug)]
enum BatchStage {
    /// The due handlers are still to be chosen from.
    Choosing,
    /// The front was asked to choose from these.
    AwaitingChoice(Vec<Arc<Handler>>),
    /// The chosen handlers that are still to be called, the next one last.
    Calling(Vec<Arc<Handler>>),
    /// This handler is being called; the others come after it.
    AwaitingOutcome(Arc<Handler>, Vec<Arc<Handler>>),
    Finished,
}

/// What the owner has to do next.
#[derive(Clone, Debug)]
pub enum BatchStep {
    /// Effect the user's lifecycle function; answer by [`Batch::chosen`].
    Choose(Vec<Arc<Handler>>),
    /// Call the handler; answer by [`Batch::called`].
    Call(CallRequest),
    /// All calls are made.
    Finished,
}

/// One call to be made.
#[derive(Clone, Debug)]
pub struct CallRequest {
    pub handler: Arc<Handler>,
    /// How often it was tried before.
    pub retry: u32,
    pub started: Timestamp,
    /// Seconds since then.
    pub runtime_seconds: f64,
    /// Seconds after which the call is to be cancelled.
    pub timeout_seconds: Option<f64>,
}

/// How many handlers are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerCounts {
    pub success: usize,
    pub failure: usize,
    pub running: usize,
}

impl Batch {
    /// A batch whose progress is stored: `records` are those of all handlers of the kind, as far as there are any.
    pub fn stored(
        purpose: &str,
        records: Vec<(Arc<str>, Value)>,
        handlers: Vec<Arc<Handler>>,
        lifecycle: Lifecycle,
        default_backoff: f64,
        now: Timestamp,
    ) -> Self {
        // No more than needed: it is kept as long as the handlers take.
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

    /// A batch that leaves no traces: spies, activities.
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

    /// A batch that goes on with what is remembered in memory: indexing.
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

    /// The next thing to do; `random` gives numbers in 0..1.
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
                // Stepped without an answer: the call is still under way, and there is nothing else to do.
                stage @ (BatchStage::AwaitingOutcome(..) | BatchStage::Finished) => {
                    self.stage = stage;
                    return BatchStep::Finished;
                }
            }
        }
    }

    /// The user's lifecycle function has chosen these handlers, by their indexes.
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

    /// The call that was asked for has come to this.
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

    /// The state with the attempts of before this batch: handlers of the same name share one, but each of them is tried.
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

    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn state(&self, id: &str) -> Option<&HandlerState> {
        self.states.iter().find(|(known, _)| &**known == id).map(|(_, state)| state)
    }

    /// For the user's lifecycle function: the states of the handlers by their ids.
    pub fn states(&self) -> &[(Arc<str>, HandlerState)] {
        &self.states
    }

    /// The results of the calls that have succeeded.
    pub fn take_results(&mut self) -> Vec<(Arc<str>, Value)> {
        self.outcomes
            .iter_mut()
            .filter_map(|(id, outcome)| outcome.result.take().map(|result| (Arc::clone(id), result)))
            .filter(|(_, result)| !result.is_null())
            .collect()
    }

    /// The texts of the final failures.
    pub fn failures(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        self.states
            .iter()
            .filter(|(_, state)| state.failure)
            .map(|(id, state)| (id, state.message.as_deref().unwrap_or_default()))
    }

    /// Goes over to a new batch of calls with the states of now.
    pub fn again(&mut self) {
        self.stage = BatchStage::Choosing;
        self.outcomes.clear();
    }

    /// Whether anything is stored on the object that a finished cycle would not leave there.
    pub fn has_records(&self) -> bool {
        self.states.iter().any(|(_, state)| state.is_stored())
    }

    /// Whether the handler was called in this batch, without an error (or with one that is to be ignored).
    pub fn has_succeeded(&self, id: &str) -> bool {
        let of_handler = self.outcomes.iter().rev().find(|(called, _)| &**called == id);
        of_handler.is_some_and(|(_, outcome)| outcome.is_final && outcome.error.is_none())
    }

    /// Whether some of the calls were the last ones of their handlers.
    pub fn has_finished_any(&self, wanted: impl Fn(&Arc<str>) -> bool) -> bool {
        self.outcomes.iter().any(|(id, outcome)| outcome.is_final && wanted(id))
    }

    /// All handlers of the batch are finished (also if there are none).
    pub fn done(&self) -> bool {
        self.states.iter().all(|(_, state)| !state.active || state.finished())
    }

    /// Seconds until the next handler is due; None if there is nothing to wait for.
    pub fn delay(&self, now: Timestamp) -> Option<f64> {
        self.states
            .iter()
            .filter(|(_, state)| state.active && !state.finished())
            .map(|(_, state)| state.delayed.map_or(0.0, |delayed| delayed.duration_since(now).as_secs_f64().max(0.0)))
            .min_by(f64::total_cmp)
    }

    pub fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.states.iter().map(|(id, _)| id)
    }

    /// The handlers of the current purpose, or of an unknown one.
    pub fn counts(&self) -> HandlerCounts {
        self.count(|purpose| purpose.is_none() || self.purpose.is_none() || purpose == self.purpose.as_deref())
    }

    /// What is left of other purposes: usually nothing, rarely one.
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
mod tests {
    use super::*;
    use crate::HandlerType;

    #[test]
    fn handlers_of_the_same_name_are_all_called_and_end_together() {
        let now = Timestamp::UNIX_EPOCH;
        let handler = |index| Arc::new(Handler::new(index, "configure", HandlerType::Activity));
        let mut batch = Batch::transient(vec![handler(0), handler(1)], ErrorsMode::Temporary, true, 60.0, now);
        let mut called = Vec::new();
        while let BatchStep::Call(request) = batch.step(now, &mut || 0.0) {
            called.push((request.handler.index, request.retry));
            batch.called(CallOutcome { result: Ok(None), subrefs: Default::default() }, now, &mut || 0.0);
        }
        assert_eq!(called, [(0, 0), (1, 0)]);
        assert!(batch.done());
    }
}
