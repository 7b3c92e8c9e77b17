//! What a batch leaves on the object: the records of its handlers, or nothing when all of them are done.

use std::sync::Arc;

use jiff::Timestamp;

use super::Batch;
use crate::{Handler, HandlerState, StorageOperation};

impl Batch {
    /// Takes over from other purposes; gives the ids (also of sub-handlers) whose records are of no use any more.
    ///
    /// Resuming handlers go on where they were, as they are mixed into any purpose. All others start anew: that
    /// a function has succeeded, or has used up its attempts, as a creation handler says nothing about its deletion.
    pub fn supersede(&mut self, resuming: &[Arc<str>], now: Timestamp) -> Vec<Arc<str>> {
        let mut dropped = Vec::new();
        for (id, state) in &mut self.states {
            let foreign = state.purpose.is_some() && state.purpose != self.purpose;
            let goes_on = state.active && (!foreign || resuming.contains(id));
            if goes_on {
                state.purpose.clone_from(&self.purpose);
            } else if foreign {
                dropped.push(Arc::clone(id));
                dropped.extend(state.subrefs.iter().map(|subref| Arc::from(subref.as_str())));
                if state.active {
                    *state = HandlerState::new(self.purpose.as_deref(), now);
                }
            }
        }
        dropped
    }

    /// The handlers that have finished in this batch, except for some, have done so with this essence.
    pub fn finished_with(&mut self, essence: &str, wanted: impl Fn(&Arc<str>) -> bool) {
        for (id, _) in self.outcomes.iter().filter(|(id, outcome)| outcome.is_final && wanted(id)) {
            for (_, state) in self.states.iter_mut().filter(|(known, _)| known == id) {
                state.essence = Some(essence.to_owned());
            }
        }
    }

    /// The handlers of this batch that stay finished when the batch goes over to another purpose.
    pub fn carry_over(&mut self, purpose: &str, wanted: impl Fn(&str, &HandlerState) -> bool) -> Vec<Arc<str>> {
        let mut carried = Vec::new();
        for (id, state) in self.states.iter_mut().filter(|(id, state)| state.finished() && wanted(id, state)) {
            state.purpose = Some(purpose.to_owned());
            carried.push(Arc::clone(id));
        }
        carried
    }

    /// What is to be stored after the calls.
    pub fn store(&self) -> Vec<StorageOperation> {
        self.states
            .iter()
            .filter(|(_, state)| state.differs_from_stored())
            .map(|(id, state)| StorageOperation::Store { id: Arc::clone(id), record: state.to_record() })
            .collect()
    }

    /// What is to be forgotten when all is done: the handlers of the kind, and everything met in the batch.
    pub fn purge(&self, owned: &[Arc<Handler>]) -> Vec<StorageOperation> {
        self.purge_except(owned, |_| false)
    }

    /// The same, but some handlers keep what they have, together with their sub-handlers.
    pub fn purge_except(&self, owned: &[Arc<Handler>], keeps: impl Fn(&Arc<str>) -> bool) -> Vec<StorageOperation> {
        let mut ids: Vec<Arc<str>> = Vec::new();
        let mut add = |id: Arc<str>| {
            if !ids.contains(&id) {
                ids.push(id);
            }
        };
        for handler in owned.iter().filter(|handler| !keeps(&handler.id)) {
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
