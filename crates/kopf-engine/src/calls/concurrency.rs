//! `concurrency=N` of a handler: at most so many calls of it at once, over all objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kopf_reaction::Handler;
use tokio::sync::Semaphore;

/// The limits on the calls of handlers over all objects.
pub(crate) struct Gates {
    /// Of the declared handlers, by their indexes.
    declared: HashMap<usize, Arc<Semaphore>>,
    /// Of sub-handlers, by their ids: they are declared anew in every call. Kept only as long as they are in use.
    children: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl Gates {
    pub fn new(handlers: &[Arc<Handler>]) -> Self {
        let declared =
            handlers.iter().filter_map(|handler| Some((handler.index, gate(handler.concurrency?)))).collect();
        Self { declared, children: Mutex::default() }
    }

    pub fn of(&self, handler: &Handler) -> Option<Arc<Semaphore>> {
        let limit = handler.concurrency?;
        if let Some(gate) = self.declared.get(&handler.index) {
            return Some(Arc::clone(gate));
        }
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = children.get(&handler.id).and_then(Weak::upgrade) {
            return Some(gate);
        }
        children.retain(|_, gate| gate.strong_count() > 0);
        let gate = gate(limit);
        children.insert(Arc::clone(&handler.id), Arc::downgrade(&gate));
        Some(gate)
    }
}

fn gate(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)))
}
