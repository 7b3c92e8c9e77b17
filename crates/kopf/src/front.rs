//! The Rust side of the engine's port: calls come in, the users' functions are called, replies go out.
//!
//! It converts and calls. Every function of the user is called so that its panic is an ordinary
//! error, and its time is limited.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kopf_engine::{
    ActivityCall as EngineActivityCall, Admission, CallReply, Configuration, CycleContext, Front, FrontError,
    FrontFailure, HandlerCall, Level, Record, ServerOptions, Services, Sink, Stop, StorageContent, StorageQuestion,
    WebhookCall, WebhookContext, WebhookReply,
};
use kopf_object::Body;
use kopf_reaction::{CallError, FilterQuestion, Handler, HandlerState, Resource, StopReasons, StorageOperation};
use serde_json::Value;
use tokio::sync::watch;
use tracing::Instrument;

use crate::call::{ActivityCall, Call, Invocation, OperatorParts};
use crate::registry::{AnyFunction, SubhandlerScope};
use crate::{Context, Error, Patch, Result, logging, review};

/// One operator, as the engine sees it.
pub(crate) struct RustFront {
    pub(crate) operator: Arc<OperatorParts>,
    /// The settings and the handlers of objects; final from the beginning.
    pub(crate) configuration: Configuration,
    /// How webhooks are served, if they are.
    pub(crate) webhooks: Option<ServerOptions>,
    /// To end the operator if webhooks cannot be served.
    pub(crate) stop: Stop,
}

impl Sink for RustFront {
    fn enabled(&self, level: Level, target: &'static str) -> bool {
        logging::enabled(level, target)
    }

    fn emit(&self, record: Record) {
        let error = record.error.as_ref().and_then(|error| error.downcast_ref::<Error>());
        let traceback = error.and_then(Error::captured_backtrace);
        let traceback = traceback.map(|backtrace| backtrace as &dyn std::fmt::Display);
        logging::emit(record.level, record.target, &record.message, record.reference.as_deref(), traceback);
    }
}

impl Front for RustFront {
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>> {
        let configuration = self.configuration.clone();
        let asked = configuration.handlers.iter().any(|handler| handler.webhook.is_some());
        let served = self.webhooks.is_some();
        Box::pin(async move {
            if asked && !served {
                return Err(FrontFailure::new("there are handlers of webhooks, but no server: add `.webhooks(…)`"));
            }
            Ok(configuration)
        })
    }

    fn call_activity(&self, call: EngineActivityCall) -> BoxFuture<'static, CallReply> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let span = logging::span(&call.handler.id, None);
            let timeout_seconds = call.handler.timeout.as_ref().map(|timeout| timeout.as_f64() - call.runtime_seconds);
            let work = async move {
                let invocation = Invocation {
                    retry: call.retry,
                    started: call.started,
                    runtime: seconds(call.runtime_seconds),
                    operator: Arc::clone(&operator),
                    handler: call.handler,
                };
                match operator.registry.get(invocation.handler.index).map(|entry| entry.function) {
                    Some(AnyFunction::Activity(function)) => {
                        function(Arc::new(ActivityCall::new(invocation, call.activity))).await
                    }
                    Some(AnyFunction::Object(_)) | None => Err(unknown(&invocation)),
                }
            };
            reply(guarded(work, timeout_seconds).instrument(span).await, None)
        })
    }

    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply> {
        let context = Context::new(Arc::clone(&call.context));
        Box::pin(call_object(Arc::clone(&self.operator), call, context))
    }

    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let context = Context::new(context);
            let callback = operator.registry.get(handler.index).and_then(|entry| entry.callbacks.initial_delay.clone());
            let subject = || format!("the initial delay of {} for {}", handler.title(), context.title());
            let asked = || callback.map(|callback| callback(&context));
            let delay = without_panic(asked, subject)?;
            Ok(delay.ok_or_else(|| FrontFailure::new(format!("{} is not known", subject())))?.as_secs_f64())
        })
    }

    fn filter(
        &self,
        context: Arc<CycleContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move { answers(&operator, &Context::new(context), &questions) })
    }

    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let callbacks = operator.registry.get(handler).map(|entry| entry.callbacks);
            let asked =
                || callbacks.and_then(|callbacks| callbacks.resource.as_ref().map(|callback| callback(&resource)));
            let subject = || format!("the selector of a handler for {resource}");
            without_panic(asked, subject)?.ok_or_else(|| FrontFailure::new(format!("{} is not known", subject())))
        })
    }

    fn choose(
        &self,
        _: Arc<CycleContext>,
        _: Vec<Arc<Handler>>,
        _: Vec<(Arc<str>, HandlerState)>,
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>> {
        Box::pin(async { Err(unsupported("Lifecycle::Front")) })
    }

    fn read_storage(
        &self,
        _: Arc<CycleContext>,
        _: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>> {
        Box::pin(async { Err(unsupported("a storage of the front")) })
    }

    fn write_storage(
        &self,
        _: Arc<CycleContext>,
        _: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>> {
        Box::pin(async { Err(unsupported("a storage of the front")) })
    }

    fn transform(&self, context: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        Box::pin(async move { transformed(&Context::new(context), &body) })
    }

    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookReply> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let context = review::context_of(&call.context);
            let warnings = context.reviewed().map(|reviewed| reviewed.warnings.clone()).unwrap_or_default();
            let (children, _) = kopf_engine::Children::channel();
            let (old, new, diff) = (&call.context.old, &call.context.new, &call.context.diff);
            let change = Some((old.clone(), new.clone(), diff.clone()));
            let call = HandlerCall {
                handler: call.handler,
                context: context.cycle(),
                retry: 0,
                started: call.started,
                runtime_seconds: 0.0,
                timeout_seconds: None,
                change,
                children,
                background: None,
            };
            WebhookReply { call: call_object(operator, call, context).await, warnings: warnings.texts() }
        })
    }

    fn filter_webhook(
        &self,
        context: Arc<WebhookContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move { answers(&operator, &review::context_of(&context), &questions) })
    }

    fn transform_webhook(
        &self,
        context: Arc<WebhookContext>,
        body: Body,
    ) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        Box::pin(async move { transformed(&review::context_of(&context), &body) })
    }

    fn admission(&self, admission: Admission) {
        let Some(options) = self.webhooks.clone() else { return };
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let announcing = admission.clone();
            let serving = kopf_engine::serve_webhooks(&admission, options, move |client_config| {
                announcing.announce(client_config)
            });
            tokio::select! {
                ended = serving => if let Err(error) = ended {
                    tracing::error!(target: "kopf.engine", "Webhooks cannot be served: {error}");
                    stop.request(&error.to_string());
                },
                () = admission.closed() => {}
            }
        });
    }

    fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]) {
        self.operator.indexes.unindex(uid, ids);
    }

    fn connected(&self, services: Services) {
        self.operator.connection.establish(services);
    }

    fn disconnected(&self) {
        self.operator.connection.end();
    }

    fn ready(&self) {
        tracing::debug!(target: "kopf.engine", "The operator is ready.");
    }
}

/// Calls the function of a handler of objects.
async fn call_object(operator: Arc<OperatorParts>, call: HandlerCall, context: Context) -> CallReply {
    let patch = context.patch();
    let span = logging::span(&call.handler.id, Some(context.reference()));
    let stops = call.background.as_ref().map(|background| background.stops.clone());
    let work = async move {
        let invocation = Invocation {
            retry: call.retry,
            started: call.started,
            runtime: seconds(call.runtime_seconds),
            operator: Arc::clone(&operator),
            handler: call.handler,
        };
        let Some(AnyFunction::Object(function)) =
            operator.registry.get(invocation.handler.index).map(|entry| entry.function)
        else {
            return Err(unknown(&invocation));
        };
        let scope = SubhandlerScope::new(call.children, operator);
        let call = Call::new(invocation, context, call.change, scope.clone(), call.background);
        let result = function(Arc::new(call)).await?;
        scope.execute(None).await?;
        Ok(result)
    };
    let guarded = guarded(work, call.timeout_seconds).instrument(span);
    let ending = tokio::select! {
        biased;
        ending = guarded => ending,
        () = cancelled(stops) => Ending::Cancelled,
    };
    reply(ending, Some(&patch))
}

/// Asks the callbacks of filters.
fn answers(
    operator: &OperatorParts,
    context: &Context,
    questions: &[FilterQuestion],
) -> Result<Vec<bool>, FrontFailure> {
    let answer = |question: &FilterQuestion| {
        let entry = operator.registry.get(question.handler);
        let asked = || entry.and_then(|entry| entry.callbacks.answer(question, context));
        let subject = || format!("the filter {:?} of a handler for {}", question.slot, context.title());
        without_panic(asked, subject)?.ok_or_else(|| FrontFailure::new(format!("{} is not known", subject())))
    };
    questions.iter().map(answer).collect()
}

/// Applies the transformations of the patch.
fn transformed(context: &Context, body: &Body) -> Result<Value, FrontFailure> {
    let mut value = body.value().clone();
    let patch = context.patch();
    let subject = || format!("a transformation of {}", context.title());
    without_panic(|| patch.apply_transformations(&mut value), subject)?;
    Ok(value)
}

/// What a call came to, before it is put into the words of the engine.
enum Ending {
    Returned(Result<Option<Value>>),
    TimedOut,
    /// A daemon that did not exit by itself.
    Cancelled,
}

/// Waits until a daemon or a timer has to be cancelled; other handlers never are.
async fn cancelled(stops: Option<watch::Receiver<StopReasons>>) {
    if let Some(mut stops) = stops
        && stops.wait_for(|reasons| reasons.contains(StopReasons::DAEMON_CANCELLED)).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Runs users' code with limited time, and with panics as errors.
async fn guarded(work: impl Future<Output = Result<Option<Value>>>, timeout_seconds: Option<f64>) -> Ending {
    let caught = AssertUnwindSafe(work).catch_unwind();
    let outcome = match timeout_seconds {
        None => caught.await,
        Some(limit) => match tokio::time::timeout(seconds(limit), caught).await {
            Ok(outcome) => outcome,
            Err(_) => return Ending::TimedOut,
        },
    };
    Ending::Returned(outcome.unwrap_or_else(|panic| Err(Error::arbitrary(panic_text(panic.as_ref())))))
}

fn reply(ending: Ending, patch: Option<&Patch>) -> CallReply {
    let (result, error) = match ending {
        Ending::TimedOut => (Err(CallError::TimedOut), None),
        Ending::Cancelled => (Err(CallError::Abandoned), None),
        Ending::Returned(Ok(result)) => (Ok(result), None),
        Ending::Returned(Err(error)) => (Err(error.to_call_error()), Some(Arc::new(error) as FrontError)),
    };
    let changes = patch.map(Patch::changes).filter(|changes| changes.as_object().is_some_and(|map| !map.is_empty()));
    CallReply { result, error, patch: changes, transformations: patch.is_some_and(Patch::has_transformations) }
}

/// Runs synchronous code of the user.
fn without_panic<T>(work: impl FnOnce() -> T, subject: impl Fn() -> String) -> Result<T, FrontFailure> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| FrontFailure::new(format!("{} has failed: {}", subject(), panic_text(panic.as_ref()))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}

fn unknown(invocation: &Invocation) -> Error {
    Error::permanent(format!("there is no function for handler '{}'", invocation.id()))
}

fn unsupported(what: &str) -> FrontFailure {
    FrontFailure::new(format!("the settings name {what}, which Rust operators do not have"))
}

/// Out of range means none, or for ever.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(if number > 0.0 { Duration::MAX } else { Duration::ZERO })
}

#[cfg(test)]
mod tests;
