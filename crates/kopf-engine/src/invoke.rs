//! The one port to every front: calls go out, outcomes come back.
//!
//! A front holds the users' functions (in Python, or in Rust). The engine knows them by their
//! declarations only. Everything that crosses is data, except for two opaque slots in which a front
//! keeps its own things: one for the time of a cycle, one for the life of an object.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use futures::SinkExt as _;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_object::{Body, Diff, FieldPath};
use kopf_reaction::{
    Activity, CallError, EventType, FilterQuestion, Handler, HandlerState, Lifecycle, Resource, Scene, StopReasons,
    StorageOperation,
};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use crate::admission::{Admission, WebhookCall, WebhookContext, WebhookReply};
use crate::background::LiveBody;
use crate::{ConnectionInfo, FrontError, Poster, Settings, Sink, Vault};

/// What the engine asks of a front. The log records go to the front, too.
pub trait Front: Sink {
    /// All startup handlers are done: the settings and the resource handlers are final now.
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>>;

    /// Calls one handler of an activity.
    fn call_activity(&self, call: ActivityCall) -> BoxFuture<'static, CallReply>;

    /// Calls one handler of an object.
    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply>;

    /// Evaluates the callbacks of filters, in the order of the questions.
    fn filter(
        &self,
        context: Arc<CycleContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>>;

    /// Evaluates the callback on resources in the selector of a handler.
    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>>;

    /// Asks the lifecycle function of the user: the indexes of the handlers to be called now.
    fn choose(
        &self,
        context: Arc<CycleContext>,
        candidates: Vec<Arc<Handler>>,
        states: Vec<(Arc<str>, HandlerState)>,
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>>;

    /// Reads from the storages of the user.
    fn read_storage(
        &self,
        context: Arc<CycleContext>,
        question: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>>;

    /// Writes by the storages of the user into the patch of the cycle; the whole patch comes back.
    fn write_storage(
        &self,
        context: Arc<CycleContext>,
        operations: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>>;

    /// Applies the user's transformations of the cycle to a body.
    fn transform(&self, context: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>>;

    /// Removes what the index handlers with these ids have returned for the object, if there is anything.
    ///
    /// What they return is kept by the front under their ids and the object's uid, each time instead of what was
    /// there before; nothing returned means nothing changed.
    fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]);

    /// The handlers of activities as they are declared by now; None if there are no others than at the start.
    fn activities(&self) -> BoxFuture<'static, Option<Vec<Arc<Handler>>>> {
        Box::pin(async { None })
    }

    /// Calls one handler of a webhook.
    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookReply> {
        drop(call);
        Box::pin(async { WebhookReply::abandoned() })
    }

    /// Evaluates the callbacks of the filters of webhooks, in the order of the questions.
    fn filter_webhook(
        &self,
        context: Arc<WebhookContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        drop((context, questions));
        Box::pin(async { Err(FrontFailure::new("there are no callbacks")) })
    }

    /// Applies the user's transformations of an object under review to a body.
    fn transform_webhook(
        &self,
        context: Arc<WebhookContext>,
        body: Body,
    ) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        drop(context);
        Box::pin(async move { Ok(body.value().clone()) })
    }

    /// There are webhooks, and the resources are known: whatever receives their requests may start now.
    fn admission(&self, admission: Admission) {
        drop(admission);
    }

    /// Asks the function of the user how long a daemon or a timer waits before its first call, in seconds.
    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>>;

    /// The operator has logged in.
    fn connected(&self, services: Services) {
        drop(services);
    }

    /// The operator has ended. The services and the admission log through the front: as long as the front holds
    /// them, it holds itself, and the credentials.
    fn disconnected(&self) {}

    /// Comes back as soon as the front finds the time: it shows that the front is alive.
    fn pulse(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// The operator is up and serves.
    fn ready(&self);

    /// The operator has had much to do, and has nothing to do now: a time to give memory back.
    fn at_rest(&self) {}
}

/// What the engine offers to the front, as soon as it is connected.
#[derive(Clone)]
pub struct Services {
    pub poster: Poster,
    pub vault: Vault,
}

/// What a front declares, after its startup.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    pub settings: Settings,
    pub handlers: Vec<Arc<Handler>>,
}

/// A failure of the user's code where no handler is to blame.
#[derive(Clone)]
pub struct FrontFailure {
    pub message: String,
    pub error: Option<FrontError>,
}

impl FrontFailure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), error: None }
    }
}

impl std::fmt::Debug for FrontFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("FrontFailure").field(&self.message).finish()
    }
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
    pub scene: OnceLock<Arc<Scene>>,
    /// The front's own things for the time of the cycle: views, the patch.
    pub slot: FrontSlot,
    /// The front's own things for the life of the object: the memo.
    pub memory: Arc<FrontSlot>,
}

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
    /// The call is to be cancelled after so many seconds.
    pub timeout_seconds: Option<f64>,
    /// As in the scene, reduced to the handler's field if it has one; None for events.
    pub change: Option<(Option<Value>, Option<Value>, Diff)>,
    /// The way back for sub-handlers.
    pub children: Children,
    /// What only daemons and timers have.
    pub background: Option<BackgroundCall>,
}

/// What a daemon or a timer has while it is called.
#[derive(Clone)]
pub struct BackgroundCall {
    /// Unique among the calls in the background of one operator.
    pub number: u64,
    /// Why it is to stop, as soon as it is. With [`StopReasons::DAEMON_CANCELLED`], it is to be cancelled.
    pub stops: watch::Receiver<StopReasons>,
    /// The newest state of the object.
    pub live: Arc<LiveBody>,
}

/// What a call came to.
pub struct CallReply {
    pub result: Result<Option<Value>, CallError>,
    /// The error itself, for its traceback in the log.
    pub error: Option<FrontError>,
    /// The patch of the cycle as it is now, with what earlier calls of the cycle have put there.
    pub patch: Option<Value>,
    /// The patch has transformations, besides the data.
    pub transformations: bool,
}

/// The way from a handler in flight back to the engine.
#[derive(Clone)]
pub struct Children {
    requests: mpsc::Sender<ChildrenRequest>,
}

/// Sub-handlers to be looked at.
pub struct ChildrenRequest {
    pub handlers: Vec<Arc<Handler>>,
    pub lifecycle: Option<Lifecycle>,
    pub reply: oneshot::Sender<ChildrenReply>,
}

/// What a round of sub-handlers came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChildrenReply {
    pub done: bool,
    /// Seconds until the next one is due.
    pub delay_seconds: Option<f64>,
}

impl Children {
    /// The way of one call, and its other end.
    pub fn channel() -> (Self, mpsc::Receiver<ChildrenRequest>) {
        // They are served one after another: whoever comes next waits. (That of tokio takes 2 KiB for each call.)
        let (requests, receiver) = mpsc::channel(0);
        (Self { requests }, receiver)
    }

    /// Runs one round of sub-handlers; None if the cycle is over.
    pub async fn execute(&self, handlers: Vec<Arc<Handler>>, lifecycle: Option<Lifecycle>) -> Option<ChildrenReply> {
        let (reply, answer) = oneshot::channel();
        self.requests.clone().send(ChildrenRequest { handlers, lifecycle, reply }).await.ok()?;
        answer.await.ok()
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

/// How the login handlers' results are understood.
pub(crate) fn connection_of(result: &Value) -> Result<ConnectionInfo, serde_json::Error> {
    serde_json::from_value(result.clone())
}
