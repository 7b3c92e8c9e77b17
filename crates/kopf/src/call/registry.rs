//! The users' functions, by the indexes under which the engine knows their handlers.
//!
//! Functions of the operator stay registered for its whole life. Sub-handlers stay only until the call that
//! registered them ends: a [`SubhandlerScope`] removes them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures::future::BoxFuture;
use kopf_engine::Children as ChildrenPort;
use kopf_reaction::{Handler, Lifecycle};
use serde_json::Value;

use super::{
    ActivityCall, AdmissionCall, BackgroundCall, ChangeCall, ConversionCall, EventCall, IndexCall, OperatorParts,
};
use crate::error::{Error, Result};
use crate::filter::Callbacks;

/// All functions of one operator.
#[derive(Default)]
pub(crate) struct Registry {
    functions: RwLock<HashMap<usize, RegisteredFunction>>,
    next_index: AtomicUsize,
}

/// One function, and the callbacks of its declaration.
#[derive(Clone)]
pub(crate) struct RegisteredFunction {
    pub(crate) function: AnyFunction,
    pub(crate) callbacks: Arc<Callbacks>,
}

/// A function of the user without its types: it finds the state of the operator in the call.
pub(crate) type Function<C> = Arc<dyn Fn(Arc<C>) -> BoxFuture<'static, Result<Option<Value>>> + Send + Sync>;

/// A function for one of the calls.
#[derive(Clone)]
pub enum AnyFunction {
    Activity(Function<ActivityCall>),
    Change(Function<ChangeCall>),
    Event(Function<EventCall>),
    Index(Function<IndexCall>),
    Background(Function<BackgroundCall>),
    Admission(Function<AdmissionCall>),
    Conversion(Function<ConversionCall>),
}

impl Registry {
    pub(crate) fn allocate_index(&self) -> usize {
        self.next_index.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, index: usize, function: RegisteredFunction) {
        self.functions.write().unwrap_or_else(PoisonError::into_inner).insert(index, function);
    }

    pub(crate) fn get(&self, index: usize) -> Option<RegisteredFunction> {
        self.functions.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned()
    }

    fn remove(&self, indexes: &[usize]) {
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        for index in indexes {
            functions.remove(index);
        }
    }
}

/// The sub-handlers of one call; dropped together with it.
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
    /// Everything to be removed at the end.
    indexes: Vec<usize>,
}

impl SubhandlerScope {
    pub(crate) fn new(port: ChildrenPort, operator: Arc<OperatorParts>) -> Self {
        Self { shared: Arc::new(ScopeShared { port, operator, handlers: Mutex::default() }) }
    }

    pub(crate) fn allocate_index(&self) -> usize {
        self.shared.operator.registry.allocate_index()
    }

    pub(crate) fn add(&self, handler: Handler, function: RegisteredFunction) {
        self.shared.operator.registry.insert(handler.index, function);
        let mut handlers = self.lock();
        handlers.indexes.push(handler.index);
        handlers.pending.push(Arc::new(handler));
    }

    /// The operator of the call.
    pub(crate) fn operator(&self) -> &OperatorParts {
        &self.shared.operator
    }

    /// Asks the engine to call the sub-handlers that are due. The error asks it to call the parent again.
    pub(crate) async fn execute(&self, lifecycle: Option<Lifecycle>) -> Result<()> {
        let pending = std::mem::take(&mut self.lock().pending);
        if pending.is_empty() {
            return Ok(());
        }
        match self.shared.port.execute(pending, lifecycle).await {
            Some(reply) if reply.done => Ok(()),
            Some(reply) => Err(Error::children_retry(reply.delay_seconds)),
            None => Err(Error::temporary("the handling of the object ended before its sub-handlers").at_once()),
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
