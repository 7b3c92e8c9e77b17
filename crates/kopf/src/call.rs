//! One call of a user's function: what the extractors take their values from.
//!
//! The front makes it of what the engine sends. Handlers of objects get a [`Call`], those of the
//! operator's own life an [`ActivityCall`]; so an extractor that needs an object does not compile
//! in a startup handler.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_engine::BackgroundCall;
use kopf_object::{Diff, ObjectReference};
use kopf_reaction::{Activity, Handler};
use serde_json::Value;

use crate::client::Connection;
use crate::index::Indexes;
use crate::registry::{Registry, SubhandlerScope};
use crate::{Context, Error, Logger, Result};

/// One call of a handler of objects.
pub struct Call {
    invocation: Invocation,
    context: Context,
    /// Old, new and their difference; None for event handlers.
    change: Option<(Option<Value>, Option<Value>, Diff)>,
    /// Where sub-handlers are registered for the time of this call.
    scope: SubhandlerScope,
    /// What only daemons and timers have.
    background: Option<BackgroundCall>,
}

/// One call of a startup, cleanup or login handler.
pub struct ActivityCall {
    invocation: Invocation,
    activity: Activity,
}

/// What every call has, whatever it is about.
pub struct Invocation {
    pub(crate) handler: Arc<Handler>,
    pub(crate) retry: u32,
    pub(crate) started: Timestamp,
    pub(crate) runtime: Duration,
    pub(crate) operator: Arc<OperatorParts>,
}

/// What all calls of one operator share.
pub(crate) struct OperatorParts {
    /// The application's own state; `()` if there is none.
    pub(crate) state: Arc<dyn Any + Send + Sync>,
    pub(crate) connection: Connection,
    pub(crate) registry: Registry,
    pub(crate) indexes: Indexes,
}

/// Either of the calls: for extractors that work in all handlers.
pub trait AnyCall: Send + Sync + 'static + sealed::Sealed {
    /// What every call has.
    fn invocation(&self) -> &Invocation;

    /// The logger for the handler.
    fn logger(&self) -> Logger;
}

impl Call {
    pub(crate) fn new(
        invocation: Invocation,
        context: Context,
        change: Option<(Option<Value>, Option<Value>, Diff)>,
        scope: SubhandlerScope,
        background: Option<BackgroundCall>,
    ) -> Self {
        Self { invocation, context, change, scope, background }
    }

    /// The object and what has happened to it.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The object, or the handler's field of it, as it was handled last; None if it is new, or for events.
    pub fn old(&self) -> Option<&Value> {
        self.change.as_ref()?.0.as_ref()
    }

    /// The essence of the object, or the handler's field of it, as it is now.
    pub fn new_value(&self) -> Option<&Value> {
        self.change.as_ref()?.1.as_ref()
    }

    /// What has changed in the object, or in the handler's field of it; None for events.
    pub fn diff(&self) -> Option<&Diff> {
        self.change.as_ref().map(|(_, _, diff)| diff)
    }

    /// An error for what cannot be extracted from this call: it is not tried again.
    pub fn reject(&self, reason: impl std::fmt::Display) -> Error {
        let object = self.context.title();
        Error::permanent(format!("handler '{}' cannot be called for {object}: {reason}", self.invocation.id()))
    }

    pub(crate) fn background(&self) -> Option<&BackgroundCall> {
        self.background.as_ref()
    }

    pub(crate) fn scope(&self) -> &SubhandlerScope {
        &self.scope
    }
}

impl ActivityCall {
    pub(crate) fn new(invocation: Invocation, activity: Activity) -> Self {
        Self { invocation, activity }
    }
}

impl Invocation {
    /// The id of the handler that is called.
    pub fn id(&self) -> &str {
        &self.handler.id
    }

    /// The shared state of the operator, which has this type wherever the types were checked.
    pub(crate) fn state<S: Send + Sync + 'static>(&self) -> Result<Arc<S>> {
        Arc::clone(&self.operator.state)
            .downcast::<S>()
            .map_err(|_| Error::permanent(format!("the operator has no state {}", std::any::type_name::<S>())))
    }
}

impl AnyCall for Call {
    fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    fn logger(&self) -> Logger {
        Logger::of_object(self.context.reference())
    }
}

impl AnyCall for ActivityCall {
    fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    fn logger(&self) -> Logger {
        Logger::of_activity(self.activity)
    }
}

/// How an object is called in errors.
pub(crate) fn title(kind: &str, reference: &ObjectReference) -> String {
    let name = reference.name.as_deref().unwrap_or("(unnamed)");
    match reference.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Call {}
    impl Sealed for super::ActivityCall {}
}
