//! The calls of users' functions, one type per family of triggers: extractors take their values from them.
//!
//! The front makes a call from what the engine sends. Because each family has its type, an extractor that makes no
//! sense for a handler does not compile: [`Stopped`](crate::extract::Stopped) needs a [`BackgroundCall`], for example.
//! Users meet these types only when they write extractors, see [`FromCall`](crate::extract::FromCall).

pub(crate) mod from_call;
pub(crate) mod registry;
pub(crate) mod connection;

use std::any::{Any, type_name};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_engine::{BackgroundCall as BackgroundParts, WebhookContext};
use kopf_object::Diff;
use kopf_reaction::{Activity, EventType, Handler, Reason};
use serde_json::Value;

use self::connection::Connection;
use self::registry::{AnyFunction, Function, Registry, SubhandlerScope};
use crate::context::Context;
use crate::context::review::{Conversion, Review, Warnings};
use crate::error::{Error, Result};
use crate::index::Indexes;
use crate::logging::Logger;

/// Any call: for extractors that work in all handlers.
pub trait AnyCall: sealed::Sealed + Send + Sync + 'static {
    /// What every call has.
    fn invocation(&self) -> &Invocation;

    /// The logger of the handler.
    fn logger(&self) -> Logger;
}

/// A call about an object: for extractors that work in all handlers but those of activities.
#[diagnostic::on_unimplemented(
    message = "a handler that is called with `{Self}` has no object",
    label = "this function has a parameter that needs an object",
    note = "startup, cleanup, login and probe handlers take `Client`, `State`, `Logger`, `Index`, `Retry`, `Started`, `Runtime`"
)]
pub trait ObjectCall: AnyCall {
    /// The object, and what happened to it.
    fn context(&self) -> &Context;

    /// An error for what an extractor cannot take from this call. The engine does not retry the handler.
    fn reject(&self, reason: impl Display) -> Error
    where
        Self: Sized,
    {
        let object = self.context().title();
        Error::permanent(format!("handler '{}' cannot be called for {object}: {reason}", self.invocation().id()))
    }
}

/// A call about a change, made or requested: it knows the states before and after.
#[diagnostic::on_unimplemented(
    message = "a handler that is called with `{Self}` has no old and new values",
    label = "this function has a parameter that needs them",
    note = "`Old`, `New` and `Diff` are for create, update, delete, resume and field handlers, sub-handlers, and validating and mutating handlers"
)]
pub trait ComparingCall: ObjectCall {
    /// The object before the change, or the handler's field of it; None if it is new.
    fn old_value(&self) -> Option<&Value>;

    /// The object after the change, or the handler's field of it; None if it is gone.
    fn new_value(&self) -> Option<&Value>;

    /// The difference between the two.
    fn diff(&self) -> &Diff;
}

/// A call of a create, update, delete, resume or field handler, or of a sub-handler.
pub struct ChangeCall {
    object: ObjectParts,
    change: Change,
    scope: SubhandlerScope,
}

/// A call of an event handler.
pub struct EventCall {
    object: ObjectParts,
    event_type: EventType,
}

/// A call of an index function.
pub struct IndexCall {
    object: ObjectParts,
}

/// A call of a daemon or a timer.
pub struct BackgroundCall {
    object: ObjectParts,
    background: BackgroundParts,
}

/// A call of a validating or mutating handler.
pub struct AdmissionCall {
    object: ObjectParts,
    webhook: Arc<WebhookContext>,
    review: Arc<Review>,
    warnings: Warnings,
}

/// A call of a converting handler.
pub struct ConversionCall {
    object: ObjectParts,
    conversion: Conversion,
}

/// A call of a startup, cleanup, login or probe handler.
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

/// What every call about an object has.
pub(crate) struct ObjectParts {
    pub(crate) invocation: Invocation,
    pub(crate) context: Context,
}

/// What happened to an object since it was handled last, reduced to the handler's field if it has one.
pub(crate) struct Change {
    pub(crate) reason: Reason,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
    pub(crate) diff: Diff,
}

/// What all calls of one operator share.
pub(crate) struct OperatorParts {
    /// The application's state; `()` if there is none.
    pub(crate) state: Arc<dyn Any + Send + Sync>,
    pub(crate) connection: Connection,
    pub(crate) registry: Registry,
    pub(crate) indexes: Indexes,
}

impl Invocation {
    /// The id of the handler that is called.
    pub fn id(&self) -> &str {
        &self.handler.id
    }

    /// The shared state of the operator. The types were checked when the handler was registered.
    pub(crate) fn state<S: Send + Sync + 'static>(&self) -> Result<Arc<S>> {
        Arc::clone(&self.operator.state)
            .downcast::<S>()
            .map_err(|_| Error::permanent(format!("the operator has no state {}", type_name::<S>())))
    }
}

impl ChangeCall {
    pub(crate) fn new(object: ObjectParts, change: Change, scope: SubhandlerScope) -> Self {
        Self { object, change, scope }
    }

    /// Why the handler is called.
    pub fn reason(&self) -> Reason {
        self.change.reason
    }

    /// Where sub-handlers are registered for the time of this call.
    pub(crate) fn scope(&self) -> &SubhandlerScope {
        &self.scope
    }
}

impl EventCall {
    pub(crate) fn new(object: ObjectParts, event_type: EventType) -> Self {
        Self { object, event_type }
    }

    /// How the object came.
    pub fn event_type(&self) -> EventType {
        self.event_type
    }
}

impl IndexCall {
    pub(crate) fn new(object: ObjectParts) -> Self {
        Self { object }
    }
}

impl BackgroundCall {
    pub(crate) fn new(object: ObjectParts, background: BackgroundParts) -> Self {
        Self { object, background }
    }

    pub(crate) fn background(&self) -> &BackgroundParts {
        &self.background
    }
}

impl AdmissionCall {
    pub(crate) fn new(
        object: ObjectParts,
        webhook: Arc<WebhookContext>,
        review: Arc<Review>,
        warnings: Warnings,
    ) -> Self {
        Self { object, webhook, review, warnings }
    }

    /// Who requests which change.
    pub fn review(&self) -> &Review {
        &self.review
    }

    /// The warnings of the review, which all its handlers share.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }
}

impl ConversionCall {
    pub(crate) fn new(object: ObjectParts, conversion: Conversion) -> Self {
        Self { object, conversion }
    }

    /// From which version to which.
    pub fn conversion(&self) -> &Conversion {
        &self.conversion
    }
}

impl ActivityCall {
    pub(crate) fn new(invocation: Invocation, activity: Activity) -> Self {
        Self { invocation, activity }
    }
}

impl ComparingCall for ChangeCall {
    fn old_value(&self) -> Option<&Value> {
        self.change.old.as_ref()
    }

    fn new_value(&self) -> Option<&Value> {
        self.change.new.as_ref()
    }

    fn diff(&self) -> &Diff {
        &self.change.diff
    }
}

impl ComparingCall for AdmissionCall {
    fn old_value(&self) -> Option<&Value> {
        self.webhook.old.as_ref()
    }

    fn new_value(&self) -> Option<&Value> {
        self.webhook.new.as_ref()
    }

    fn diff(&self) -> &Diff {
        &self.webhook.diff
    }
}

macro_rules! object_calls {
    ($($call:ident as $variant:ident;)*) => {$(
        impl AnyCall for $call {
            fn invocation(&self) -> &Invocation {
                &self.object.invocation
            }

            fn logger(&self) -> Logger {
                Logger::of_object(self.object.context.reference())
            }
        }

        impl ObjectCall for $call {
            fn context(&self) -> &Context {
                &self.object.context
            }
        }

        impl sealed::Sealed for $call {
            fn wrap(function: Function<Self>) -> AnyFunction {
                AnyFunction::$variant(function)
            }
        }
    )*};
}

object_calls! {
    ChangeCall as Change;
    EventCall as Event;
    IndexCall as Index;
    BackgroundCall as Background;
    AdmissionCall as Admission;
    ConversionCall as Conversion;
}

impl AnyCall for ActivityCall {
    fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    fn logger(&self) -> Logger {
        Logger::of_activity(self.activity)
    }
}

impl sealed::Sealed for ActivityCall {
    fn wrap(function: Function<Self>) -> AnyFunction {
        AnyFunction::Activity(function)
    }
}

pub(crate) mod sealed {
    use super::registry::{AnyFunction, Function};

    /// Only this crate makes calls.
    pub trait Sealed: Sized {
        fn wrap(function: Function<Self>) -> AnyFunction;
    }
}
