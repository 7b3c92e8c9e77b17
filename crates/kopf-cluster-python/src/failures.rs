//! How errors of the embedded cluster become Python's exceptions. Nothing else in this crate makes exceptions.

use std::fmt::Display;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pub(crate) fn invalid_json(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("not a valid JSON: {error}"))
}

/// The cluster refuses an argument.
pub(crate) fn invalid_value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The caller did not keep to the order of calls.
pub(crate) fn misuse(message: &str) -> PyErr {
    PyRuntimeError::new_err(message.to_owned())
}

/// The machine does not provide what the cluster needs: a port, a file.
pub(crate) fn unavailable(error: impl Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}
