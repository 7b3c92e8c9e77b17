//! Drives one cycle: whatever the machine of `kopf-reaction` asks for, is asked of the front, until it concludes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kopf_object::ObjectReference;
use kopf_reaction::{
    CallError, CallOutcome, CallRequest, Cycle, CycleConclusion, CycleStep, Effect, EffectResult, HandlerState,
    HandlerType, Note, SubBatch, SubBatchStep,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{Reactor, ServedKind};
use crate::FrontError;
use crate::background::BackgroundOfObject;
use crate::front::{
    Children, ChildrenReply, ChildrenRequest, CycleContext, FrontFailure, HandlerCall, StorageQuestion,
};
use crate::queue::{LONG_CALL, Seat};

/// The cycle being driven: asks are answered, until it concludes.
pub(super) struct Driver<'a> {
    pub(super) reactor: &'a Reactor,
    pub(super) cycle: Cycle,
    pub(super) context: Arc<CycleContext>,
    pub(super) reference: Arc<ObjectReference>,
    pub(super) kind: &'a ServedKind,
    /// How the queue knows the kind.
    pub(super) key: u64,
    pub(super) background: &'a mut Option<BackgroundOfObject>,
    /// The body is the newest one.
    pub(super) consistent: bool,
    pub(super) seat: &'a mut Seat,
    /// The change handlers that were called.
    pub(super) called: Vec<Arc<str>>,
    /// The user's patch, as of the last call.
    pub(super) wanted: Option<Value>,
    pub(super) transformations: bool,
    /// The error of the last call, for its traceback.
    pub(super) last_error: Option<FrontError>,
    /// When the last step was decided.
    pub(super) decided: Instant,
}

impl Driver<'_> {
    pub(super) async fn run(&mut self) -> Result<CycleConclusion, FrontFailure> {
        let mut result = None;
        loop {
            // Taken before the time of the day, so that nothing is woken up too late.
            self.decided = self.reactor.clock.instant();
            let now = self.reactor.clock.now();
            let step = self.cycle.step(result.take(), now, &mut || self.reactor.clock.jitter(1.0));
            if let Some(cause) = self.cycle.cause()
                && self.context.cause.get().is_none()
            {
                // Set once and by this task only: there is nobody to lose the race to.
                let _ = self.context.cause.set(Arc::clone(cause));
                if let Some(background) = self.background.as_ref()
                    && self.consistent
                {
                    background.notice(&self.kind.handlers, cause);
                }
            }
            let notes = self.cycle.take_notes();
            self.log(notes);
            match step {
                CycleStep::Done(conclusion) => return Ok(*conclusion),
                CycleStep::Effect(effect) => {
                    let states = self.states_for(&effect, self.cycle.batch().map(|batch| batch.states()));
                    result = Some(self.answer(effect, states).await?.0);
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
        let front = Arc::clone(&self.reactor.front);
        let context = Arc::clone(&self.context);
        let result = match effect {
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
                let reactor = self.reactor;
                let blocking = reactor.background.carry_out(reactor, self.key, &context, self.background, plan).await;
                EffectResult::Background { blocking }
            }
        };
        Ok((result, BTreeSet::new()))
    }

    /// Calls one handler, and serves its sub-handlers meanwhile.
    async fn call(&mut self, request: CallRequest) -> Result<CallOutcome, FrontFailure> {
        let permit = match self.reactor.gates.of(&request.handler) {
            Some(gate) => self.seat.pass(gate).await,
            None => None,
        };
        if request.handler.handler_type == HandlerType::Change {
            self.called.push(Arc::clone(&request.handler.id));
        }
        let (way_back, mut children) = Children::channel();
        let count = self.reactor.metrics.begin(&request.handler, request.retry, &self.reactor.clock);
        let handler = Arc::clone(&request.handler);
        let mut calling = self.reactor.front.call(self.handler_call(request, way_back));
        let mut subrefs = BTreeSet::new();
        let reply = loop {
            tokio::select! {
                biased;
                Some(request) = children.next() => {
                    let ChildrenRequest { handlers, lifecycle, reply } = request;
                    let Some(batch) = self.cycle.sub_batch(handlers, lifecycle) else { continue };
                    self.seat.retake().await;
                    let (answer, ids) = self.run_children(batch).await?;
                    subrefs.extend(ids);
                    // The handler may be gone already, e.g. cancelled: then nobody waits for it.
                    let _ = reply.send(answer);
                }
                reply = &mut calling => break reply,
                // What waits must not hold what others need.
                () = self.reactor.clock.sleep(LONG_CALL), if self.seat.is_leavable() => {
                    self.seat.leave(self.context.body.raw().len());
                }
            }
        };
        drop(permit);
        self.seat.retake().await;
        count.finish(&reply, &self.reactor.clock);
        if reply.result == Err(CallError::Abandoned) {
            let message = format!("{} was given up without an answer", handler.title());
            return Err(FrontFailure { message, error: reply.error });
        }
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
        HandlerCall {
            handler: request.handler,
            context: Arc::clone(&self.context),
            retry: request.retry,
            started: request.started,
            runtime_seconds: request.runtime_seconds,
            timeout_seconds: request.timeout_seconds,
            change,
            children,
            background: None,
        }
    }

    /// A batch of sub-handlers; boxed, since they can have sub-handlers of their own.
    fn run_children(
        &mut self,
        mut batch: SubBatch,
    ) -> BoxFuture<'_, Result<(ChildrenReply, BTreeSet<String>), FrontFailure>> {
        Box::pin(async move {
            let mut ids = BTreeSet::new();
            let mut result = None;
            loop {
                let now = self.reactor.clock.now();
                let step = batch.step(result.take(), now, &mut || self.reactor.clock.jitter(1.0));
                self.log(batch.take_notes());
                match step {
                    SubBatchStep::Effect(effect) => {
                        let states = self.states_for(&effect, batch.batch().map(|batch| batch.states()));
                        let (answer, subrefs) = self.answer(effect, states).await?;
                        ids.extend(subrefs);
                        result = Some(answer);
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
        self.reactor.write_notes(&self.reference, notes, self.last_error.clone());
    }
}
