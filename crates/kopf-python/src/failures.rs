//! How errors cross the bridge: the one place where Python's exceptions become the engine's errors, and the reverse.
//!
//! `kopf._call.invoke` describes what a user's function has raised; [`call_error`] maps the description to what the
//! engine distinguishes.

use std::sync::Arc;

use kopf_engine::{FrontError, FrontFailure};
use kopf_reaction::CallError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// An exception that a user's function has raised: its type for the engine (see [`call_error`]), `str()` of it, what to
/// show if that is empty, the delay in seconds, the exception itself, and the HTTP code of an admission error.
pub(crate) type DescribedError = (String, String, String, Option<f64>, Py<PyAny>, Option<u16>);

/// What the engine does about an error, with the exception for the log. None if the call was cancelled: that is no
/// outcome of the handler, and the engine gives the cycle up.
pub(crate) fn call_error(described: DescribedError) -> PyResult<Option<(CallError, FrontError)>> {
    let (error_type, message, display, delay, error, code) = described;
    let call_error = match error_type.as_str() {
        "temporary" => CallError::Temporary { message, display, delay },
        "admission" => CallError::Denied { message, display, code },
        "permanent" => CallError::Permanent { message, display },
        "timeout" if message.is_empty() => CallError::TimedOut,
        "timeout" | "retries" => CallError::Exhausted { message },
        "children" => CallError::ChildrenRetry { delay },
        "arbitrary" => CallError::Arbitrary { message, display },
        "cancelled" => return Ok(None),
        other => return Err(misuse(&format!("unknown type of errors: {other}"))),
    };
    Ok(Some((call_error, keep(error))))
}

/// The front could not call a handler; the engine treats the error as if the handler had raised it.
pub(crate) fn unexpected_error(error: &Bound<'_, PyAny>) -> (CallError, FrontError) {
    let message = error.str().map(|text| text.to_string()).unwrap_or_default();
    let display = if message.is_empty() { describe(error) } else { message.clone() };
    (CallError::Arbitrary { message, display }, keep(error.clone().unbind()))
}

/// The user's code has failed outside of handlers: in a filter, a lifecycle, a storage.
pub(crate) fn failure(error: &Bound<'_, PyAny>) -> FrontFailure {
    FrontFailure { message: describe(error), error: Some(keep(error.clone().unbind())) }
}

/// The front is gone without an answer: the event loop is closed, or the task was cancelled.
pub(crate) fn unanswered() -> FrontFailure {
    FrontFailure::new("the call was not answered, since the operator is stopping")
}

/// The exception inside the engine's error, if there is one.
pub(crate) fn raised(error: Option<&FrontError>) -> Option<&Py<PyAny>> {
    error?.downcast_ref::<Raised>().map(|raised| &raised.0)
}

/// An exception of the user's code, kept for its traceback.
struct Raised(Py<PyAny>);

fn keep(error: Py<PyAny>) -> FrontError {
    Arc::new(Raised(error))
}

/// Users' exceptions can fail even in their `repr()`; the engine gets an answer all the same.
fn describe(error: &Bound<'_, PyAny>) -> String {
    let class = || error.get_type().name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    error.repr().map_or_else(|_| class(), |text| text.to_string())
}

pub(crate) fn invalid_json(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("not a valid JSON: {error}"))
}

/// The engine refuses an argument.
pub(crate) fn invalid_value(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The front did not keep to the protocol.
pub(crate) fn misuse(message: &str) -> PyErr {
    PyRuntimeError::new_err(message.to_owned())
}
