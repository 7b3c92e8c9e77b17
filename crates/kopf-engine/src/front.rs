//! 6. The one port to every front: calls go out, outcomes come back.
//!
//! A front holds the users' functions (in Python, or in Rust). The engine knows them by their
//! declarations only. Everything that crosses is data, except for two opaque slots in which a front
//! keeps its own things: one for the time of a cycle, one for the life of an object.

mod calls;
mod children;
mod live_body;
mod selectors;
mod webhooks;

use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_object::Body;
use kopf_reaction::{FilterQuestion, Handler, HandlerState, Resource, StorageOperation};
use serde_json::Value;

pub use calls::{
    ActivityCall, BackgroundCall, CallReply, CycleContext, FrontSlot, HandlerCall, StorageContent, StorageQuestion,
};
pub use children::{Children, ChildrenReply, ChildrenRequest};
pub use live_body::LiveBody;
pub use selectors::{NoSelectorCallbacks, SelectorCallbacks};
pub(crate) use webhooks::Reviewer;
pub use webhooks::{Admission, Review, WebhookCall, WebhookContext, WebhookReply};

use crate::{FrontError, Poster, Settings, Sink, Vault};

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
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>> {
        drop((context, candidates, states));
        Box::pin(async { Err(FrontFailure::new("the front has no lifecycle functions, but the settings name one")) })
    }

    /// Reads from the storages of the user.
    fn read_storage(
        &self,
        context: Arc<CycleContext>,
        question: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>> {
        drop((context, question));
        Box::pin(async { Err(FrontFailure::new("the front has no storages, but the settings name one")) })
    }

    /// Writes by the storages of the user into the patch of the cycle; the whole patch comes back.
    fn write_storage(
        &self,
        context: Arc<CycleContext>,
        operations: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>> {
        drop((context, operations));
        Box::pin(async { Err(FrontFailure::new("the front has no storages, but the settings name one")) })
    }

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
    fn ping(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// The operator is up and serves.
    fn ready(&self);

    /// The operator has had much to do, and has nothing to do now: a time to give memory back.
    fn on_idle(&self) {}
}

/// What the engine offers to the front, once it is connected.
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
