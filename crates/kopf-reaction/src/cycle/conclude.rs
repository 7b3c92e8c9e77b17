//! The end of a cycle: whether to allow the deletion, and what to write.

use kopf_object::finalizers;

use super::{Cycle, CycleConclusion, CycleStage, CycleStep, FinalizerChange};
use crate::{Cause, Note, Reason, StorageOperation};

impl Cycle {
    pub(super) fn conclude(&mut self) -> CycleStep {
        let mut conclusion = std::mem::take(&mut self.conclusion);
        if self.stage != CycleStage::Finished
            && let Some(cause) = self.cause.clone()
        {
            self.stage = CycleStage::Finished;
            let held =
                finalizers::is_deletion_blocked(cause.body.without_managed_fields(), &self.input.settings.finalizer);
            let gone = cause.reason == Reason::Gone;
            let waiting = conclusion.delay.is_some() || conclusion.awaits_newer || self.blocking_tasks > 0;
            if cause.deletion_ongoing && held && !gone && !waiting && conclusion.finalizer.is_none() {
                self.debug(|| Note::debug("Removing the finalizer, thus allowing the actual deletion.").local());
                conclusion.finalizer = Some(FinalizerChange::Remove);
            }
            self.write(&cause, &mut conclusion);
        }
        CycleStep::Done(Box::new(conclusion))
    }

    pub(super) fn write(&mut self, cause: &Cause, conclusion: &mut CycleConclusion) {
        let settings = &self.input.settings;
        let body = cause.body.without_managed_fields();
        for operation in std::mem::take(&mut self.operations) {
            let for_front = match &operation {
                StorageOperation::DiffBase { .. } => settings.diffbase.is_front(),
                _ => settings.progress.is_front(),
            };
            if for_front {
                conclusion.operations.push(operation);
                continue;
            }
            match operation {
                StorageOperation::Store { id, record } => {
                    settings.progress.store(&id, &record, body, &mut conclusion.patch);
                }
                StorageOperation::Purge { id } => settings.progress.purge(&id, body, &mut conclusion.patch),
                StorageOperation::Touch { value } => {
                    settings.progress.touch(value.as_deref(), body, &mut conclusion.patch);
                }
                StorageOperation::DiffBase { essence } => {
                    settings.diffbase.store(&essence, body, &mut conclusion.patch);
                }
            }
        }
        // Only along with something else: it is not worth a separate request.
        if !conclusion.patch.is_empty() && !settings.progress.is_front() {
            settings.progress.touch(None, body, &mut conclusion.patch);
        }
    }
}
