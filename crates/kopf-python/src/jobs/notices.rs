//! What the engine reports to the front without awaiting an answer.

use std::sync::Arc;

use kopf_engine::Record;
use pyo3::prelude::*;
use serde_json::Value;

use crate::failures::raised;
use crate::front::python_level;

/// Pass a log record to Python's logging.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct EmitLog {
    pub record: Record,
}

#[pymethods]
impl EmitLog {
    #[getter]
    fn logger(&self) -> &str {
        self.record.target
    }

    #[getter]
    fn level(&self) -> i32 {
        python_level(self.record.severity)
    }

    #[getter]
    fn message(&self) -> &str {
        &self.record.message
    }

    #[getter]
    fn reference(&self) -> Option<String> {
        self.record.reference.as_ref().map(|reference| reference.to_json().to_string())
    }

    #[getter]
    fn local(&self) -> bool {
        self.record.local
    }

    #[getter]
    fn error(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        raised(self.record.error.as_ref()).map(|error| error.clone_ref(python))
    }
}

/// Remove an object from indices.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Unindex {
    pub uid: Arc<str>,
    pub ids: Vec<Arc<str>>,
}

#[pymethods]
impl Unindex {
    #[getter]
    fn uid(&self) -> &str {
        &self.uid
    }

    #[getter]
    fn ids(&self) -> Vec<&str> {
        self.ids.iter().map(|id| &**id).collect()
    }
}

/// Tell a running daemon or timer to stop.
#[pyclass(frozen, get_all, module = "kopf._native")]
pub(crate) struct StopCall {
    pub call_number: u64,
    pub reasons: u8,
}

/// The engine has called the sub-handlers of a handler once.
#[pyclass(frozen, get_all, module = "kopf._native")]
pub(crate) struct SubHandlersDone {
    pub token: Py<PyAny>,
    pub done: bool,
    pub delay: Option<f64>,
}

/// The front may start the servers of webhooks.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ServeWebhooks;

/// The engine's webhook server has an address now, or has failed.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct WebhookServer {
    pub number: u64,
    pub outcome: Result<Value, String>,
}

#[pymethods]
impl WebhookServer {
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    #[getter]
    fn client_config(&self) -> Option<String> {
        self.outcome.as_ref().ok().map(Value::to_string)
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(String::as_str)
    }
}

/// The engine has answered a review that one of the user's servers received.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ReviewAnswered {
    pub token: Py<PyAny>,
    pub response: Value,
}

#[pymethods]
impl ReviewAnswered {
    #[getter]
    fn token(&self, python: Python<'_>) -> Py<PyAny> {
        self.token.clone_ref(python)
    }

    #[getter]
    fn response(&self) -> String {
        self.response.to_string()
    }
}

/// The operator is up and handles objects.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Ready;

/// The operator has ended. It is the last job.
#[pyclass(frozen, get_all, module = "kopf._native")]
pub(crate) struct Finished {
    /// The error that has ended it, if any.
    pub message: Option<String>,
}
