//! Errors on their way between the two worlds: the one place where they are mapped.

use std::sync::Arc;

use kopf_engine::{FrontError, FrontFailure};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// An exception of the user's code, kept for its traceback.
pub(crate) struct Raised(pub Py<PyAny>);

pub(crate) fn keep(error: Py<PyAny>) -> FrontError {
    Arc::new(Raised(error))
}

/// The exception inside of an engine's error, if there is one.
pub(crate) fn raised(error: Option<&FrontError>) -> Option<&Py<PyAny>> {
    error?.downcast_ref::<Raised>().map(|raised| &raised.0)
}

/// The text of an exception, and how to show it where the text alone would be empty. Exceptions of users can fail
/// to tell their text; the call is answered all the same.
pub(crate) fn texts(error: &Bound<'_, PyAny>) -> (String, String) {
    let message = error.str().map(|text| text.to_string()).unwrap_or_default();
    let display = if message.is_empty() { described(error) } else { message.clone() };
    (message, display)
}

fn described(error: &Bound<'_, PyAny>) -> String {
    let class = || error.get_type().name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    error.repr().map_or_else(|_| class(), |text| text.to_string())
}

/// A failure of the user's code outside of handlers, as the log shows it.
pub(crate) fn failure(error: &Bound<'_, PyAny>) -> FrontFailure {
    FrontFailure { message: described(error), error: Some(keep(error.clone().unbind())) }
}

/// The front has gone away without an answer: the event loop is closed, or the task was cancelled.
pub(crate) fn unanswered() -> FrontFailure {
    FrontFailure::new("the call was not answered, since the operator is stopping")
}

pub(crate) fn invalid_json(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("not a valid JSON: {error}"))
}

pub(crate) fn misuse(message: &str) -> PyErr {
    PyRuntimeError::new_err(message.to_owned())
}

/// What was given does not make sense to the engine or to the cluster.
pub(crate) fn invalid_value(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
