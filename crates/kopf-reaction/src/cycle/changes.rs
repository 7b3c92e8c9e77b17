//! The change handlers of a cycle: which of them match, the batch of their calls, what to store.

use std::sync::Arc;

use jiff::Timestamp;

use super::seen::encode_seen_essence;
use super::{Cycle, CycleStage, Effect, subrefs_of};
use crate::declare::purpose_title;
use crate::storage::Corruption;
use crate::{
    Batch, Cause, FilterDepth, Handler, HandlerState, Note, Reason, StorageOperation, diff_repr, python_repr,
    select_handlers,
};

impl Cycle {
    pub(super) fn match_changes(&mut self, cause: &Arc<Cause>, now: Timestamp) -> Option<Effect> {
        self.conclusion.handled = true;
        let reason = cause.reason;
        if !reason.has_handlers() {
            let text = match reason {
                Reason::Gone => "Deleted, really deleted, and we are notified.",
                Reason::Free => "Deletion, but we are done with it, and we do not care.",
                _ => "Something has changed, but we are not interested (the essence is the same).",
            };
            self.debug(|| Note::debug(text));
            if reason == Reason::Noop {
                let (batch, stored) = self.batch_of(cause, Vec::new(), now);
                if stored || self.has_missed(cause) {
                    self.revert_changes(cause, &batch);
                }
            }
            self.stage = CycleStage::Concluding;
            return None;
        }
        let declared = cause.declared_for(&self.input.handlers.change_handlers);
        let matching = match select_handlers(&declared, cause.as_change(), FilterDepth::Full, &self.answers) {
            Err(questions) => return Some(self.ask_filters(questions)),
            Ok(matching) => matching,
        };
        let changing: Vec<_> = declared.into_iter().filter(|handler| !handler.initial).collect();
        let changing =
            select_handlers(&changing, cause.as_change(), FilterDepth::Full, &self.answers).unwrap_or_default();
        let resuming = matching.iter().filter(|one| !changing.iter().any(|other| other.id == one.id));
        self.resuming = resuming.map(|handler| Arc::clone(&handler.id)).collect();
        self.begin_changes(cause, matching, now);
        None
    }

    /// The batch of the matching handlers, and whether the object has any records, readable or not.
    pub(super) fn batch_of(&mut self, cause: &Cause, matching: Vec<Arc<Handler>>, now: Timestamp) -> (Batch, bool) {
        let settings = Arc::clone(&self.input.settings);
        let distinct_change_handlers = &self.input.handlers.distinct_change_handlers;
        let (records, children): (Vec<_>, Vec<_>) = if settings.progress.is_front() {
            let records = std::mem::take(&mut self.records);
            records.into_iter().partition(|(id, _)| distinct_change_handlers.iter().any(|handler| handler.id == *id))
        } else {
            let body = cause.body.without_managed_fields();
            let mut fetch =
                |id: &Arc<str>| Some((Arc::clone(id), settings.progress.fetch(id, body, &mut self.corruptions)?));
            let records: Vec<_> = distinct_change_handlers.iter().filter_map(|handler| fetch(&handler.id)).collect();
            let children = subrefs_of(&records).iter().filter_map(&mut fetch).collect();
            (records, children)
        };
        for (id, record) in records.iter().chain(&children) {
            self.recall_seen(cause, id, &HandlerState::from_record(record, now));
        }
        let reason = cause.reason.as_str();
        let batch = Batch::stored(reason, records, matching, settings.lifecycle, settings.default_backoff, now)
            .quiet(!self.input.verbose);
        let stored = batch.has_records() || !self.corruptions.is_empty();
        self.notes.extend(std::mem::take(&mut self.corruptions).into_iter().map(Corruption::into_note));
        (batch, stored)
    }

    /// The object is back at its state before the unfinished handling, which has become useless. But an update has to
    /// undo what its finished handlers have done.
    pub(super) fn revert_changes(&mut self, cause: &Cause, batch: &Batch) {
        let changing = &self.input.handlers.change_handlers;
        // Handlers that only resume have nothing to undo; they continue.
        let goes_on =
            |id: &Arc<str>| cause.initial && !changing.iter().any(|handler| handler.id == *id && !handler.initial);
        let purged = batch.purge_except(&self.input.handlers.distinct_change_handlers, goes_on);
        self.operations.extend(purged);
        self.store_seen(cause);
    }

    pub(super) fn begin_changes(&mut self, cause: &Arc<Cause>, matching: Vec<Arc<Handler>>, now: Timestamp) {
        let has_no_handlers = matching.is_empty();
        let title = cause.reason.title();
        let (mut batch, stored) = self.batch_of(cause, matching, now);
        if cause.reason == Reason::Resume && self.has_missed(cause) {
            self.revert_changes(cause, &batch);
            self.stage = CycleStage::Concluding;
            return;
        }
        let superseded = batch.superseded();
        for (purpose, counts) in &superseded {
            self.notes.push(Note::info(format!(
                "{} is superseded by {title}: {} succeeded; {} failed; {} left to the moment.",
                capitalized(&purpose_title(purpose)),
                counts.success,
                counts.failure,
                counts.running,
            )));
        }
        if !superseded.is_empty() {
            self.conclusion.partly_handled = None;
            for (id, state) in batch.states() {
                self.recall_seen(cause, id, state);
            }
            self.superseded = batch.supersede(&self.resuming, now);
            let purged = self.superseded.iter().map(|id| StorageOperation::Purge { id: Arc::clone(id) });
            self.operations.extend(purged);
        }
        self.debug(|| {
            Note::debug(format!("{} is in progress: {}", capitalized(title), python_repr(cause.body.value())))
        });
        if !cause.diff.is_empty() && cause.old.is_some() && cause.new.is_some() {
            self.debug(|| Note::debug(format!("{} diff: {}", capitalized(title), diff_repr(&cause.diff))));
        }
        if has_no_handlers {
            if stored {
                self.operations.extend(batch.purge(&self.input.handlers.distinct_change_handlers));
            }
            self.store_essence(cause);
            self.stage = CycleStage::Concluding;
        } else {
            self.batch = Some(batch);
            self.stage = CycleStage::CallingChangeHandlers;
        }
    }

    pub(super) fn finish_changes(&mut self, cause: &Cause, now: Timestamp) {
        let missed = self.has_missed(cause);
        let Some(batch) = &mut self.batch else { return };
        let has_essence = matches!(cause.reason, Reason::Create | Reason::Update);
        let finished = self.finished_children || batch.has_finished_any(|id| !self.resuming.contains(id));
        if let Some(new) = cause.new.as_ref().filter(|_| has_essence && (missed || (finished && !batch.done()))) {
            batch.finished_with(&encode_seen_essence(new), |id| !self.resuming.contains(id));
        }
        let counts = batch.counts();
        // Handlers that have seen the current essence are not called again in the update for those that have not.
        let carried = match batch.done() && missed && has_essence {
            true => batch.carry_over(Reason::Update.as_str(), |id, state| {
                let is_behind = |id: &str| self.behind.iter().any(|behind| &**behind == id);
                state.essence.is_some() && !is_behind(id) && !state.subrefs.iter().any(|id| is_behind(id))
            }),
            false => Vec::new(),
        };
        self.operations.extend(batch.store());
        self.conclusion.delay = batch.delay(now);
        if batch.done() && cause.reason == Reason::Delete && self.blocking_tasks > 0 {
            // Keep the records until the daemons have ended, or else the handlers would be called again then.
            return;
        }
        if batch.done() {
            self.notes.push(Note::info(format!(
                "{} is processed: {} succeeded; {} failed.",
                capitalized(cause.reason.title()),
                counts.success,
                counts.failure,
            )));
            let purge = batch.purge_except(&self.input.handlers.distinct_change_handlers, |id| carried.contains(id));
            self.operations.extend(purge);
            self.store_essence(cause);
            return;
        }
        if finished
            && has_essence
            && let Some(new) = &cause.new
        {
            self.add_seen(new.clone());
        }
    }
}

fn capitalized(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
