//! Calls of the users' functions. All three kinds of calls are answered alike; `kopf._call.invoke` does it.

use std::sync::Arc;

use kopf_engine::{ActivityCall, CallReply, Children, HandlerCall, WebhookCall, WebhookReply};
use kopf_reaction::{Activity, Handler, Lifecycle};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

use crate::bridge::Bridge;
use crate::cycle::{Cycle, LatestBody, json_bytes};
use crate::failures::{DescribedError, call_error, invalid_json, unexpected_error};
use crate::job::{Job, Reply};
use crate::jobs::decode_optional;
use crate::review::Review;

/// Call a handler of an object: a change handler, an event handler, an index function, a daemon or a timer.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct CallHandler {
    pub call: Box<HandlerCall>,
    pub cycle: Py<Cycle>,
    pub reply: Reply<CallReply>,
    pub bridge: Arc<Bridge>,
}

#[pymethods]
impl CallHandler {
    #[getter]
    fn handler(&self) -> usize {
        self.call.handler.index
    }

    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn retry(&self) -> u32 {
        self.call.retry
    }

    #[getter]
    fn started(&self) -> f64 {
        posix_seconds(self.call.started)
    }

    #[getter]
    fn runtime(&self) -> f64 {
        self.call.runtime_seconds
    }

    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.call.timeout_seconds
    }

    #[getter]
    fn call_number(&self) -> Option<u64> {
        self.call.background.as_ref().map(|background| background.number)
    }

    #[getter]
    fn latest_body(&self) -> Option<LatestBody> {
        self.call.background.as_ref().map(|background| LatestBody { body: Arc::clone(&background.live) })
    }

    #[getter]
    fn old<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, self.call.change.as_ref()?.0.as_ref())
    }

    #[getter(new)]
    fn new_essence<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, self.call.change.as_ref()?.1.as_ref())
    }

    #[getter]
    fn diff<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, Some(&self.call.change.as_ref()?.2.to_json()))
    }

    #[pyo3(signature = (result, patch, transformations, /))]
    fn answer(&self, result: Option<&str>, patch: Option<&str>, transformations: bool) -> PyResult<()> {
        self.reply.send(success(result, patch, transformations)?);
        Ok(())
    }

    #[pyo3(signature = (error, patch, transformations, /))]
    fn answer_error(&self, error: DescribedError, patch: Option<&str>, transformations: bool) -> PyResult<()> {
        match failure(error, patch, transformations)? {
            Some(reply) => self.reply.send(reply),
            None => self.reply.abandon(),
        }
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(unexpected(error));
    }

    /// Asks the engine to run sub-handlers; [`Job::SubHandlersDone`] follows with the token.
    #[pyo3(signature = (handlers, lifecycle, token, /))]
    fn execute(&self, handlers: &str, lifecycle: Option<&str>, token: Py<PyAny>) -> PyResult<()> {
        let handlers: Vec<Arc<Handler>> = serde_json::from_str(handlers).map_err(invalid_json)?;
        let lifecycle: Option<Lifecycle> =
            lifecycle.map(|name| serde_json::from_value(Value::from(name))).transpose().map_err(invalid_json)?;
        let children: Children = self.call.children.clone();
        let bridge = Arc::clone(&self.bridge);
        if let Some(runtime) = self.bridge.runtime.get() {
            runtime.spawn(async move {
                let reply = children.execute(handlers, lifecycle).await;
                let (done, delay_seconds) = reply.map_or((false, None), |reply| (reply.done, reply.delay_seconds));
                bridge.queue.put(Job::SubHandlersDone { token, done, delay_seconds });
            });
        }
        Ok(())
    }
}

/// Call a handler of the operator: of its startup, its cleanup, its logins, its probes.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct CallActivity {
    pub call: ActivityCall,
    pub reply: Reply<CallReply>,
}

#[pymethods]
impl CallActivity {
    #[getter]
    fn handler(&self) -> usize {
        self.call.handler.index
    }

    #[getter]
    fn activity(&self) -> &'static str {
        match self.call.activity {
            Activity::Startup => "startup",
            Activity::Cleanup => "cleanup",
            Activity::Authentication => "authentication",
            Activity::Probe => "probe",
        }
    }

    #[getter]
    fn retry(&self) -> u32 {
        self.call.retry
    }

    #[getter]
    fn started(&self) -> f64 {
        posix_seconds(self.call.started)
    }

    #[getter]
    fn runtime(&self) -> f64 {
        self.call.runtime_seconds
    }

    #[getter]
    fn timeout(&self) -> Option<f64> {
        let total = self.call.handler.timeout.as_ref()?;
        Some(total.as_f64() - self.call.runtime_seconds)
    }

    #[pyo3(signature = (result, patch, transformations, /))]
    fn answer(&self, result: Option<&str>, patch: Option<&str>, transformations: bool) -> PyResult<()> {
        self.reply.send(success(result, patch, transformations)?);
        Ok(())
    }

    #[pyo3(signature = (error, patch, transformations, /))]
    fn answer_error(&self, error: DescribedError, patch: Option<&str>, transformations: bool) -> PyResult<()> {
        match failure(error, patch, transformations)? {
            Some(reply) => self.reply.send(reply),
            None => self.reply.abandon(),
        }
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(unexpected(error));
    }
}

/// Call a handler of a webhook.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct CallWebhook {
    pub call: WebhookCall,
    pub review: Py<Review>,
    pub reply: Reply<WebhookReply>,
}

#[pymethods]
impl CallWebhook {
    /// The engine never retries webhooks, and the API server times them out.
    #[classattr]
    fn retry() -> u32 {
        0
    }

    #[classattr]
    fn runtime() -> f64 {
        0.0
    }

    #[classattr]
    fn timeout() -> Option<f64> {
        None
    }

    #[getter]
    fn handler(&self) -> usize {
        self.call.handler.index
    }

    #[getter]
    fn review(&self, python: Python<'_>) -> Py<Review> {
        self.review.clone_ref(python)
    }

    #[getter]
    fn started(&self) -> f64 {
        posix_seconds(self.call.started)
    }

    #[pyo3(signature = (result, patch, transformations, warnings = Vec::new(), /))]
    fn answer(
        &self,
        result: Option<&str>,
        patch: Option<&str>,
        transformations: bool,
        warnings: Vec<String>,
    ) -> PyResult<()> {
        self.reply.send(WebhookReply { call: success(result, patch, transformations)?, warnings });
        Ok(())
    }

    #[pyo3(signature = (error, patch, transformations, warnings = Vec::new(), /))]
    fn answer_error(
        &self,
        error: DescribedError,
        patch: Option<&str>,
        transformations: bool,
        warnings: Vec<String>,
    ) -> PyResult<()> {
        match failure(error, patch, transformations)? {
            Some(call) => self.reply.send(WebhookReply { call, warnings }),
            None => self.reply.abandon(),
        }
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(WebhookReply { call: unexpected(error), warnings: Vec::new() });
    }
}

fn posix_seconds(time: jiff::Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}

/// The function has returned.
fn success(result: Option<&str>, patch: Option<&str>, transformations: bool) -> PyResult<CallReply> {
    Ok(CallReply { result: Ok(decode_optional(result)?), error: None, patch: decode_optional(patch)?, transformations })
}

/// The function has raised an error; None if it was cancelled, which is no outcome of the handler.
fn failure(error: DescribedError, patch: Option<&str>, transformations: bool) -> PyResult<Option<CallReply>> {
    let Some((call_error, raised)) = call_error(error)? else { return Ok(None) };
    let patch = decode_optional(patch)?;
    Ok(Some(CallReply { result: Err(call_error), error: Some(raised), patch, transformations }))
}

/// The front could not call the function.
fn unexpected(error: &Bound<'_, PyAny>) -> CallReply {
    let (call_error, raised) = unexpected_error(error);
    CallReply { result: Err(call_error), error: Some(raised), patch: None, transformations: false }
}
