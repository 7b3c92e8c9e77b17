//! 4. Indexing: a worker indexes an object before it does anything else with it.
//!
//! The front keeps the values. The readiness barrier of the queue decides when handlers may rely on the indexes.

use std::sync::Arc;

use kopf_reaction::{CallOutcome, Effect, EffectResult, EventType, Indexing, IndexingStep, Note, Severity};
use tokio::time::Instant;

use super::memory::ObjectMemory;
use super::pass::{Pass, ServedResource};
use super::reactor::{ObjectPass, Reactor};
use crate::front::{Children, CycleContext, FrontFailure, HandlerCall};
use crate::support::clock::LONGEST_WAIT;
use crate::support::log::OBJECTS;
use crate::support::version_number;

impl ObjectPass<'_> {
    /// Indexes the body, unless that was done already. Returns when some handler is due again.
    pub(super) async fn index(&mut self, context: &Arc<CycleContext>) -> Result<Option<Instant>, FrontFailure> {
        let (served, caller) = (self.object.served, &self.reactor.caller);
        if context.event == Some(EventType::Deleted) {
            self.reactor.unindex(served, &context.uid, self.object.memory);
            return Ok(None);
        }
        let version = version_number(context.body.resource_version());
        if let Some(known) = &self.object.memory.indexing
            && version.is_some()
            && known.version == version
            && known.retry.is_none_or(|retry| retry > caller.clock.instant())
        {
            return Ok(known.retry);
        }
        let remembered = self.object.memory.indexing.get_or_insert_default();
        let failures = std::mem::take(&mut remembered.failures);
        let verbose = caller.log.enabled(Severity::Debug, OBJECTS);
        let backoff = self.reactor.settings.execution.default_backoff;
        let mut indexing =
            Indexing::new(context.body.clone(), &served.handlers.index_handlers, failures, backoff, verbose);
        let (mut reply, mut error) = (None, None);
        let conclusion = loop {
            let step = indexing.step(reply.take(), caller.clock.now(), &mut || caller.clock.jitter(1.0));
            let notes = indexing.take_notes().into_iter().map(Note::local);
            caller.log.notes_about(&self.reference, notes, error.as_ref());
            match step {
                IndexingStep::Done(conclusion) => break conclusion,
                IndexingStep::Effect(Effect::Filters(questions)) => {
                    let answers = caller.front.filter(Arc::clone(context), questions).await?;
                    reply = Some(EffectResult::Filters(answers));
                }
                IndexingStep::Effect(Effect::Call(request)) => {
                    let permit = Some(&mut *self.object.permit);
                    let started = caller.start(&request.handler, request.retry, permit).await;
                    // Index handlers have no sub-handlers: nobody listens at the other end.
                    let (children, _) = Children::channel();
                    let answer = caller.front.call(HandlerCall::new(request, context, children)).await;
                    let answer = started.finish_unless_abandoned(answer)?;
                    error = answer.error;
                    let outcome = CallOutcome { result: answer.result, subrefs: Default::default() };
                    reply = Some(EffectResult::Called(outcome));
                }
                // Indexing needs neither storages nor lifecycles.
                IndexingStep::Effect(_) => {}
            }
        };
        if !conclusion.excluded.is_empty() {
            caller.front.unindex(&context.uid, &conclusion.excluded);
        }
        let retry = conclusion.delay.map(|delay| caller.clock.instant() + crate::seconds(delay).min(LONGEST_WAIT));
        let remembered = self.object.memory.indexing.get_or_insert_default();
        (remembered.version, remembered.failures, remembered.retry) = (version, conclusion.failures, retry);
        Ok(retry)
    }

    /// Indexes an object while its handlers must wait.
    pub(super) async fn index_only(&mut self, pass: Pass) {
        if self.object.served.handlers.index_handlers.is_empty() {
            return;
        }
        let context = self.context(pass.body, pass.event);
        if let Err(failure) = self.index(&context).await {
            let text = format!("The object cannot be indexed; it will be retried: {}", failure.message);
            self.reactor.caller.log.error_about(&self.reference, text, failure.error);
        }
    }
}

impl Reactor {
    /// The object is gone, or not served any more.
    pub(crate) fn unindex(&self, served: &ServedResource, uid: &Arc<str>, memory: &mut ObjectMemory) {
        if memory.indexing.take().is_some() {
            let ids: Vec<Arc<str>> =
                served.handlers.index_handlers.iter().map(|handler| Arc::clone(&handler.id)).collect();
            self.caller.front.unindex(uid, &ids);
        }
    }
}
