//! 6. The engine's port to its front-ends, implemented for Python: each request becomes a job in the queue.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use kopf_engine::{
    ActivityCall, Admission, BackgroundCall, CallReply, Configuration, CycleContext, Front, FrontFailure, HandlerCall,
    Record, Services, Severity, Sink, StorageContent, StorageQuestion, WebhookCall, WebhookContext, WebhookReply,
};
use kopf_object::Body;
use kopf_reaction::{CallError, FilterQuestion, Handler, HandlerState, Resource, StorageOperation};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::bridge::Bridge;
use crate::failures::unanswered;
use crate::job::{Candidates, Job, Reply};
use crate::webhooks::Webhooks;

pub(crate) struct PythonFront {
    bridge: Arc<Bridge>,
    /// The effective levels of Python's loggers, by their names.
    levels: RwLock<HashMap<String, i32>>,
    /// What the engine offers between the login and the end.
    services: RwLock<Option<Services>>,
    pub webhooks: Webhooks,
}

impl PythonFront {
    pub(crate) fn new(bridge: Arc<Bridge>, levels: HashMap<String, i32>) -> Self {
        Self { bridge, levels: RwLock::new(levels), services: RwLock::default(), webhooks: Webhooks::default() }
    }

    pub(crate) fn services(&self) -> Option<Services> {
        self.services.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_levels(&self, levels: HashMap<String, i32>) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Enqueues a job and awaits its answer. When the queue is full, the job waits for its place in the future.
    fn request<T: Send + 'static>(
        &self,
        job: impl FnOnce(Reply<T>) -> Job,
        otherwise: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let (sender, receiver) = oneshot::channel();
        match self.bridge.queue.try_put_awaited(job(Reply::new(sender))) {
            Ok(()) => Box::pin(async move { receiver.await.unwrap_or_else(|_| otherwise()) }),
            Err(job) => {
                let bridge = Arc::clone(&self.bridge);
                Box::pin(async move {
                    bridge.queue.put_awaited(job).await;
                    receiver.await.unwrap_or_else(|_| otherwise())
                })
            }
        }
    }
}

impl Sink for PythonFront {
    fn enabled(&self, severity: Severity, target: &'static str) -> bool {
        let levels = self.levels.read().unwrap_or_else(PoisonError::into_inner);
        let mut name = target;
        loop {
            if let Some(limit) = levels.get(name) {
                return python_level(severity) >= *limit;
            }
            match name.rfind('.') {
                Some(dot) => name = &name[..dot],
                None => return severity >= Severity::Info,
            }
        }
    }

    fn emit(&self, record: Record) {
        let is_urgent = record.severity >= Severity::Warning;
        self.bridge.queue.put_log_record(Job::EmitLog(record), is_urgent);
    }
}

impl Front for PythonFront {
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>> {
        self.request(Job::Configure, || Err(unanswered()))
    }

    fn activities(&self) -> BoxFuture<'static, Option<Vec<Arc<Handler>>>> {
        self.request(Job::ListActivities, || None)
    }

    fn call_activity(&self, call: ActivityCall) -> BoxFuture<'static, CallReply> {
        self.request(|reply| Job::CallActivity(call, reply), abandoned)
    }

    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply> {
        let background = call.background.clone();
        let mut answered = self.request(|reply| Job::CallHandler(Box::new(call), reply), abandoned);
        let Some(BackgroundCall { number, mut stops, .. }) = background else { return answered };
        let bridge = Arc::clone(&self.bridge);
        Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    reply = &mut answered => return reply,
                    Ok(()) = stops.changed() => {
                        let reasons = stops.borrow_and_update().bits();
                        bridge.queue.put(Job::StopCall { call_number: number, reasons });
                    }
                }
            }
        })
    }

    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>> {
        self.request(|reply| Job::ComputeInitialDelay(context, handler.index, reply), || Err(unanswered()))
    }

    fn filter(
        &self,
        context: Arc<CycleContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        self.request(|reply| Job::EvaluateFilters(context, questions, reply), || Err(unanswered()))
    }

    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>> {
        self.request(|reply| Job::EvaluateSelector(handler, resource, reply), || Err(unanswered()))
    }

    fn choose(
        &self,
        context: Arc<CycleContext>,
        candidates: Vec<Arc<Handler>>,
        states: Vec<(Arc<str>, HandlerState)>,
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>> {
        self.request(
            |reply| Job::ChooseHandlers(context, Candidates { handlers: candidates, states }, reply),
            || Err(unanswered()),
        )
    }

    fn read_storage(
        &self,
        context: Arc<CycleContext>,
        question: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>> {
        self.request(|reply| Job::ReadStorage(context, question, reply), || Err(unanswered()))
    }

    fn write_storage(
        &self,
        context: Arc<CycleContext>,
        operations: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>> {
        self.request(|reply| Job::WriteStorage(context, operations, reply), || Err(unanswered()))
    }

    fn transform(&self, context: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        self.request(|reply| Job::TransformBody(context, body, reply), || Err(unanswered()))
    }

    fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]) {
        self.bridge.queue.put(Job::Unindex { uid: Arc::clone(uid), ids: ids.to_vec() });
    }

    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookReply> {
        self.request(|reply| Job::CallWebhook(call, reply), WebhookReply::abandoned)
    }

    fn filter_webhook(
        &self,
        context: Arc<WebhookContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        self.request(|reply| Job::EvaluateReviewFilters(context, questions, reply), || Err(unanswered()))
    }

    fn transform_webhook(
        &self,
        context: Arc<WebhookContext>,
        body: Body,
    ) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        self.request(|reply| Job::TransformReviewed(context, body, reply), || Err(unanswered()))
    }

    fn admission(&self, admission: Admission) {
        self.webhooks.set(admission);
        self.bridge.queue.put(Job::ServeWebhooks);
    }

    fn connected(&self, services: Services) {
        *self.services.write().unwrap_or_else(PoisonError::into_inner) = Some(services);
    }

    fn disconnected(&self) {
        let services = self.services.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(services);
        self.webhooks.close();
    }

    fn ping(&self) -> BoxFuture<'static, ()> {
        self.request(Job::Ping, || ())
    }

    fn ready(&self) {
        self.bridge.queue.put(Job::Ready);
    }

    fn on_idle(&self) {
        crate::memory::give_back();
    }
}

/// Nobody has answered the call: the front has cancelled it, or the event loop is gone.
fn abandoned() -> CallReply {
    CallReply { result: Err(CallError::Abandoned), error: None, patch: None, transformations: false }
}

/// The level of Python's `logging`.
pub(crate) const fn python_level(severity: Severity) -> i32 {
    match severity {
        Severity::Debug => 10,
        Severity::Info => 20,
        Severity::Warning => 30,
        Severity::Error => 40,
    }
}
