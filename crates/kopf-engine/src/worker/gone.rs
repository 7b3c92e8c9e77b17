//! Objects that are gone in spite of our finalizer: their deletion is handled in memory.
//!
//! The API server decides by the object that it has read first: if the finalizer is added just then, the object is
//! deleted at once nevertheless. What its handlers have begun for it, they have to undo.

use std::sync::Arc;

use kopf_object::{Body, finalizers};
use kopf_reaction::{FinalizerChange, Reason, Severity};
use serde_json::Value;

use super::outcome::{CycleError, WriteOutcome};
use super::reactor::ObjectPass;
use crate::front::CycleContext;
use crate::patching::{Latest, ObjectPatch};

impl ObjectPass<'_> {
    /// The last state of an object that was deleted in spite of our finalizer, as if the finalizer held it; None if the
    /// object was deleted as it should be.
    pub(super) fn gone_in_spite_of_finalizer(&self, body: &Body) -> Option<Body> {
        let is_held = finalizers::is_deletion_blocked(body.without_managed_fields(), &self.reactor.finalizer);
        let is_overtaken = is_held && !finalizers::is_deletion_ongoing(body.without_managed_fields());
        let handlers = &self.object.served.handlers.change_handlers;
        let is_handled = handlers.iter().any(|handler| handler.reason == Some(Reason::Delete));
        if !(is_overtaken && self.object.memory.is_begun && is_handled) {
            return None;
        }
        self.log(
            Severity::Warning,
            "The object was deleted at the moment when the finalizer was added, so that the finalizer had no effect. \
            The deletion handlers are called with its last state; their progress is kept in memory only."
                .to_owned(),
        );
        let mut last = body.value().clone();
        let now = self.reactor.caller.clock.now();
        last["metadata"]["deletionTimestamp"] = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
        Some(Body::from_value(last))
    }

    /// Changes the last state of a gone object in memory, as a patch would change it in the cluster.
    pub(super) async fn write_to_gone(
        &self,
        context: &Arc<CycleContext>,
        body: &Body,
        patch: ObjectPatch,
    ) -> Result<WriteOutcome, CycleError> {
        if patch.finalizer == Some(FinalizerChange::Remove) {
            return Ok(WriteOutcome::Gone);
        }
        if patch.is_empty() {
            return Ok(WriteOutcome::Untouched);
        }
        let mut last = body.value().clone();
        if let Some(wanted) = &patch.wanted {
            kopf_object::merge(&mut last, wanted);
        }
        patch.stored.apply_to(&mut last);
        if patch.transformations {
            let front = &self.reactor.caller.front;
            last = front.transform(Arc::clone(context), Body::from_value(last)).await?;
        }
        if let Some(metadata) = last.get_mut("metadata").and_then(Value::as_object_mut) {
            // The server has never had this version.
            metadata.shift_remove("resourceVersion");
        }
        Ok(WriteOutcome::Patched(Latest::read(Body::from_value(last))))
    }
}
