//! What the engine asks of the front: one Python class per job, with what that job needs and the answer it takes.
//!
//! [`into_python`] makes the Python objects when the event loop takes the jobs; `kopf._run.front` dispatches them by
//! their types. Answers can come from any thread.

mod calls;
mod callbacks;
mod storage;
mod operator;
mod notices;

use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::Value;

use crate::bridge::Bridge;
use crate::cycle::Cycle;
use crate::failures::invalid_json;
use crate::job::Job;
use crate::review::Review;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<calls::CallHandler>()?;
    module.add_class::<calls::CallActivity>()?;
    module.add_class::<calls::CallWebhook>()?;
    module.add_class::<callbacks::EvaluateFilters>()?;
    module.add_class::<callbacks::EvaluateReviewFilters>()?;
    module.add_class::<callbacks::EvaluateSelector>()?;
    module.add_class::<callbacks::ChooseHandlers>()?;
    module.add_class::<callbacks::ComputeInitialDelay>()?;
    module.add_class::<storage::ReadStorage>()?;
    module.add_class::<storage::WriteStorage>()?;
    module.add_class::<storage::TransformBody>()?;
    module.add_class::<storage::TransformReviewed>()?;
    module.add_class::<operator::Configure>()?;
    module.add_class::<operator::ListActivities>()?;
    module.add_class::<operator::Ping>()?;
    module.add_class::<notices::EmitLog>()?;
    module.add_class::<notices::Unindex>()?;
    module.add_class::<notices::StopCall>()?;
    module.add_class::<notices::SubHandlersDone>()?;
    module.add_class::<notices::ServeWebhooks>()?;
    module.add_class::<notices::WebhookServer>()?;
    module.add_class::<notices::ReviewAnswered>()?;
    module.add_class::<notices::Ready>()?;
    module.add_class::<notices::Finished>()?;
    Ok(())
}

pub(crate) fn into_python(job: Job, python: Python<'_>, bridge: &Arc<Bridge>) -> PyResult<Py<PyAny>> {
    let cycle = |context| Py::new(python, Cycle { context, bridge: Arc::clone(bridge) });
    let review = |context| Py::new(python, Review { context, bridge: Arc::clone(bridge) });
    Ok(match job {
        Job::CallHandler(call, reply) => {
            let cycle = cycle(Arc::clone(&call.context))?;
            let job = calls::CallHandler { call, cycle, reply, bridge: Arc::clone(bridge) };
            Py::new(python, job)?.into_any()
        }
        Job::CallActivity(call, reply) => Py::new(python, calls::CallActivity { call, reply })?.into_any(),
        Job::CallWebhook(call, reply) => {
            let review = review(Arc::clone(&call.context))?;
            Py::new(python, calls::CallWebhook { call, review, reply })?.into_any()
        }
        Job::EvaluateFilters(context, questions, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, callbacks::EvaluateFilters { cycle, questions, reply })?.into_any()
        }
        Job::EvaluateReviewFilters(context, questions, reply) => {
            let review = review(context)?;
            Py::new(python, callbacks::EvaluateReviewFilters { review, questions, reply })?.into_any()
        }
        Job::EvaluateSelector(handler, resource, reply) => {
            Py::new(python, callbacks::EvaluateSelector { handler, resource, reply })?.into_any()
        }
        Job::ChooseHandlers(context, candidates, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, callbacks::ChooseHandlers { cycle, candidates, reply })?.into_any()
        }
        Job::ComputeInitialDelay(context, handler, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, callbacks::ComputeInitialDelay { cycle, handler, reply })?.into_any()
        }
        Job::ReadStorage(context, question, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, storage::ReadStorage { cycle, question, reply })?.into_any()
        }
        Job::WriteStorage(context, operations, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, storage::WriteStorage { cycle, operations, reply })?.into_any()
        }
        Job::TransformBody(context, body, reply) => {
            let cycle = cycle(context)?;
            Py::new(python, storage::TransformBody { cycle, body, reply })?.into_any()
        }
        Job::TransformReviewed(context, body, reply) => {
            let review = review(context)?;
            Py::new(python, storage::TransformReviewed { review, body, reply })?.into_any()
        }
        Job::Configure(reply) => Py::new(python, operator::Configure { reply })?.into_any(),
        Job::ListActivities(reply) => Py::new(python, operator::ListActivities { reply })?.into_any(),
        Job::Ping(reply) => Py::new(python, operator::Ping { reply })?.into_any(),
        Job::EmitLog(record) => Py::new(python, notices::EmitLog { record })?.into_any(),
        Job::Unindex { uid, ids } => Py::new(python, notices::Unindex { uid, ids })?.into_any(),
        Job::StopCall { call_number, reasons } => {
            Py::new(python, notices::StopCall { call_number, reasons })?.into_any()
        }
        Job::SubHandlersDone { token, done, delay_seconds } => {
            Py::new(python, notices::SubHandlersDone { token, done, delay: delay_seconds })?.into_any()
        }
        Job::ServeWebhooks => Py::new(python, notices::ServeWebhooks)?.into_any(),
        Job::WebhookServer { number, outcome } => {
            Py::new(python, notices::WebhookServer { number, outcome })?.into_any()
        }
        Job::ReviewAnswered { token, response } => {
            Py::new(python, notices::ReviewAnswered { token, response })?.into_any()
        }
        Job::Ready => Py::new(python, notices::Ready)?.into_any(),
        Job::Finished(message) => Py::new(python, notices::Finished { message })?.into_any(),
    })
}

/// Decodes what the front has encoded; None stays None.
fn decode_optional(text: Option<&str>) -> PyResult<Option<Value>> {
    text.map(serde_json::from_str).transpose().map_err(invalid_json)
}
