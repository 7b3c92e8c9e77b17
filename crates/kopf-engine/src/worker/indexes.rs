//! Objects are indexed before anything else is done with them: the decisions of `kopf-reaction` are carried out.
//!
//! The front keeps the values. When handlers may rely on the indexes is up to the gate of the queue.

use std::sync::{Arc, OnceLock};

use kopf_object::{Body, ObjectReference};
use kopf_reaction::{
    CallError, CallOutcome, CallRequest, Effect, EffectResult, EventType, IndexFailures, Indexing, IndexingStep,
};
use tokio::time::Instant;

use crate::front::{Children, CycleContext, FrontFailure, FrontSlot, HandlerCall};
use crate::queue::{A_YEAR, Seat};
use crate::worker::{OBJECTS, Reactor, ServedKind, Turn, level_of};
use crate::worker::{ObjectMemory, Version, version_number};
use crate::{Level, Record};

/// What is remembered of the indexing of one object.
#[derive(Default)]
pub(crate) struct IndexingMemory {
    /// The version that was indexed last; None if versions cannot be compared.
    version: Option<Version>,
    failures: IndexFailures,
    /// When a failed handler is to be tried again.
    retry: Option<Instant>,
}

impl Reactor {
    /// Indexes the body, unless that was done already. Tells when some handler is to be tried again.
    pub(crate) async fn index(
        &self,
        kind: &ServedKind,
        context: &Arc<CycleContext>,
        memory: &mut ObjectMemory,
        reference: &Arc<ObjectReference>,
        seat: &mut Seat,
    ) -> Result<Option<Instant>, FrontFailure> {
        if kind.handlers.index_handlers.is_empty() {
            return Ok(None);
        }
        if context.event == Some(EventType::Deleted) {
            self.unindex(kind, &context.uid, memory);
            return Ok(None);
        }
        let version = version_number(context.body.resource_version());
        if let Some(known) = &memory.indexing
            && version.is_some()
            && known.version == version
            && known.retry.is_none_or(|retry| retry > self.clock.instant())
        {
            return Ok(known.retry);
        }
        let remembered = memory.indexing.get_or_insert_default();
        let failures = std::mem::take(&mut remembered.failures);
        let verbose = self.log.enabled(Level::Debug, OBJECTS);
        let backoff = self.settings.execution.default_backoff;
        let mut indexing =
            Indexing::new(context.body.clone(), &kind.handlers.index_handlers, failures, backoff, verbose);
        let (mut result, mut error) = (None, None);
        let conclusion = loop {
            let step = indexing.step(result.take(), self.clock.now(), &mut || self.clock.jitter(1.0));
            for note in indexing.take_notes() {
                self.log.record(Record {
                    level: level_of(note.severity),
                    target: OBJECTS,
                    message: note.text,
                    reference: Some(Arc::clone(reference)),
                    local: true,
                    error: if note.traceback { error.clone() } else { None },
                });
            }
            match step {
                IndexingStep::Done(conclusion) => break conclusion,
                IndexingStep::Effect(Effect::Filters(questions)) => {
                    let answers = self.front.filter(Arc::clone(context), questions).await?;
                    result = Some(EffectResult::Filters(answers));
                }
                IndexingStep::Effect(Effect::Call(request)) => {
                    let _permit = match self.gates.of(&request.handler) {
                        Some(gate) => seat.pass(gate).await,
                        None => None,
                    };
                    let count = self.metrics.begin(&request.handler, request.retry, &self.clock);
                    let title = request.handler.title();
                    let answer = self.front.call(index_call(request, context)).await;
                    count.finish(&answer, &self.clock);
                    if answer.result == Err(CallError::Abandoned) {
                        let message = format!("{title} was given up without an answer");
                        return Err(FrontFailure { message, error: answer.error });
                    }
                    error = answer.error;
                    let outcome = CallOutcome { result: answer.result, subrefs: Default::default() };
                    result = Some(EffectResult::Called(outcome));
                }
                // Neither storages nor lifecycles are ever asked for.
                IndexingStep::Effect(_) => {}
            }
        };
        if !conclusion.excluded.is_empty() {
            self.front.unindex(&context.uid, &conclusion.excluded);
        }
        remembered.version = version;
        remembered.failures = conclusion.failures;
        remembered.retry = conclusion.delay.map(|delay| self.clock.instant() + crate::seconds(delay).min(A_YEAR));
        Ok(remembered.retry)
    }

    /// Indexes an object while its handlers still have to wait.
    pub(crate) async fn index_only(
        &self,
        kind: &ServedKind,
        uid: &Arc<str>,
        memory: &mut ObjectMemory,
        turn: Turn,
        seat: &mut Seat,
    ) {
        let reference = Arc::new(turn.body.reference());
        let context = self.context(kind, uid, memory, turn.body, turn.event);
        if let Err(failure) = self.index(kind, &context, memory, &reference, seat).await {
            let text = format!("The object cannot be indexed, it will be tried again: {}", failure.message);
            self.fail(&reference, text, failure.error);
        }
    }

    /// The object is gone, or not served any more.
    pub(crate) fn unindex(&self, kind: &ServedKind, uid: &Arc<str>, memory: &mut ObjectMemory) {
        if memory.indexing.take().is_some() {
            let ids: Vec<Arc<str>> =
                kind.handlers.index_handlers.iter().map(|handler| Arc::clone(&handler.id)).collect();
            self.front.unindex(uid, &ids);
        }
    }

    /// What the calls of one cycle share.
    pub(crate) fn context(
        &self,
        kind: &ServedKind,
        uid: &Arc<str>,
        memory: &mut ObjectMemory,
        body: Body,
        event: Option<EventType>,
    ) -> Arc<CycleContext> {
        Arc::new(CycleContext {
            uid: Arc::clone(uid),
            resource: Arc::clone(&kind.resource),
            body,
            event,
            finalizer: Arc::clone(&self.finalizer),
            cause: OnceLock::new(),
            slot: FrontSlot::new(),
            memory: Arc::clone(memory.front.get_or_insert_default()),
        })
    }
}

fn index_call(request: CallRequest, context: &Arc<CycleContext>) -> HandlerCall {
    // Index handlers have no sub-handlers: nobody listens at the other end.
    let (children, _) = Children::channel();
    HandlerCall {
        handler: request.handler,
        context: Arc::clone(context),
        retry: request.retry,
        started: request.started,
        runtime_seconds: request.runtime_seconds,
        timeout_seconds: request.timeout_seconds,
        change: None,
        children,
        background: None,
    }
}
