//! The users' functions by the numbers under which the engine knows them.
//!
//! Those of the operator stay for its whole life; sub-handlers only as long as the call that has
//! registered them, which is what a [`SubhandlerScope`] is for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use kopf_engine::Children as ChildrenPort;
use kopf_reaction::{Handler, Lifecycle};

use crate::call::OperatorParts;
use crate::filter::Callbacks;
use crate::handler::Function;
use crate::{ActivityCall, Call, Error, Result};

/// All functions of one operator.
#[derive(Default)]
pub(crate) struct Registry {
    entries: RwLock<HashMap<usize, Entry>>,
    next_index: AtomicUsize,
}

/// One function, and the callbacks of its declaration.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) function: AnyFunction,
    pub(crate) callbacks: Arc<Callbacks>,
}

/// A function for either kind of calls.
#[derive(Clone)]
pub(crate) enum AnyFunction {
    /// For a moment of the operator's life.
    Activity(Function<ActivityCall>),
    /// For an object.
    Object(Function<Call>),
}

impl Registry {
    pub(crate) fn allocate_index(&self) -> usize {
        self.next_index.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, index: usize, entry: Entry) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(index, entry);
    }

    pub(crate) fn get(&self, index: usize) -> Option<Entry> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned()
    }

    fn remove(&self, indexes: &[usize]) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        for index in indexes {
            entries.remove(index);
        }
    }
}

/// The sub-handlers of one call; they are forgotten when the call is over.
#[derive(Clone)]
pub(crate) struct SubhandlerScope {
    shared: Arc<ScopeShared>,
}

/// What the clones of a scope share.
struct ScopeShared {
    /// The way to the engine.
    port: ChildrenPort,
    operator: Arc<OperatorParts>,
    handlers: Mutex<ScopeHandlers>,
}

#[derive(Default)]
struct ScopeHandlers {
    /// Registered, but not executed yet.
    pending: Vec<Arc<Handler>>,
    /// Everything to be forgotten at the end.
    indexes: Vec<usize>,
}

impl SubhandlerScope {
    pub(crate) fn new(port: ChildrenPort, operator: Arc<OperatorParts>) -> Self {
        Self { shared: Arc::new(ScopeShared { port, operator, handlers: Mutex::default() }) }
    }

    pub(crate) fn allocate_index(&self) -> usize {
        self.shared.operator.registry.allocate_index()
    }

    pub(crate) fn add(&self, handler: Handler, entry: Entry) {
        self.shared.operator.registry.insert(handler.index, entry);
        let mut handlers = self.lock();
        handlers.indexes.push(handler.index);
        handlers.pending.push(Arc::new(handler));
    }

    /// Lets the engine call those that are due. The error asks for the parent to be called again.
    pub(crate) async fn execute(&self, lifecycle: Option<Lifecycle>) -> Result<()> {
        let pending = std::mem::take(&mut self.lock().pending);
        if pending.is_empty() {
            return Ok(());
        }
        match self.shared.port.execute(pending, lifecycle).await {
            Some(reply) if reply.done => Ok(()),
            Some(reply) => Err(Error::children_retry(reply.delay_seconds)),
            None => Err(Error::temporary("the handling of the object has ended before its sub-handlers").at_once()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ScopeHandlers> {
        self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScopeShared {
    fn drop(&mut self) {
        let handlers = self.handlers.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !handlers.indexes.is_empty() {
            self.operator.registry.remove(&handlers.indexes);
        }
    }
}
