//! What the users' storages read and write, and what their transformations (`patch.fns`) make of a body.

use kopf_engine::{FrontFailure, StorageContent, StorageQuestion};
use kopf_object::Body;
use kopf_reaction::StorageOperation;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cycle::Cycle;
use crate::failures::{failure, invalid_json};
use crate::job::Reply;
use crate::jobs::decode_optional;
use crate::review::Review;

/// Read the progress and the last handled essence of an object.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ReadStorage {
    pub cycle: Py<Cycle>,
    pub question: StorageQuestion,
    pub reply: Reply<Result<StorageContent, FrontFailure>>,
}

#[pymethods]
impl ReadStorage {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn question(&self) -> String {
        json!({
            "ids": self.question.ids,
            "extra_fields": self.question.extra_fields,
            "progress": self.question.progress,
            "diffbase": self.question.diffbase,
        })
        .to_string()
    }

    #[pyo3(signature = (content, /))]
    fn answer(&self, content: &str) -> PyResult<()> {
        let content: StoredContent = serde_json::from_str(content).map_err(invalid_json)?;
        self.reply.send(Ok(content.into()));
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Write into the patch of the cycle what the object has to remember.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct WriteStorage {
    pub cycle: Py<Cycle>,
    pub operations: Vec<StorageOperation>,
    pub reply: Reply<Result<Option<Value>, FrontFailure>>,
}

#[pymethods]
impl WriteStorage {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn operations(&self) -> String {
        json!(self.operations).to_string()
    }

    #[pyo3(signature = (patch, /))]
    fn answer(&self, patch: Option<&str>) -> PyResult<()> {
        self.reply.send(Ok(decode_optional(patch)?));
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Apply the transformations of a cycle to the latest body.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct TransformBody {
    pub cycle: Py<Cycle>,
    pub body: Body,
    pub reply: Reply<Result<Value, FrontFailure>>,
}

#[pymethods]
impl TransformBody {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn body<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.body.raw())
    }

    #[pyo3(signature = (body, /))]
    fn answer(&self, body: &str) -> PyResult<()> {
        self.reply.send(Ok(serde_json::from_str(body).map_err(invalid_json)?));
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Apply the transformations of a review to the object under review.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct TransformReviewed {
    pub review: Py<Review>,
    pub body: Body,
    pub reply: Reply<Result<Value, FrontFailure>>,
}

#[pymethods]
impl TransformReviewed {
    #[getter]
    fn review(&self, python: Python<'_>) -> Py<Review> {
        self.review.clone_ref(python)
    }

    #[getter]
    fn body<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.body.raw())
    }

    #[pyo3(signature = (body, /))]
    fn answer(&self, body: &str) -> PyResult<()> {
        self.reply.send(Ok(serde_json::from_str(body).map_err(invalid_json)?));
        Ok(())
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// What the users' storages have read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredContent {
    old: Option<Value>,
    new: Option<Value>,
    records: Map<String, Value>,
}

impl From<StoredContent> for StorageContent {
    fn from(content: StoredContent) -> Self {
        let records = content.records.into_iter().filter(|(_, record)| !record.is_null());
        Self { old: content.old, new: content.new, records: records.map(|(id, record)| (id.into(), record)).collect() }
    }
}
