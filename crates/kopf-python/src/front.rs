//! The port of the engine, turned into jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::future::BoxFuture;
use kopf_engine::{
    ActivityCall, Admission, BackgroundCall, CallReply, Configuration, CycleContext, Front, FrontFailure, HandlerCall,
    Record, Services, Severity, Sink, StorageContent, StorageQuestion, WebhookCall, WebhookContext, WebhookReply,
};
use kopf_object::Body;
use kopf_reaction::{CallError, FilterQuestion, Handler, HandlerState, Resource, StorageOperation};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::failures::unanswered;
use crate::job::{ReplyTo, Work};
use crate::mailbox::Mailbox;
use crate::webhooks::Webhooks;

pub(crate) struct PythonFront {
    mailbox: Arc<Mailbox>,
    /// The effective levels of Python's loggers, by their names.
    levels: RwLock<HashMap<String, i32>>,
    /// What the engine offers between the login and the end.
    services: RwLock<Option<Services>>,
    pub webhooks: Webhooks,
}

impl PythonFront {
    pub fn new(mailbox: Arc<Mailbox>, levels: HashMap<String, i32>) -> Self {
        Self { mailbox, levels: RwLock::new(levels), services: RwLock::default(), webhooks: Webhooks::default() }
    }

    pub fn services(&self) -> Option<Services> {
        self.services.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_levels(&self, levels: HashMap<String, i32>) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Puts a job into the mailbox, and waits for its answer.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(ReplyTo<T>) -> Work,
        otherwise: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let (sender, receiver) = oneshot::channel();
        self.mailbox.put(work(Mutex::new(Some(sender))));
        Box::pin(async move { receiver.await.unwrap_or_else(|_| otherwise()) })
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
        self.mailbox.put(Work::Log(record));
    }
}

impl Front for PythonFront {
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>> {
        self.ask(Work::Configure, || Err(unanswered()))
    }

    fn activities(&self) -> BoxFuture<'static, Option<Vec<Arc<Handler>>>> {
        self.ask(Work::Activities, || None)
    }

    fn call_activity(&self, call: ActivityCall) -> BoxFuture<'static, CallReply> {
        self.ask(|reply| Work::Activity(call, reply), abandoned)
    }

    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply> {
        let background = call.background.clone();
        let mut answered = self.ask(|reply| Work::Call(Box::new(call), reply), abandoned);
        let Some(BackgroundCall { number, mut stops, .. }) = background else { return answered };
        let mailbox = Arc::clone(&self.mailbox);
        Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    reply = &mut answered => return reply,
                    Ok(()) = stops.changed() => mailbox.put(Work::Stop(number, stops.borrow_and_update().bits())),
                }
            }
        })
    }

    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>> {
        self.ask(|reply| Work::Delay(context, handler.index, reply), || Err(unanswered()))
    }

    fn filter(
        &self,
        context: Arc<CycleContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        self.ask(|reply| Work::Filters(context, questions, reply), || Err(unanswered()))
    }

    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>> {
        self.ask(|reply| Work::Select(handler, resource, reply), || Err(unanswered()))
    }

    fn choose(
        &self,
        context: Arc<CycleContext>,
        candidates: Vec<Arc<Handler>>,
        states: Vec<(Arc<str>, HandlerState)>,
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>> {
        self.ask(|reply| Work::Choose(context, candidates, states, reply), || Err(unanswered()))
    }

    fn read_storage(
        &self,
        context: Arc<CycleContext>,
        question: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>> {
        self.ask(|reply| Work::StorageRead(context, question, reply), || Err(unanswered()))
    }

    fn write_storage(
        &self,
        context: Arc<CycleContext>,
        operations: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>> {
        self.ask(|reply| Work::StorageWrite(context, operations, reply), || Err(unanswered()))
    }

    fn transform(&self, context: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        self.ask(|reply| Work::Transform(context, body, reply), || Err(unanswered()))
    }

    fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]) {
        self.mailbox.put(Work::Unindex { uid: Arc::clone(uid), ids: ids.to_vec() });
    }

    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookReply> {
        self.ask(|reply| Work::Webhook(call, reply), WebhookReply::abandoned)
    }

    fn filter_webhook(
        &self,
        context: Arc<WebhookContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        self.ask(|reply| Work::WebhookFilters(context, questions, reply), || Err(unanswered()))
    }

    fn transform_webhook(
        &self,
        context: Arc<WebhookContext>,
        body: Body,
    ) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        self.ask(|reply| Work::WebhookTransform(context, body, reply), || Err(unanswered()))
    }

    fn admission(&self, admission: Admission) {
        self.webhooks.set(admission);
        self.mailbox.put(Work::Admission);
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
        self.ask(Work::Pulse, || ())
    }

    fn ready(&self) {
        self.mailbox.put(Work::Ready);
    }

    fn on_idle(&self) {
        crate::memory::give_back();
    }
}

/// The call was not answered: it was cancelled by the front, or the event loop is gone.
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
