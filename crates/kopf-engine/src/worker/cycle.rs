//! 5. One cycle: calls the handlers that the machine selects for one body, and patches the outcome.

use std::sync::Arc;

use kopf_object::Body;
use kopf_reaction::{Cycle, CycleConclusion, CycleInput, EventType, FinalizerChange, Severity};

use super::driver::{Calls, Driver};
use super::memory::Unapplied;
use super::outcome::{CycleError, CycleOutcome, WriteOutcome};
use super::reactor::ObjectPass;
use crate::front::CycleContext;
use crate::metrics::PatchResult;
use crate::patching::{Applied, ObjectPatch};
use crate::support::clock::LONGEST_WAIT;
use crate::support::log::OBJECTS;

impl ObjectPass<'_> {
    pub(super) async fn cycle(
        &mut self,
        body: &Body,
        event: Option<EventType>,
        consistent: bool,
    ) -> Result<CycleOutcome, CycleError> {
        if let Some(background) = &self.object.memory.background
            && consistent
        {
            background.update_body(body);
        }
        let context = self.context(body.clone(), event);
        let handlers = &self.object.served.handlers;
        let reindexing = if consistent && !handlers.index_handlers.is_empty() {
            Box::pin(self.index(&context)).await?
        } else {
            None
        };
        if handlers.only_indexes() {
            return Ok(CycleOutcome::unpatched(reindexing, event == Some(EventType::Deleted)));
        }
        let cycle = self.new_cycle(&context, consistent);
        let mut driver = Driver::new(self, cycle, Arc::clone(&context), consistent);
        let conclusion = driver.run().await;
        let Calls { called, wanted, transformations, decided } = driver.into_calls();
        self.object.memory.is_begun |= !called.is_empty();
        let conclusion = conclusion?;
        self.object.memory.partly_handled.clone_from(&conclusion.partly_handled);
        if event == Some(EventType::Deleted) {
            return Ok(CycleOutcome::unpatched(None, true));
        }
        let fully_handled = conclusion.fully_handled;
        let own_update_delay =
            if fully_handled { self.own_update_delay(&context, &called, wanted.as_ref()) } else { None };
        // Delays count from the decision, however long the patch takes.
        let wake = conclusion.delay.map(|delay| decided + crate::seconds(delay).min(LONGEST_WAIT));
        let wake = [wake, reindexing].into_iter().flatten().min();
        let patch = ObjectPatch { wanted, transformations, ..ObjectPatch::default() };
        // Boxed, so that those who wait for their handlers take no memory for it.
        let written = Box::pin(self.conclude(&context, conclusion, patch)).await?;
        self.object.memory.fully_handled_once |= fully_handled;
        let (patched, wake, gone) = match written {
            WriteOutcome::Gone => (None, None, true),
            WriteOutcome::Untouched => (None, wake, false),
            WriteOutcome::Patched(latest) => (Some(latest), wake, false),
        };
        Ok(CycleOutcome { patched, wake, gone, fully_handled, own_update_delay })
    }

    fn new_cycle(&self, context: &CycleContext, consistent: bool) -> Cycle {
        let (reactor, memory) = (self.reactor, &*self.object.memory);
        let cycle = Cycle::new(CycleInput {
            body: context.body.clone(),
            event: context.event,
            handlers: Arc::clone(&self.object.served.handlers),
            settings: Arc::clone(reactor.reaction_of(&self.object.served.resource)),
            initial: memory.is_initial(),
            consistent,
            background: reactor.background.view(memory.background.as_ref()),
            verbose: reactor.caller.log.enabled(Severity::Debug, OBJECTS),
        });
        cycle.with_partly_handled(memory.partly_handled.clone())
    }

    /// Patches what the cycle came to.
    async fn conclude(
        &mut self,
        context: &Arc<CycleContext>,
        conclusion: CycleConclusion,
        mut patch: ObjectPatch,
    ) -> Result<WriteOutcome, CycleError> {
        let reactor = self.reactor;
        patch.stored_by_user = !conclusion.operations.is_empty();
        if patch.stored_by_user {
            patch.wanted = reactor.caller.front.write_storage(Arc::clone(context), conclusion.operations).await?;
        }
        for (id, result) in conclusion.results {
            let resource = &self.object.served.resource;
            reactor.patcher.add_result(resource, &self.reference, &mut patch.wanted, &id, result);
        }
        (patch.stored, patch.finalizer) = (conclusion.patch, conclusion.finalizer);
        patch.is_last = conclusion.fully_handled || patch.finalizer == Some(FinalizerChange::Remove);
        reactor.patcher.log_patch(&self.reference, &patch);
        let delay = conclusion.delay;
        if self.object.memory.is_gone {
            return self.write_to_gone(context, &context.body, patch).await;
        }
        let unapplied = Unapplied { patch, context: Arc::clone(context), fully_handled: conclusion.fully_handled };
        let written = self.write(&context.body, unapplied).await?;
        if matches!(written, WriteOutcome::Untouched) && reactor.caller.log.enabled(Severity::Debug, OBJECTS) {
            if conclusion.handled && delay.is_none() {
                self.log(Severity::Debug, "Handling cycle is finished, waiting for new changes.".to_owned());
            } else if let Some(seconds) = delay {
                self.log(Severity::Debug, format!("Sleeping for {seconds} seconds for the delayed handlers."));
            }
        }
        Ok(written)
    }

    /// Patches the object; what the API does not accept now is kept for later.
    pub(super) async fn write(&mut self, body: &Body, unapplied: Unapplied) -> Result<WriteOutcome, CycleError> {
        let (patcher, metrics) = (&self.reactor.patcher, &self.reactor.caller.metrics);
        let applied = patcher.apply(&unapplied.context, body, &unapplied.patch).await;
        match &applied {
            Ok(Applied::Nothing) => {}
            Ok(Applied::Gone) => metrics.count_patch(PatchResult::Gone),
            Ok(Applied::Patched { .. }) => metrics.count_patch(PatchResult::Applied),
            Err(_) => metrics.count_patch(PatchResult::Failed),
        }
        let applied = match applied {
            Ok(applied) => applied,
            Err(incomplete) => {
                // If the patch itself is at fault, its handlers are called again.
                if incomplete.error.is_passing() {
                    self.object.memory.throttle.keep(unapplied);
                }
                return Err(incomplete.into());
            }
        };
        patcher.log_outcome(&self.reference, &applied);
        Ok(match applied {
            Applied::Nothing => WriteOutcome::Untouched,
            Applied::Gone => WriteOutcome::Gone,
            Applied::Patched { latest, .. } => WriteOutcome::Patched(latest),
        })
    }
}
