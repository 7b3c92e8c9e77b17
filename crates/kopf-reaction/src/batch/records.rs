//! The records of a batch: what it stores on the object, and what it removes when all handlers are finished.

use std::sync::Arc;

use jiff::Timestamp;

use super::Batch;
use crate::{Handler, HandlerState, StorageOperation};

impl Batch {
    /// Takes over from other purposes; returns the ids (also of sub-handlers) whose records have become useless.
    ///
    /// Resuming handlers continue, as they are mixed into any purpose. All others start again: the success, or the used
    /// attempts, of a function as a creation handler do not count for the deletion.
    pub fn supersede(&mut self, resuming: &[Arc<str>], now: Timestamp) -> Vec<Arc<str>> {
        let mut superseded = Vec::new();
        for (id, state) in &mut self.states {
            let foreign = state.purpose.is_some() && state.purpose != self.purpose;
            let goes_on = state.active && (!foreign || resuming.contains(id));
            if goes_on {
                state.purpose.clone_from(&self.purpose);
            } else if foreign {
                superseded.push(Arc::clone(id));
                superseded.extend(state.subrefs.iter().map(|subref| Arc::from(subref.as_str())));
                if state.active {
                    *state = HandlerState::new(self.purpose.as_deref(), now);
                }
            }
        }
        superseded
    }

    /// Remembers the essence with which the wanted handlers have finished in this batch.
    pub fn finished_with(&mut self, essence: &str, wanted: impl Fn(&Arc<str>) -> bool) {
        for (id, _) in self.outcomes.iter().filter(|(id, outcome)| outcome.is_final && wanted(id)) {
            for (_, state) in self.states.iter_mut().filter(|(known, _)| known == id) {
                state.essence = Some(essence.to_owned());
            }
        }
    }

    /// Keeps the wanted finished handlers for another purpose; returns their ids.
    pub fn carry_over(&mut self, purpose: &str, wanted: impl Fn(&str, &HandlerState) -> bool) -> Vec<Arc<str>> {
        let mut carried = Vec::new();
        for (id, state) in self.states.iter_mut().filter(|(id, state)| state.finished() && wanted(id, state)) {
            state.purpose = Some(purpose.to_owned());
            carried.push(Arc::clone(id));
        }
        carried
    }

    /// Stores the progress that has changed.
    pub fn store(&self) -> Vec<StorageOperation> {
        self.states
            .iter()
            .filter(|(_, state)| state.differs_from_stored())
            .map(|(id, state)| StorageOperation::Store { id: Arc::clone(id), record: state.to_record() })
            .collect()
    }

    /// Removes the records of all handlers of the resource, and of those in the batch.
    pub fn purge(&self, handlers: &[Arc<Handler>]) -> Vec<StorageOperation> {
        self.purge_except(handlers, |_| false)
    }

    /// The same, but some handlers keep their records, together with their sub-handlers.
    pub fn purge_except(&self, handlers: &[Arc<Handler>], keeps: impl Fn(&Arc<str>) -> bool) -> Vec<StorageOperation> {
        let mut ids: Vec<Arc<str>> = Vec::new();
        let mut add = |id: Arc<str>| {
            if !ids.contains(&id) {
                ids.push(id);
            }
        };
        for handler in handlers.iter().filter(|handler| !keeps(&handler.id)) {
            add(Arc::clone(&handler.id));
        }
        for (id, state) in self.states.iter().filter(|(id, _)| !keeps(id)) {
            add(Arc::clone(id));
            for subref in &state.subrefs {
                add(subref.as_str().into());
            }
        }
        ids.into_iter().map(|id| StorageOperation::Purge { id }).collect()
    }
}
