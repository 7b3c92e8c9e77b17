//! One call of a user's function: what it gets, and what comes back.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use kopf_object::{Body, Diff, FieldPath};
use kopf_reaction::{Activity, CallError, CallRequest, Cause, EventType, Handler, Resource, StopReasons};
use serde_json::Value;
use tokio::sync::watch;

use super::{Children, LiveBody};
use crate::FrontError;

/// One call of an activity handler.
#[derive(Clone)]
pub struct ActivityCall {
    pub activity: Activity,
    pub handler: Arc<Handler>,
    pub retry: u32,
    pub started: Timestamp,
    pub runtime_seconds: f64,
}

/// One call of a resource handler.
pub struct HandlerCall {
    pub handler: Arc<Handler>,
    pub context: Arc<CycleContext>,
    pub retry: u32,
    pub started: Timestamp,
    pub runtime_seconds: f64,
    /// The call must be cancelled after this many seconds.
    pub timeout_seconds: Option<f64>,
    /// As in the cause, reduced to the handler's field if it has one; None for events.
    pub change: Option<(Option<Value>, Option<Value>, Diff)>,
    /// The way back for sub-handlers.
    pub children: Children,
    /// What only daemons and timers have.
    pub background: Option<BackgroundCall>,
}

impl HandlerCall {
    /// What all calls of objects have in common.
    pub(crate) fn new(request: CallRequest, context: &Arc<CycleContext>, children: Children) -> Self {
        Self {
            handler: request.handler,
            context: Arc::clone(context),
            retry: request.retry,
            started: request.started,
            runtime_seconds: request.runtime_seconds,
            timeout_seconds: request.timeout_seconds,
            change: None,
            children,
            background: None,
        }
    }
}

/// What a daemon or a timer has while it is called.
#[derive(Clone)]
pub struct BackgroundCall {
    /// Unique among the calls in the background of one operator.
    pub number: u64,
    /// Why the function must stop; empty while it may go on. With [`StopReasons::DAEMON_CANCELLED`], the front cancels it.
    pub stops: watch::Receiver<StopReasons>,
    /// The latest state of the object.
    pub live: Arc<LiveBody>,
}

/// What a call came to.
pub struct CallReply {
    pub result: Result<Option<Value>, CallError>,
    /// The error itself, for its traceback in the log.
    pub error: Option<FrontError>,
    /// The current patch of the cycle, including what earlier calls of the cycle have put there.
    pub patch: Option<Value>,
    /// The patch has transformations, besides the data.
    pub transformations: bool,
}

/// A place for a front's own things; filled at most once.
pub type FrontSlot = OnceLock<Box<dyn Any + Send + Sync>>;

/// What all calls of one cycle share.
pub struct CycleContext {
    /// The key of the object in the memory of the operator.
    pub uid: Arc<str>,
    pub resource: Arc<Resource>,
    pub body: Body,
    /// How the body has come; None if it was not by an event.
    pub event: Option<EventType>,
    /// Our finalizer, by the settings.
    pub finalizer: Arc<str>,
    /// What has happened; known as soon as the storages are read.
    pub cause: OnceLock<Arc<Cause>>,
    /// The front's own things for the time of the cycle: views, the patch.
    pub slot: FrontSlot,
    /// The front's own things for the life of the object: the memo.
    pub memory: Arc<FrontSlot>,
}

impl CycleContext {
    pub fn new(
        uid: Arc<str>,
        resource: Arc<Resource>,
        body: Body,
        event: Option<EventType>,
        finalizer: Arc<str>,
        memory: Arc<FrontSlot>,
    ) -> Self {
        let (cause, slot) = (OnceLock::new(), FrontSlot::new());
        Self { uid, resource, body, event, finalizer, cause, slot, memory }
    }
}

/// What is to be read by the storages of the user.
#[derive(Clone, Debug)]
pub struct StorageQuestion {
    pub ids: Vec<Arc<str>>,
    pub extra_fields: Vec<FieldPath>,
    pub progress: bool,
    pub diffbase: bool,
}

/// What was read by the storages of the user.
#[derive(Clone, Debug, Default)]
pub struct StorageContent {
    pub old: Option<Value>,
    pub new: Option<Value>,
    pub records: Vec<(Arc<str>, Value)>,
}
