//! The Rust front: it answers the engine's requests by calling the users' functions.
//!
//! It converts and calls. A panic of a user's function is an ordinary error of the handler, and its time is limited.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kopf_engine::{
    ActivityCall as EngineActivityCall, Admission, CallReply, Configuration, CycleContext, Front, FrontError,
    FrontFailure, HandlerCall, Record, ServerOptions, Services, Severity, Sink, Stop, WebhookCall, WebhookContext,
    WebhookReply,
};
use kopf_object::Body;
use kopf_reaction::{CallError, FilterQuestion, Handler, Resource, StopReasons};
use serde_json::Value;
use tokio::sync::watch;
use tracing::Instrument;

use crate::call::registry::{AnyFunction, SubhandlerScope};
use crate::call::{
    ActivityCall, AdmissionCall, BackgroundCall, Change, ChangeCall, ConversionCall, EventCall, IndexCall, Invocation,
    ObjectParts, OperatorParts,
};
use crate::context::Context;
use crate::context::patch::Patch;
use crate::context::review::{ReviewRequest, ReviewState};
use crate::error::{Error, Result};
use crate::logging;

/// One operator, as the engine sees it.
pub(crate) struct RustFront {
    pub(crate) operator: Arc<OperatorParts>,
    /// The settings and the handlers of objects.
    pub(crate) configuration: Configuration,
    /// The server of webhooks, if there is one.
    pub(crate) webhooks: Option<ServerOptions>,
    /// Stops the operator if webhooks cannot be served.
    pub(crate) stop: Stop,
}

impl Sink for RustFront {
    fn enabled(&self, level: Severity, target: &'static str) -> bool {
        logging::enabled(level, target)
    }

    fn emit(&self, record: Record) {
        let error = record.error.as_ref().and_then(|error| error.downcast_ref::<Error>());
        let traceback = error.and_then(Error::captured_backtrace);
        let traceback = traceback.map(|backtrace| backtrace as &dyn std::fmt::Display);
        logging::emit(record.severity, record.target, &record.message, record.reference.as_deref(), traceback);
    }
}

impl Front for RustFront {
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>> {
        let configuration = self.configuration.clone();
        let asked = configuration.handlers.iter().any(|handler| handler.webhook.is_some());
        let served = self.webhooks.is_some();
        Box::pin(async move {
            if asked && !served {
                let text = "there are validating, mutating or converting handlers, but no server: add `.webhooks(…)`";
                return Err(FrontFailure::new(text));
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
                match operator.registry.get(invocation.handler.index).map(|registered| registered.function) {
                    Some(AnyFunction::Activity(function)) => {
                        function(Arc::new(ActivityCall::new(invocation, call.activity))).await
                    }
                    _ => Err(unknown(&invocation)),
                }
            };
            reply(guarded(work, timeout_seconds).instrument(span).await, None)
        })
    }

    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply> {
        Box::pin(call_object(Arc::clone(&self.operator), call))
    }

    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let context = Context::of_cycle(context);
            let callback = operator.registry.get(handler.index).and_then(|known| known.callbacks.initial_delay.clone());
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
        Box::pin(async move { answers(&operator, &Context::of_cycle(context), &questions) })
    }

    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move {
            let callbacks = operator.registry.get(handler).map(|known| known.callbacks);
            let asked =
                || callbacks.and_then(|callbacks| callbacks.resource.as_ref().map(|callback| callback(&resource)));
            let subject = || format!("the selector of a handler for {resource}");
            without_panic(asked, subject)?.ok_or_else(|| FrontFailure::new(format!("{} is not known", subject())))
        })
    }

    fn transform(&self, context: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        Box::pin(async move { transformed(&Context::of_cycle(context), &body) })
    }

    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookReply> {
        Box::pin(call_webhook(Arc::clone(&self.operator), call))
    }

    fn filter_webhook(
        &self,
        context: Arc<WebhookContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        let operator = Arc::clone(&self.operator);
        Box::pin(async move { answers(&operator, &Context::of_review(context), &questions) })
    }

    fn transform_webhook(
        &self,
        context: Arc<WebhookContext>,
        body: Body,
    ) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        Box::pin(async move { transformed(&Context::of_review(context), &body) })
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
async fn call_object(operator: Arc<OperatorParts>, call: HandlerCall) -> CallReply {
    let context = Context::of_cycle(call.context);
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
        let Some(registered) = operator.registry.get(invocation.handler.index) else {
            return Err(unknown(&invocation));
        };
        let object = ObjectParts { invocation, context };
        match registered.function {
            AnyFunction::Change(function) => {
                let (Some(reason), Some((old, new, diff))) = (object.context.reason(), call.change) else {
                    return Err(incomplete(&object, "its change"));
                };
                let scope = SubhandlerScope::new(call.children, operator);
                let change = Change { reason, old, new, diff };
                let result = function(Arc::new(ChangeCall::new(object, change, scope.clone()))).await?;
                scope.execute(None).await?;
                Ok(result)
            }
            AnyFunction::Event(function) => {
                let Some(event_type) = object.context.event_type() else {
                    return Err(incomplete(&object, "its event"));
                };
                function(Arc::new(EventCall::new(object, event_type))).await
            }
            AnyFunction::Index(function) => function(Arc::new(IndexCall::new(object))).await,
            AnyFunction::Background(function) => {
                let Some(background) = call.background else { return Err(incomplete(&object, "its task")) };
                function(Arc::new(BackgroundCall::new(object, background))).await
            }
            AnyFunction::Activity(_) | AnyFunction::Admission(_) | AnyFunction::Conversion(_) => {
                Err(unknown(&object.invocation))
            }
        }
    };
    let guarded = guarded(work, call.timeout_seconds).instrument(span);
    let ending = tokio::select! {
        biased;
        ending = guarded => ending,
        () = cancelled(stops) => Ending::Cancelled,
    };
    reply(ending, Some(&patch))
}

/// Calls the function of a validating, mutating or converting handler.
async fn call_webhook(operator: Arc<OperatorParts>, call: WebhookCall) -> WebhookReply {
    let state = ReviewState::of(&call.context);
    let context = Context::of_review(Arc::clone(&call.context));
    let span = logging::span(&call.handler.id, Some(context.reference()));
    let review = Arc::clone(&state);
    let work = async move {
        let invocation = Invocation {
            retry: 0,
            started: call.started,
            runtime: Duration::ZERO,
            operator: Arc::clone(&operator),
            handler: call.handler,
        };
        let Some(registered) = operator.registry.get(invocation.handler.index) else {
            return Err(unknown(&invocation));
        };
        let object = ObjectParts { invocation, context };
        match (registered.function, &review.request) {
            (AnyFunction::Admission(function), ReviewRequest::Admission(request)) => {
                let (request, warnings) = (Arc::clone(request), review.warnings.clone());
                function(Arc::new(AdmissionCall::new(object, call.context, request, warnings))).await
            }
            (AnyFunction::Conversion(function), ReviewRequest::Conversion(request)) => {
                function(Arc::new(ConversionCall::new(object, request.clone()))).await
            }
            (AnyFunction::Admission(_) | AnyFunction::Conversion(_), ReviewRequest::Unreadable(error)) => {
                Err(Error::permanent(format!("the review cannot be read: {error}")))
            }
            _ => Err(unknown(&object.invocation)),
        }
    };
    let ending = guarded(work, None).instrument(span).await;
    WebhookReply { call: reply(ending, Some(&state.patch)), warnings: state.warnings.messages() }
}

/// Calls the callbacks of filters.
fn answers(
    operator: &OperatorParts,
    context: &Context,
    questions: &[FilterQuestion],
) -> Result<Vec<bool>, FrontFailure> {
    let answer = |question: &FilterQuestion| {
        let registered = operator.registry.get(question.handler);
        let asked = || registered.and_then(|registered| registered.callbacks.answer(question, context));
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

/// How a call ended, before it is converted for the engine.
enum Ending {
    Returned(Result<Option<Value>>),
    TimedOut,
    /// The engine cancelled a daemon that did not exit.
    Cancelled,
}

/// Waits until the engine cancels a daemon or a timer; other handlers are never cancelled.
async fn cancelled(stops: Option<watch::Receiver<StopReasons>>) {
    if let Some(mut stops) = stops
        && stops.wait_for(|reasons| reasons.contains(StopReasons::DAEMON_CANCELLED)).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Runs a user's function with a time limit, and with panics as errors.
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

/// Runs a user's callback, with a panic as a failure.
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

/// The engine sends every call with what its trigger needs.
fn incomplete(object: &ObjectParts, what: &str) -> Error {
    let (id, title) = (object.invocation.id(), object.context.title());
    Error::permanent(format!("handler '{id}' was called for {title} without {what}"))
}

/// Numbers that are no durations are zero, or for ever.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(if number > 0.0 { Duration::MAX } else { Duration::ZERO })
}

#[cfg(test)]
mod tests;
