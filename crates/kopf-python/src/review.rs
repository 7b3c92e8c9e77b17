//! What Python sees of one object under review: all jobs of the review share it.

use std::sync::Arc;

use kopf_engine::WebhookContext;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bridge::Bridge;
use crate::cycle::{ObjectMemory, json_bytes, read, write};

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Review {
    pub context: Arc<WebhookContext>,
    pub bridge: Arc<Bridge>,
}

#[pymethods]
impl Review {
    #[getter]
    fn resource(&self) -> usize {
        self.bridge.resources.index_of(&self.context.resource)
    }

    #[getter]
    fn body<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.context.body.raw())
    }

    #[getter]
    fn old<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, self.context.old.as_ref())
    }

    #[getter(new)]
    fn new_body<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, self.context.new.as_ref())
    }

    #[getter]
    fn diff<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, Some(&self.context.diff.to_json()))
    }

    #[getter]
    fn facts<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        json_bytes(python, Some(&self.context.facts))
    }

    #[getter]
    fn context(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        read(&self.context.slot, python)
    }

    #[setter]
    fn set_context(&self, value: Option<Py<PyAny>>) {
        write(&self.context.slot, value);
    }

    #[getter]
    fn memory(&self) -> ObjectMemory {
        ObjectMemory { slot: Arc::clone(&self.context.memory) }
    }
}
