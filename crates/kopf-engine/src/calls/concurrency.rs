//! `concurrency=N` of a handler: at most N calls of it at once, over all objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kopf_reaction::Handler;
use tokio::sync::Semaphore;

/// The limits on the calls of handlers over all objects.
pub(crate) struct ConcurrencyLimits {
    /// Of the declared handlers, by their indexes.
    declared: HashMap<usize, Arc<Semaphore>>,
    /// Of sub-handlers, by their ids: every call of their parent declares them again. Kept only while in use.
    children: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl ConcurrencyLimits {
    pub(crate) fn new(handlers: &[Arc<Handler>]) -> Self {
        let declared =
            handlers.iter().filter_map(|handler| Some((handler.index, limit(handler.concurrency?)))).collect();
        Self { declared, children: Mutex::default() }
    }

    /// None if the handler has no limit.
    pub(crate) fn of(&self, handler: &Handler) -> Option<Arc<Semaphore>> {
        let count = handler.concurrency?;
        if let Some(limit) = self.declared.get(&handler.index) {
            return Some(Arc::clone(limit));
        }
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = children.get(&handler.id).and_then(Weak::upgrade) {
            return Some(limit);
        }
        children.retain(|_, limit| limit.strong_count() > 0);
        let limit = limit(count);
        children.insert(Arc::clone(&handler.id), Arc::downgrade(&limit));
        Some(limit)
    }
}

fn limit(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)))
}
