//! The steps of one cycle in a simulated life: the calls of handlers, and the other effects.

use std::collections::BTreeSet;
use std::sync::Arc;

use kopf_reaction::{
    Batch, CallError, CallOutcome, CallRequest, Cause, Cycle, CycleConclusion, CycleStep, Effect, EffectResult,
    Handler, HandlerType, SubBatchStep,
};
use serde_json::{Value, json};

use super::history::Draft;
use super::{Edit, Fortune, Simulation};

impl Simulation {
    /// Steps the cycle to its end, or until it is killed (None).
    pub(super) fn run(
        &mut self,
        cycle: &mut Cycle,
        mut steps: Option<u8>,
        mut meanwhile: Option<&Edit>,
        draft: &mut Draft,
    ) -> Option<CycleConclusion> {
        let mut result = None;
        loop {
            let now = self.now;
            let step = cycle.step(result.take(), now, &mut || self.random.next());
            if let Some(left) = &mut steps {
                *left = left.checked_sub(1)?;
            }
            result = Some(match step {
                CycleStep::Done(conclusion) => return Some(*conclusion),
                CycleStep::Effect(Effect::Call(request)) => {
                    if let Some(edit) = meanwhile.take() {
                        self.edit(edit);
                    }
                    EffectResult::Called(self.call(cycle, &request, draft))
                }
                CycleStep::Effect(ask) => self.answer(cycle, ask),
            });
        }
    }

    fn answer(&mut self, cycle: &Cycle, ask: Effect) -> EffectResult {
        let body = cycle.cause().map_or_else(|| self.object.body(), |cause| cause.body.clone());
        match ask {
            Effect::Filters(questions) => {
                let is_gold = body.labels().get("tier").is_some_and(|tier| tier == "gold");
                EffectResult::Filters(vec![is_gold; questions.len()])
            }
            Effect::Choose(candidates) => {
                let mut chosen: Vec<usize> = candidates.iter().map(|handler| handler.index).collect();
                chosen.retain(|_| self.random.next() < 0.5);
                if let (true, Some(first)) = (chosen.is_empty(), candidates.first()) {
                    chosen.push(first.index);
                }
                EffectResult::Chosen(chosen)
            }
            Effect::Storage { ids, extra_fields, .. } => {
                let options = kopf_object::EssenceOptions { extra_fields, ..Default::default() };
                let new = Some(kopf_object::build_essence(body.value(), &options));
                let read = |id: Arc<str>| Some((Arc::clone(&id), self.database.records.get(&id)?.clone()));
                let records = ids.into_iter().filter_map(read).collect();
                EffectResult::Storage { old: self.database.essence.clone(), new, records }
            }
            Effect::Call(_) => unreachable!("calls are answered elsewhere"),
            Effect::Background(_) => unreachable!("there are no daemons in this simulation"),
        }
    }

    fn call(&mut self, cycle: &mut Cycle, request: &CallRequest, draft: &mut Draft) -> CallOutcome {
        let handler = &request.handler;
        let result = self.fortune();
        let mut subrefs = BTreeSet::new();
        if handler.handler_type == HandlerType::Event {
            return CallOutcome { result, subrefs };
        }
        let cause = Arc::clone(cycle.cause().expect("a cause"));
        self.observe(cause.reason);
        self.check_call(&cause, request, draft);
        draft.tried.push(Arc::clone(&handler.id));
        draft.raised.extend(result.is_err().then(|| Arc::clone(&handler.id)));
        if let (Ok(_), Some(children)) = (&result, self.children.get(&handler.id).cloned()) {
            let (done, delay) = self.call_children(cycle, &children, &mut subrefs, draft);
            if !done {
                return CallOutcome { result: Err(CallError::ChildrenRetry { delay }), subrefs };
            }
        }
        CallOutcome { result, subrefs }
    }

    fn call_children(
        &mut self,
        cycle: &mut Cycle,
        children: &[Arc<Handler>],
        subrefs: &mut BTreeSet<String>,
        draft: &mut Draft,
    ) -> (bool, Option<f64>) {
        let mut batch = cycle.sub_batch(children.to_vec(), None).expect("a cause");
        let mut result = None;
        loop {
            let now = self.now;
            match batch.step(result.take(), now, &mut || self.random.next()) {
                SubBatchStep::Effect(Effect::Call(request)) => {
                    let outcome = self.call(cycle, &request, draft);
                    subrefs.extend(outcome.subrefs.iter().cloned());
                    result = Some(EffectResult::Called(outcome));
                }
                SubBatchStep::Effect(ask) => result = Some(self.answer(cycle, ask)),
                SubBatchStep::Done(conclusion) => {
                    subrefs.extend(conclusion.ids.iter().map(ToString::to_string));
                    let cause = cycle.cause().expect("a cause");
                    self.note_finished(batch.batch().expect("a batch"), cause, children, draft);
                    cycle.add_sub_batch(conclusion.operations, conclusion.results);
                    return (conclusion.done, conclusion.delay);
                }
            }
        }
    }

    /// The handlers that are finished since now; also those without a call, as their attempts or time are used up.
    pub(super) fn note_finished(&self, batch: &Batch, cause: &Cause, handlers: &[Arc<Handler>], draft: &mut Draft) {
        for (id, state) in batch.states().iter().filter(|(_, state)| state.active && state.stopped == Some(self.now)) {
            let handler = handlers.iter().find(|handler| handler.id == *id).expect("a declared handler");
            let seen = cause.change_for(handler).1.unwrap_or_default();
            let success = state.success && !draft.raised.contains(id);
            draft.finished.push((Arc::clone(id), seen, success));
        }
    }

    /// What must hold whenever a handler is called.
    fn check_call(&self, cause: &Cause, request: &CallRequest, draft: &Draft) {
        let CallRequest { handler, retry, timeout_seconds, .. } = request;
        let (id, history) = (&handler.id, &self.history);
        assert!(handler.retries.is_none_or(|retries| *retry < retries), "{id} is tried too often\n{}", self.story());
        assert!(timeout_seconds.is_none_or(|seconds| seconds > 0.0), "{id} has no time left\n{}", self.story());
        let attempts = history.attempts.get(&(Arc::clone(id), history.batches)).copied().unwrap_or_default();
        assert!(*retry >= attempts, "{id}: {attempts} attempts are stored, but this one has {retry}\n{}", self.story());
        let occasion = (Arc::clone(id), cause.reason, history.essences_stored, draft.edits);
        let repeated = !cause.initial && history.succeeded.contains(&occasion);
        assert!(!repeated, "{id} is called again after its success was stored\n{}", self.story());
    }

    fn fortune(&mut self) -> Result<Option<Value>, CallError> {
        let (message, display) = ("boo".to_owned(), "boo".to_owned());
        match self.fortunes.pop().unwrap_or(Fortune::Success) {
            Fortune::Success => Ok(None),
            Fortune::Result => Ok(Some(json!({"at": self.now.to_string()}))),
            Fortune::Temporary(delay) => Err(CallError::Temporary { message, display, delay }),
            Fortune::Permanent => Err(CallError::Permanent { message, display }),
            Fortune::Arbitrary => Err(CallError::Arbitrary { message, display }),
            Fortune::TimedOut => Err(CallError::TimedOut),
        }
    }
}
