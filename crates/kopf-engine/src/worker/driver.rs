//! 5. Drives one cycle: does whatever the machine of `kopf-reaction` asks for, until the machine concludes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kopf_reaction::{
    CallOutcome, CallRequest, Cycle, CycleConclusion, CycleStep, Effect, EffectResult, HandlerState, HandlerType, Note,
    SubBatch, SubBatchStep,
};
use serde_json::Value;
use tokio::time::Instant;

use super::reactor::ObjectPass;
use crate::calls::LONG_CALL;
use crate::front::{
    Children, ChildrenReply, ChildrenRequest, CycleContext, FrontFailure, HandlerCall, StorageQuestion,
};
use crate::support::FrontError;

/// The cycle being driven.
pub(super) struct Driver<'a, 'b> {
    pass: &'a mut ObjectPass<'b>,
    cycle: Cycle,
    context: Arc<CycleContext>,
    /// The body is the latest one.
    consistent: bool,
    /// The error of the last call, for its traceback.
    last_error: Option<FrontError>,
    called: Vec<Arc<str>>,
    wanted: Option<Value>,
    transformations: bool,
    decided: Instant,
}

/// What is left of the calls when the cycle is over.
pub(super) struct Calls {
    /// The change handlers that were called.
    pub called: Vec<Arc<str>>,
    /// The user's patch, as of the last call.
    pub wanted: Option<Value>,
    pub transformations: bool,
    /// When the last step was decided.
    pub decided: Instant,
}

impl<'a, 'b> Driver<'a, 'b> {
    pub(super) fn new(
        pass: &'a mut ObjectPass<'b>,
        cycle: Cycle,
        context: Arc<CycleContext>,
        consistent: bool,
    ) -> Self {
        let decided = pass.reactor.caller.clock.instant();
        let (last_error, called, wanted) = (None, Vec::new(), None);
        Self { pass, cycle, context, consistent, last_error, called, wanted, transformations: false, decided }
    }

    pub(super) fn into_calls(self) -> Calls {
        let Self { called, wanted, transformations, decided, .. } = self;
        Calls { called, wanted, transformations, decided }
    }

    /// Steps the cycle until it concludes. By reference: a cycle is large, and a moved one would be in the task twice.
    pub(super) async fn run(&mut self) -> Result<CycleConclusion, FrontFailure> {
        let clock = &self.pass.reactor.caller.clock;
        let mut reply = None;
        loop {
            // Taken before the time of the day, so that nothing is woken up too late.
            self.decided = clock.instant();
            let now = clock.now();
            let step = self.cycle.step(reply.take(), now, &mut || clock.jitter(1.0));
            if let Some(cause) = self.cycle.cause()
                && self.context.cause.get().is_none()
            {
                // Only this task sets it, and only once: the race cannot be lost.
                let _ = self.context.cause.set(Arc::clone(cause));
                if let Some(background) = self.pass.object.memory.background.as_ref()
                    && self.consistent
                {
                    background.essence_seen(&self.pass.object.served.handlers, cause);
                }
            }
            let notes = self.cycle.take_notes();
            self.log(notes);
            match step {
                CycleStep::Done(conclusion) => return Ok(*conclusion),
                CycleStep::Effect(effect) => {
                    let states = self.states_for(&effect, self.cycle.batch().map(|batch| batch.states()));
                    reply = Some(self.answer(effect, states).await?.0);
                }
            }
        }
    }

    fn states_for(
        &self,
        effect: &Effect,
        states: Option<&[(Arc<str>, HandlerState)]>,
    ) -> Vec<(Arc<str>, HandlerState)> {
        if matches!(effect, Effect::Choose(_)) { states.unwrap_or_default().to_vec() } else { Vec::new() }
    }

    /// The reply, and the sub-handlers that were met on the way to it.
    async fn answer(
        &mut self,
        effect: Effect,
        states: Vec<(Arc<str>, HandlerState)>,
    ) -> Result<(EffectResult, BTreeSet<String>), FrontFailure> {
        let front = Arc::clone(&self.pass.reactor.caller.front);
        let context = Arc::clone(&self.context);
        let reply = match effect {
            Effect::Storage { ids, extra_fields, progress, diffbase } => {
                let question = StorageQuestion { ids, extra_fields, progress, diffbase };
                let content = front.read_storage(context, question).await?;
                EffectResult::Storage { old: content.old, new: content.new, records: content.records }
            }
            Effect::Filters(questions) => EffectResult::Filters(front.filter(context, questions).await?),
            Effect::Choose(candidates) => EffectResult::Chosen(front.choose(context, candidates, states).await?),
            Effect::Call(request) => {
                let outcome = self.call(request).await?;
                let subrefs = outcome.subrefs.clone();
                return Ok((EffectResult::Called(outcome), subrefs));
            }
            Effect::Background(plan) => {
                let object = &mut self.pass.object;
                let (resource, handle) = (object.key.resource, &mut object.memory.background);
                let holding = self.pass.reactor.background.apply_plan(resource, &context, handle, plan).await;
                EffectResult::Background { blocking: holding }
            }
        };
        Ok((reply, BTreeSet::new()))
    }

    /// Calls one handler, and serves its sub-handlers meanwhile.
    async fn call(&mut self, request: CallRequest) -> Result<CallOutcome, FrontFailure> {
        let caller = &self.pass.reactor.caller;
        let started = caller.start(&request.handler, request.retry, Some(&mut *self.pass.object.permit)).await;
        if request.handler.handler_type == HandlerType::Change {
            self.called.push(Arc::clone(&request.handler.id));
        }
        let (way_back, mut children) = Children::channel();
        let mut calling = caller.front.call(self.handler_call(request, way_back));
        let mut subrefs = BTreeSet::new();
        let reply = loop {
            tokio::select! {
                biased;
                Some(request) = children.next() => {
                    let ChildrenRequest { handlers, lifecycle, reply } = request;
                    let Some(batch) = self.cycle.sub_batch(handlers, lifecycle) else { continue };
                    self.pass.object.permit.retake().await;
                    let (answer, ids) = self.run_children(batch).await?;
                    subrefs.extend(ids);
                    // The handler may be gone already, e.g. cancelled: then nobody waits for it.
                    let _ = reply.send(answer);
                }
                reply = &mut calling => break reply,
                // A worker that only waits must not hold what others need.
                () = caller.clock.sleep(LONG_CALL), if self.pass.object.permit.is_lendable() => {
                    self.pass.object.permit.lend(self.context.body.raw().len());
                }
            }
        };
        let reply = started.finish_unless_abandoned(reply);
        self.pass.object.permit.retake().await;
        let reply = reply?;
        self.wanted = reply.patch;
        self.transformations = reply.transformations;
        self.last_error = reply.error;
        Ok(CallOutcome { result: reply.result, subrefs })
    }

    fn handler_call(&self, request: CallRequest, children: Children) -> HandlerCall {
        let change = match request.handler.handler_type {
            HandlerType::Change => self.cycle.cause().map(|cause| cause.change_for(&request.handler)),
            _ => None,
        };
        HandlerCall { change, ..HandlerCall::new(request, &self.context, children) }
    }

    /// A batch of sub-handlers; boxed, because sub-handlers can have sub-handlers, too.
    fn run_children(
        &mut self,
        mut batch: SubBatch,
    ) -> BoxFuture<'_, Result<(ChildrenReply, BTreeSet<String>), FrontFailure>> {
        Box::pin(async move {
            let mut ids = BTreeSet::new();
            let mut reply = None;
            loop {
                let clock = &self.pass.reactor.caller.clock;
                let step = batch.step(reply.take(), clock.now(), &mut || clock.jitter(1.0));
                self.log(batch.take_notes());
                match step {
                    SubBatchStep::Effect(effect) => {
                        let states = self.states_for(&effect, batch.batch().map(|batch| batch.states()));
                        let (answer, subrefs) = self.answer(effect, states).await?;
                        ids.extend(subrefs);
                        reply = Some(answer);
                    }
                    SubBatchStep::Done(conclusion) => {
                        let conclusion = *conclusion;
                        ids.extend(conclusion.ids.iter().map(|id| id.to_string()));
                        self.cycle.add_sub_batch(conclusion.operations, conclusion.results);
                        return Ok((ChildrenReply { done: conclusion.done, delay_seconds: conclusion.delay }, ids));
                    }
                }
            }
        })
    }

    fn log(&self, notes: Vec<Note>) {
        self.pass.reactor.caller.log.notes_about(&self.pass.reference, notes, self.last_error.as_ref());
    }
}
