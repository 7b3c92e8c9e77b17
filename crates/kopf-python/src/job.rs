//! One thing that the engine asks of the front, and the way of the answer back.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{
    ActivityCall, CallReply, Configuration, FrontFailure, HandlerCall, Record, StorageContent, StorageQuestion,
    WebhookCall, WebhookContext, WebhookReply,
};
use kopf_engine::{Children, CycleContext};
use kopf_object::Body;
use kopf_reaction::{
    Activity, CallError, FilterQuestion, FilterSlot, Handler, HandlerState, Lifecycle, Resource, StorageOperation,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::cycle::{Cycle, Live, Resources, json_bytes};
use crate::failures::{failure, invalid_json, keep, misuse, raised, texts};
use crate::mailbox::Mailbox;
use crate::review::Review;

/// The kinds of jobs, as the front knows them.
pub(crate) const KINDS: &[(&str, u8)] = &[
    ("LOG", 0),
    ("ACTIVITY", 1),
    ("CONFIGURE", 2),
    ("LOGIN", 3),
    ("CALL", 4),
    ("FILTERS", 5),
    ("CHOOSE", 6),
    ("STORAGE_READ", 7),
    ("STORAGE_WRITE", 8),
    ("TRANSFORM", 9),
    ("UNINDEX", 10),
    ("SUB_DONE", 11),
    ("READY", 12),
    ("FINISHED", 13),
    ("ADMISSION", 14),
    ("SERVED", 15),
    ("REVIEWED", 16),
    ("PULSE", 17),
    ("STOP", 18),
    ("DELAY", 19),
    ("ACTIVITIES", 20),
];

/// Where the answer of type `T` goes.
pub(crate) type ReplyTo<T> = Mutex<Option<oneshot::Sender<T>>>;

/// The jobs.
pub(crate) enum Work {
    Log(Record),
    Activity(ActivityCall, ReplyTo<CallReply>),
    Configure(ReplyTo<Result<Configuration, FrontFailure>>),
    /// Which handlers of activities there are by now.
    Activities(ReplyTo<Option<Vec<Arc<Handler>>>>),
    Call(Box<HandlerCall>, ReplyTo<CallReply>),
    /// A daemon or a timer is to stop: the number of its call, and the reasons as bits.
    Stop(u64, u8),
    /// How long a daemon or a timer waits before its first call.
    Delay(Arc<CycleContext>, usize, ReplyTo<Result<f64, FrontFailure>>),
    Filters(Arc<CycleContext>, Vec<FilterQuestion>, ReplyTo<Result<Vec<bool>, FrontFailure>>),
    Select(usize, Arc<Resource>, ReplyTo<Result<bool, FrontFailure>>),
    Choose(
        Arc<CycleContext>,
        Vec<Arc<Handler>>,
        Vec<(Arc<str>, HandlerState)>,
        ReplyTo<Result<Vec<usize>, FrontFailure>>,
    ),
    StorageRead(Arc<CycleContext>, StorageQuestion, ReplyTo<Result<StorageContent, FrontFailure>>),
    StorageWrite(Arc<CycleContext>, Vec<StorageOperation>, ReplyTo<Result<Option<Value>, FrontFailure>>),
    Transform(Arc<CycleContext>, Body, ReplyTo<Result<Value, FrontFailure>>),
    Unindex {
        uid: Arc<str>,
        ids: Vec<Arc<str>>,
    },
    ChildrenDone {
        token: Py<PyAny>,
        done: bool,
        delay: Option<f64>,
    },
    Webhook(WebhookCall, ReplyTo<WebhookReply>),
    WebhookFilters(Arc<WebhookContext>, Vec<FilterQuestion>, ReplyTo<Result<Vec<bool>, FrontFailure>>),
    WebhookTransform(Arc<WebhookContext>, Body, ReplyTo<Result<Value, FrontFailure>>),
    /// Webhooks may be served from now on.
    Admission,
    /// The engine's server is found there, or has failed.
    Served {
        number: u64,
        outcome: Result<Value, String>,
    },
    /// The answer to a request that the front has received.
    Reviewed {
        token: Py<PyAny>,
        outcome: Value,
    },
    /// Whether the event loop is alive.
    Pulse(ReplyTo<()>),
    Ready,
    Finished(Option<String>),
}

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Job {
    work: Work,
    /// Made when it is first asked for, and then the same for everybody.
    cycle: Mutex<Option<Py<Cycle>>>,
    resources: Arc<Resources>,
    mailbox: Arc<Mailbox>,
    runtime: tokio::runtime::Handle,
}

impl Job {
    pub fn of(work: Work, resources: Arc<Resources>, mailbox: Arc<Mailbox>, runtime: tokio::runtime::Handle) -> Self {
        Self { work, cycle: Mutex::new(None), resources, mailbox, runtime }
    }

    fn context(&self) -> Option<&Arc<CycleContext>> {
        match &self.work {
            Work::Call(call, _) => Some(&call.context),
            Work::Filters(context, ..)
            | Work::Choose(context, ..)
            | Work::StorageRead(context, ..)
            | Work::StorageWrite(context, ..)
            | Work::Delay(context, ..)
            | Work::Transform(context, ..) => Some(context),
            _ => None,
        }
    }

    fn reply(&self, call: CallReply, warnings: Vec<String>) -> PyResult<()> {
        match &self.work {
            Work::Call(_, reply) | Work::Activity(_, reply) => send(reply, call),
            Work::Webhook(_, reply) => send(reply, WebhookReply { call, warnings }),
            _ => return Err(misuse("only calls of handlers are answered so")),
        }
        Ok(())
    }

    /// There will be no answer.
    fn give_up(&self) -> PyResult<()> {
        match &self.work {
            Work::Call(_, reply) | Work::Activity(_, reply) => forget(reply),
            Work::Webhook(_, reply) => forget(reply),
            _ => return Err(misuse("only calls of handlers are given up")),
        }
        Ok(())
    }
}

#[pymethods]
impl Job {
    #[getter]
    fn kind(&self) -> u8 {
        match &self.work {
            Work::Log(_) => 0,
            Work::Activity(..) => 1,
            Work::Configure(_) => 2,
            Work::Call(..) | Work::Webhook(..) => 4,
            Work::Filters(..) | Work::Select(..) | Work::WebhookFilters(..) => 5,
            Work::Choose(..) => 6,
            Work::StorageRead(..) => 7,
            Work::StorageWrite(..) => 8,
            Work::Transform(..) | Work::WebhookTransform(..) => 9,
            Work::Unindex { .. } => 10,
            Work::ChildrenDone { .. } => 11,
            Work::Ready => 12,
            Work::Finished(_) => 13,
            Work::Admission => 14,
            Work::Served { .. } => 15,
            Work::Reviewed { .. } => 16,
            Work::Pulse(_) => 17,
            Work::Stop(..) => 18,
            Work::Delay(..) => 19,
            Work::Activities(_) => 20,
        }
    }

    #[getter]
    fn message(&self) -> Option<&str> {
        match &self.work {
            Work::Log(record) => Some(&record.message),
            Work::Finished(message) => message.as_deref(),
            Work::Served { outcome: Err(message), .. } => Some(message),
            _ => None,
        }
    }

    #[getter]
    fn level(&self) -> i32 {
        if let Work::Log(record) = &self.work { crate::front::python_level(record.severity) } else { 0 }
    }

    #[getter]
    fn logger(&self) -> &str {
        if let Work::Log(record) = &self.work { record.target } else { "kopf" }
    }

    #[getter]
    fn reference(&self) -> Option<String> {
        let Work::Log(record) = &self.work else { return None };
        record.reference.as_ref().map(|reference| reference.to_json().to_string())
    }

    #[getter]
    fn local(&self) -> bool {
        if let Work::Log(record) = &self.work { record.local } else { true }
    }

    #[getter]
    fn error(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        let Work::Log(record) = &self.work else { return None };
        raised(record.error.as_ref()).map(|error| error.clone_ref(python))
    }

    #[getter]
    fn handler(&self) -> usize {
        match &self.work {
            Work::Activity(call, _) => call.handler.index,
            Work::Call(call, _) => call.handler.index,
            Work::Webhook(call, _) => call.handler.index,
            Work::Select(handler, ..) => *handler,
            Work::Delay(_, handler, _) => *handler,
            _ => 0,
        }
    }

    #[getter]
    fn handlers(&self) -> Vec<usize> {
        let Work::Choose(_, candidates, ..) = &self.work else { return Vec::new() };
        candidates.iter().map(|handler| handler.index).collect()
    }

    #[getter]
    fn state(&self) -> Option<String> {
        let Work::Choose(_, _, states, _) = &self.work else { return None };
        let states: Map<String, Value> = states.iter().map(|(id, state)| (id.to_string(), state.to_record())).collect();
        Some(Value::Object(states).to_string())
    }

    #[getter]
    fn activity(&self) -> Option<&'static str> {
        let Work::Activity(call, _) = &self.work else { return None };
        Some(match call.activity {
            Activity::Startup => "startup",
            Activity::Cleanup => "cleanup",
            Activity::Authentication => "authentication",
            Activity::Probe => "probe",
        })
    }

    #[getter]
    fn cycle(&self, python: Python<'_>) -> PyResult<Option<Py<Cycle>>> {
        let Some(context) = self.context() else { return Ok(None) };
        let mut made = self.cycle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cycle) = &*made {
            return Ok(Some(cycle.clone_ref(python)));
        }
        let cycle = Cycle { context: Arc::clone(context), resources: Arc::clone(&self.resources) };
        let cycle = Py::new(python, cycle)?;
        *made = Some(cycle.clone_ref(python));
        Ok(Some(cycle))
    }

    #[getter]
    fn retry(&self) -> u32 {
        match &self.work {
            Work::Activity(call, _) => call.retry,
            Work::Call(call, _) => call.retry,
            _ => 0,
        }
    }

    #[getter]
    fn started(&self) -> f64 {
        match &self.work {
            Work::Activity(call, _) => call.started.as_microsecond() as f64 / 1e6,
            Work::Call(call, _) => call.started.as_microsecond() as f64 / 1e6,
            Work::Webhook(call, _) => call.started.as_microsecond() as f64 / 1e6,
            _ => 0.0,
        }
    }

    #[getter]
    fn runtime(&self) -> f64 {
        match &self.work {
            Work::Activity(call, _) => call.runtime_seconds,
            Work::Call(call, _) => call.runtime_seconds,
            _ => 0.0,
        }
    }

    #[getter]
    fn timeout(&self) -> Option<f64> {
        match &self.work {
            Work::Call(call, _) => call.timeout_seconds,
            Work::Activity(call, _) => {
                call.handler.timeout.as_ref().map(|timeout| timeout.as_f64() - call.runtime_seconds)
            }
            _ => None,
        }
    }

    /// The number of a call in the background, by which it is told to stop.
    #[getter]
    fn call_number(&self) -> Option<u64> {
        match &self.work {
            Work::Call(call, _) => call.background.as_ref().map(|background| background.number),
            Work::Stop(number, _) => Some(*number),
            _ => None,
        }
    }

    #[getter]
    fn reasons(&self) -> u8 {
        if let Work::Stop(_, reasons) = &self.work { *reasons } else { 0 }
    }

    /// The newest state of the object of a call in the background.
    #[getter]
    fn live(&self) -> Option<Live> {
        let Work::Call(call, _) = &self.work else { return None };
        call.background.as_ref().map(|background| Live { body: Arc::clone(&background.live) })
    }

    #[getter]
    fn old<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let Work::Call(call, _) = &self.work else { return None };
        json_bytes(python, call.change.as_ref()?.0.as_ref())
    }

    #[getter(new)]
    fn new_essence<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let Work::Call(call, _) = &self.work else { return None };
        json_bytes(python, call.change.as_ref()?.1.as_ref())
    }

    #[getter]
    fn diff<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let Work::Call(call, _) = &self.work else { return None };
        json_bytes(python, Some(&call.change.as_ref()?.2.to_json()))
    }

    #[getter]
    fn questions<'py>(&self, python: Python<'py>) -> Vec<(usize, String, Option<Bound<'py, PyBytes>>)> {
        match &self.work {
            Work::Filters(_, questions, _) | Work::WebhookFilters(_, questions, _) => questions
                .iter()
                .map(|question| {
                    (question.handler, slot_name(&question.slot), json_bytes(python, question.value.as_ref()))
                })
                .collect(),
            Work::Select(handler, resource, _) => {
                let value = json!(**resource);
                vec![(*handler, "selector".to_owned(), json_bytes(python, Some(&value)))]
            }
            _ => Vec::new(),
        }
    }

    #[getter]
    fn operations(&self) -> Option<String> {
        match &self.work {
            Work::StorageRead(_, question, _) => Some(
                json!({
                    "ids": question.ids,
                    "extra_fields": question.extra_fields,
                    "progress": question.progress,
                    "diffbase": question.diffbase,
                })
                .to_string(),
            ),
            Work::StorageWrite(_, operations, _) => Some(json!(operations).to_string()),
            _ => None,
        }
    }

    #[getter]
    fn body<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let (Work::Transform(_, body, _) | Work::WebhookTransform(_, body, _)) = &self.work else { return None };
        Some(PyBytes::new(python, body.raw()))
    }

    #[getter]
    fn uid(&self) -> &str {
        if let Work::Unindex { uid, .. } = &self.work { uid } else { "" }
    }

    #[getter]
    fn ids(&self) -> Vec<&str> {
        let Work::Unindex { ids, .. } = &self.work else { return Vec::new() };
        ids.iter().map(|id| &**id).collect()
    }

    #[getter]
    fn token(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        match &self.work {
            Work::ChildrenDone { token, .. } | Work::Reviewed { token, .. } => Some(token.clone_ref(python)),
            _ => None,
        }
    }

    /// The number of the server that it is about.
    #[getter]
    fn number(&self) -> u64 {
        if let Work::Served { number, .. } = &self.work { *number } else { 0 }
    }

    /// The address of the server, or the answer to a review.
    #[getter]
    fn content(&self) -> Option<String> {
        match &self.work {
            Work::Served { outcome: Ok(content), .. } | Work::Reviewed { outcome: content, .. } => {
                Some(content.to_string())
            }
            _ => None,
        }
    }

    #[getter]
    fn review(&self, python: Python<'_>) -> PyResult<Option<Py<Review>>> {
        let context = match &self.work {
            Work::Webhook(call, _) => &call.context,
            Work::WebhookFilters(context, ..) | Work::WebhookTransform(context, ..) => context,
            _ => return Ok(None),
        };
        let review = Review { context: Arc::clone(context), resources: Arc::clone(&self.resources) };
        Py::new(python, review).map(Some)
    }

    #[getter]
    fn done(&self) -> bool {
        matches!(&self.work, Work::ChildrenDone { done: true, .. })
    }

    #[getter]
    fn delay(&self) -> Option<f64> {
        if let Work::ChildrenDone { delay, .. } = &self.work { *delay } else { None }
    }

    #[pyo3(signature = (value, /))]
    fn answer(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match &self.work {
            Work::Configure(reply) => {
                let text: String = value.extract()?;
                let declared: Declared = serde_json::from_str(&text).map_err(invalid_json)?;
                send(reply, Ok(declared.into()));
            }
            Work::Activities(reply) => {
                let text: String = value.extract()?;
                send(reply, Some(serde_json::from_str(&text).map_err(invalid_json)?));
            }
            Work::Activity(_, reply) => {
                let result = optional_json(value)?;
                send(reply, CallReply { result: Ok(result), error: None, patch: None, transformations: false });
            }
            Work::Filters(_, _, reply) | Work::WebhookFilters(_, _, reply) => send(reply, Ok(value.extract()?)),
            Work::Delay(_, _, reply) => send(reply, Ok(value.extract()?)),
            Work::Select(_, _, reply) => {
                let answers: Vec<bool> = value.extract()?;
                send(reply, Ok(answers.first().copied().unwrap_or_default()));
            }
            Work::Choose(_, _, _, reply) => send(reply, Ok(value.extract()?)),
            Work::StorageRead(_, _, reply) => {
                let text: String = value.extract()?;
                let content: Content = serde_json::from_str(&text).map_err(invalid_json)?;
                send(reply, Ok(content.into()));
            }
            Work::StorageWrite(_, _, reply) => send(reply, Ok(optional_json(value)?)),
            Work::Transform(_, body, reply) | Work::WebhookTransform(_, body, reply) => {
                send(reply, Ok(optional_json(value)?.unwrap_or_else(|| body.value().clone())));
            }
            Work::Pulse(reply) => send(reply, ()),
            Work::Call(..) | Work::Webhook(..) => {
                return Err(misuse("calls are answered by answer_call() or fail_call()"));
            }
            Work::Log(_)
            | Work::Unindex { .. }
            | Work::Stop(..)
            | Work::ChildrenDone { .. }
            | Work::Admission
            | Work::Served { .. }
            | Work::Reviewed { .. }
            | Work::Ready
            | Work::Finished(_) => {}
        }
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        match &self.work {
            Work::Configure(reply) => send(reply, Err(failure(error))),
            Work::Activities(reply) => send(reply, None),
            Work::Filters(_, _, reply) | Work::WebhookFilters(_, _, reply) => send(reply, Err(failure(error))),
            Work::Delay(_, _, reply) => send(reply, Err(failure(error))),
            Work::Select(_, _, reply) => send(reply, Err(failure(error))),
            Work::Choose(_, _, _, reply) => send(reply, Err(failure(error))),
            Work::StorageRead(_, _, reply) => send(reply, Err(failure(error))),
            Work::StorageWrite(_, _, reply) => send(reply, Err(failure(error))),
            Work::Pulse(reply) => send(reply, ()),
            Work::Transform(_, _, reply) | Work::WebhookTransform(_, _, reply) => send(reply, Err(failure(error))),
            Work::Activity(..) | Work::Call(..) | Work::Webhook(..) => {
                let (message, display) = texts(error);
                self.reply(
                    CallReply {
                        result: Err(CallError::Arbitrary { message, display }),
                        error: Some(keep(error.clone().unbind())),
                        patch: None,
                        transformations: false,
                    },
                    Vec::new(),
                )?;
            }
            Work::Log(_)
            | Work::Unindex { .. }
            | Work::Stop(..)
            | Work::ChildrenDone { .. }
            | Work::Admission
            | Work::Served { .. }
            | Work::Reviewed { .. }
            | Work::Ready
            | Work::Finished(_) => {}
        }
        Ok(())
    }

    #[pyo3(signature = (result, patch, transformations, warnings = Vec::new()))]
    fn answer_call(
        &self,
        result: Option<&str>,
        patch: Option<&str>,
        transformations: bool,
        warnings: Vec<String>,
    ) -> PyResult<()> {
        let parse = |text: Option<&str>| text.map(serde_json::from_str).transpose().map_err(invalid_json);
        let reply = CallReply { result: Ok(parse(result)?), error: None, patch: parse(patch)?, transformations };
        self.reply(reply, warnings)
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (kind, message, display, delay, error, patch, transformations, warnings = Vec::new(), code = None))]
    fn fail_call(
        &self,
        kind: &str,
        message: String,
        display: String,
        delay: Option<f64>,
        error: Py<PyAny>,
        patch: Option<&str>,
        transformations: bool,
        warnings: Vec<String>,
        code: Option<u16>,
    ) -> PyResult<()> {
        let call_error = match kind {
            "temporary" => CallError::Temporary { message, display, delay },
            "admission" => CallError::Denied { message, display, code },
            "permanent" => CallError::Permanent { message, display },
            "timeout" if message.is_empty() => CallError::TimedOut,
            "timeout" | "retries" => CallError::Exhausted { message },
            "children" => CallError::ChildrenRetry { delay },
            "arbitrary" => CallError::Arbitrary { message, display },
            "cancelled" => {
                // Not an outcome of the handler: without an answer, the cycle is given up.
                return self.give_up();
            }
            other => return Err(misuse(&format!("unknown kind of errors: {other}"))),
        };
        let patch = patch.map(serde_json::from_str).transpose().map_err(invalid_json)?;
        let reply = CallReply { result: Err(call_error), error: Some(keep(error)), patch, transformations };
        self.reply(reply, warnings)
    }

    #[pyo3(signature = (handlers, lifecycle, token, /))]
    fn execute(&self, handlers: &str, lifecycle: Option<&str>, token: Py<PyAny>) -> PyResult<()> {
        let Work::Call(call, _) = &self.work else { return Err(misuse("only calls of handlers have sub-handlers")) };
        let handlers: Vec<Arc<Handler>> = serde_json::from_str(handlers).map_err(invalid_json)?;
        let lifecycle: Option<Lifecycle> =
            lifecycle.map(|name| serde_json::from_value(Value::from(name))).transpose().map_err(invalid_json)?;
        let children: Children = call.children.clone();
        let mailbox = Arc::clone(&self.mailbox);
        self.runtime.spawn(async move {
            let reply = children.execute(handlers, lifecycle).await;
            let (done, delay) = reply.map_or((false, None), |reply| (reply.done, reply.delay_seconds));
            mailbox.put(Work::ChildrenDone { token, done, delay });
        });
        Ok(())
    }
}

/// Whoever has waited for the answer may be gone: then nobody needs it.
fn send<T>(reply: &ReplyTo<T>, answer: T) {
    if let Some(sender) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = sender.send(answer);
    }
}

fn forget<T>(reply: &ReplyTo<T>) {
    drop(reply.lock().unwrap_or_else(PoisonError::into_inner).take());
}

fn optional_json(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let text: Option<String> = value.extract()?;
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(invalid_json)
}

fn slot_name(slot: &FilterSlot) -> String {
    match slot {
        FilterSlot::Label(key) => format!("labels.{key}"),
        FilterSlot::Annotation(key) => format!("annotations.{key}"),
        FilterSlot::Value { .. } => "value".to_owned(),
        FilterSlot::Old => "old".to_owned(),
        FilterSlot::New => "new".to_owned(),
        FilterSlot::When => "when".to_owned(),
    }
}

/// The declarations of the front after its startup.
#[derive(Deserialize)]
struct Declared {
    settings: kopf_engine::Settings,
    handlers: Vec<Arc<Handler>>,
}

impl From<Declared> for Configuration {
    fn from(declared: Declared) -> Self {
        Self { settings: declared.settings, handlers: declared.handlers }
    }
}

/// What the storages of the user have read.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Content {
    old: Option<Value>,
    new: Option<Value>,
    records: Map<String, Value>,
}

impl From<Content> for StorageContent {
    fn from(content: Content) -> Self {
        let records = content.records.into_iter().filter(|(_, record)| !record.is_null());
        Self { old: content.old, new: content.new, records: records.map(|(id, record)| (id.into(), record)).collect() }
    }
}
