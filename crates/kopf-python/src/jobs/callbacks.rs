//! Questions to the users' callbacks: filters, selectors, lifecycles, initial delays.

use std::sync::Arc;

use kopf_engine::FrontFailure;
use kopf_reaction::{FilterQuestion, FilterSlot, Resource};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value, json};

use crate::cycle::{Cycle, json_bytes};
use crate::failures::failure;
use crate::job::{Candidates, Reply};
use crate::review::Review;

type Question<'py> = (usize, String, Option<Bound<'py, PyBytes>>);

/// Evaluate the callbacks in the filters of handlers.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct EvaluateFilters {
    pub cycle: Py<Cycle>,
    pub questions: Vec<FilterQuestion>,
    pub reply: Reply<Result<Vec<bool>, FrontFailure>>,
}

#[pymethods]
impl EvaluateFilters {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn questions<'py>(&self, python: Python<'py>) -> Vec<Question<'py>> {
        describe_questions(python, &self.questions)
    }

    #[pyo3(signature = (decisions, /))]
    fn answer(&self, decisions: Vec<bool>) {
        self.reply.send(Ok(decisions));
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Evaluate the callbacks in the filters of webhook handlers.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct EvaluateReviewFilters {
    pub review: Py<Review>,
    pub questions: Vec<FilterQuestion>,
    pub reply: Reply<Result<Vec<bool>, FrontFailure>>,
}

#[pymethods]
impl EvaluateReviewFilters {
    #[getter]
    fn review(&self, python: Python<'_>) -> Py<Review> {
        self.review.clone_ref(python)
    }

    #[getter]
    fn questions<'py>(&self, python: Python<'py>) -> Vec<Question<'py>> {
        describe_questions(python, &self.questions)
    }

    #[pyo3(signature = (decisions, /))]
    fn answer(&self, decisions: Vec<bool>) {
        self.reply.send(Ok(decisions));
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Evaluate the callback in the selector of a handler, for one resource.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct EvaluateSelector {
    pub handler: usize,
    pub resource: Arc<Resource>,
    pub reply: Reply<Result<bool, FrontFailure>>,
}

#[pymethods]
impl EvaluateSelector {
    #[getter]
    fn handler(&self) -> usize {
        self.handler
    }

    #[getter]
    fn resource(&self) -> String {
        json!(*self.resource).to_string()
    }

    #[pyo3(signature = (decision, /))]
    fn answer(&self, decision: bool) {
        self.reply.send(Ok(decision));
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Let the lifecycle function choose the handlers to call now.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ChooseHandlers {
    pub cycle: Py<Cycle>,
    pub candidates: Candidates,
    pub reply: Reply<Result<Vec<usize>, FrontFailure>>,
}

#[pymethods]
impl ChooseHandlers {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn handlers(&self) -> Vec<usize> {
        self.candidates.handlers.iter().map(|handler| handler.index).collect()
    }

    #[getter]
    fn state(&self) -> String {
        let states = self.candidates.states.iter().map(|(id, state)| (id.to_string(), state.to_record()));
        Value::Object(states.collect::<Map<_, _>>()).to_string()
    }

    #[pyo3(signature = (handlers, /))]
    fn answer(&self, handlers: Vec<usize>) {
        self.reply.send(Ok(handlers));
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

/// Compute how long a daemon or a timer waits before its first call, in seconds.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ComputeInitialDelay {
    pub cycle: Py<Cycle>,
    pub handler: usize,
    pub reply: Reply<Result<f64, FrontFailure>>,
}

#[pymethods]
impl ComputeInitialDelay {
    #[getter]
    fn cycle(&self, python: Python<'_>) -> Py<Cycle> {
        self.cycle.clone_ref(python)
    }

    #[getter]
    fn handler(&self) -> usize {
        self.handler
    }

    #[pyo3(signature = (seconds, /))]
    fn answer(&self, seconds: f64) {
        self.reply.send(Ok(seconds));
    }

    #[pyo3(signature = (error, /))]
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.reply.send(Err(failure(error)));
    }
}

fn describe_questions<'py>(python: Python<'py>, questions: &[FilterQuestion]) -> Vec<Question<'py>> {
    let describe = |question: &FilterQuestion| {
        (question.handler, slot_name(question), json_bytes(python, question.value.as_ref()))
    };
    questions.iter().map(describe).collect()
}

fn slot_name(question: &FilterQuestion) -> String {
    let slot = match &question.slot {
        FilterSlot::Label(key) => format!("labels.{key}"),
        FilterSlot::Annotation(key) => format!("annotations.{key}"),
        FilterSlot::Value { .. } => "value".to_owned(),
        FilterSlot::Old => "old".to_owned(),
        FilterSlot::New => "new".to_owned(),
        FilterSlot::When => "when".to_owned(),
        FilterSlot::Selector => "selector".to_owned(),
    };
    match question.condition {
        Some(index) => format!("conditions.{index}.{slot}"),
        None => slot,
    }
}
