//! What the engine asks about the operator as a whole.

use std::sync::Arc;

use kopf_engine::{Configuration, FrontFailure, Settings};
use kopf_reaction::Handler;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::failures::{failure, invalid_json};
use crate::job::Reply;

/// Describe the settings and the handlers: all startup handlers are done.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Configure {
    pub reply: Reply<Result<Configuration, FrontFailure>>,
}

#[pymethods]
impl Configure {
    #[pyo3(signature = (description, /))]
    fn answer(&self, description: &str) -> PyResult<()> {
        let described: Described = serde_json::from_str(description).map_err(invalid_json)?;
        self.reply.send(Ok(Configuration { settings: described.settings, handlers: described.handlers }));
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

#[derive(Deserialize)]
struct Described {
    settings: Settings,
    handlers: Vec<Arc<Handler>>,
}

/// Describe the handlers of activities again: some may have been declared while the operator ran.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ListActivities {
    pub reply: Reply<Option<Vec<Arc<Handler>>>>,
}

#[pymethods]
impl ListActivities {
    #[pyo3(signature = (handlers, /))]
    fn answer(&self, handlers: &str) -> PyResult<()> {
        self.reply.send(Some(serde_json::from_str(handlers).map_err(invalid_json)?));
        Ok(())
    }

    /// The engine goes on with the handlers that it knows.
    #[pyo3(signature = (_error, /))]
    fn fail(&self, _error: &Bound<'_, PyAny>) {
        self.reply.send(None);
    }
}

/// Answer at once, to show that the event loop is alive.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Ping {
    pub reply: Reply<()>,
}

#[pymethods]
impl Ping {
    fn answer(&self) {
        self.reply.send(());
    }

    #[pyo3(signature = (_error, /))]
    fn fail(&self, _error: &Bound<'_, PyAny>) {
        self.reply.send(());
    }
}
