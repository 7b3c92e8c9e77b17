//! One operator, as `kopf._run.front` starts it, takes its jobs, and stops it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use kopf_engine::{
    Clock, EventDraft, OperatorOptions, Pacing, PeeringCommand, Record, Review, ServerOptions, Severity, Stop,
    TimeShift, run_by,
};
use kopf_object::ObjectReference;
use kopf_reaction::Handler;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::bridge::Bridge;
use crate::failures::{invalid_json, invalid_value, misuse};
use crate::front::PythonFront;
use crate::job::Job;
use crate::job_queue::QueueLimits;
use crate::jobs::into_python;

/// The clock of all operators of this process; `kopf.testing` moves it forward.
static TIME: LazyLock<TimeShift> = LazyLock::new(TimeShift::new);

/// Moves the clock of all operators of this process forward.
#[pyfunction]
#[pyo3(signature = (seconds, /))]
pub(crate) fn advance_clock(seconds: f64) -> PyResult<()> {
    TIME.advance(Duration::try_from_secs_f64(seconds).map_err(invalid_value)?);
    Ok(())
}

/// How far [`advance_clock`] has moved the clock so far, in seconds.
#[pyfunction]
pub(crate) fn clock_shift() -> f64 {
    TIME.skipped().as_secs_f64()
}

/// What the engine must know before the start.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    activities: Vec<Arc<Handler>>,
    #[serde(default)]
    namespaces: Vec<NamespaceRule>,
    #[serde(default)]
    clusterwide: bool,
    #[serde(default)]
    identity: Option<String>,
    /// The address of the liveness endpoint.
    #[serde(default)]
    liveness: Option<String>,
    /// Set by `kopf freeze` and `kopf resume`, which only pause or resume other operators.
    #[serde(default)]
    peering_lifetime: Option<i64>,
    #[serde(default)]
    levels: HashMap<String, i32>,
}

/// How the user has selected namespaces.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamespaceRule {
    /// A name, or globs.
    Globs(String),
    /// A compiled regular expression.
    Expression { regex: String },
}

impl NamespaceRule {
    fn globs(&self) -> Option<String> {
        if let Self::Globs(globs) = self { Some(globs.clone()) } else { None }
    }

    fn expression(&self) -> Option<String> {
        if let Self::Expression { regex } = self { Some(regex.clone()) } else { None }
    }
}

/// A Kubernetes event, as far as the user decides on it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    involved_object: ObjectReference,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
}

/// A review that a server of the user has received.
#[derive(Deserialize)]
struct Received {
    request: serde_json::Value,
    webhook: Option<String>,
    headers: serde_json::Value,
    sslpeer: serde_json::Value,
}

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Operator {
    config: Config,
    bridge: Arc<Bridge>,
    front: Arc<PythonFront>,
    stop: Stop,
    /// None before the start and after the end.
    runtime: Mutex<Option<Runtime>>,
}

#[pymethods]
impl Operator {
    #[new]
    #[pyo3(signature = (config, /))]
    fn new(config: &str) -> PyResult<Self> {
        let config: Config = serde_json::from_str(config).map_err(invalid_json)?;
        let bridge = Arc::new(Bridge::new(QueueLimits::default())?);
        let front = Arc::new(PythonFront::new(Arc::clone(&bridge), config.levels.clone()));
        Ok(Self { config, bridge, front, stop: Stop::new(), runtime: Mutex::new(None) })
    }

    fn fileno(&self) -> i32 {
        self.bridge.queue.fileno()
    }

    fn start(&self) -> PyResult<()> {
        let pacing = Pacing::default();
        let queue = Arc::clone(&self.bridge.queue);
        let runtime = pacing.runtime_notifying(move || queue.flush()).thread_name("kopf-engine").build()?;
        self.bridge.runtime.set(runtime.handle().clone()).map_err(|_| misuse("the operator was started already"))?;
        let options = OperatorOptions {
            activities: self.config.activities.clone(),
            namespaces: self.config.namespaces.iter().filter_map(NamespaceRule::globs).collect(),
            namespace_expressions: self.config.namespaces.iter().filter_map(NamespaceRule::expression).collect(),
            clusterwide: self.config.clusterwide,
            liveness: self.config.liveness.clone(),
            identity: self.config.identity.clone(),
            command: self.config.peering_lifetime.map(|lifetime| PeeringCommand { lifetime }),
            client: None,
            pacing,
        };
        let (front, bridge, stop) = (Arc::clone(&self.front), Arc::clone(&self.bridge), self.stop.clone());
        runtime.spawn(async move {
            let running = tokio::spawn(run_by(Clock::shifted(TIME.clone()), front, options, stop));
            let message = match running.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(crash) => Some(format!("the engine has crashed: {crash}")),
            };
            bridge.queue.put(Job::Finished(message));
        });
        *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
        Ok(())
    }

    /// Takes all jobs from the queue.
    fn take(&self, python: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let batch = self.bridge.queue.take();
        let dropped =
            (batch.dropped_log_records > 0).then(|| Job::EmitLog(describe_dropped(batch.dropped_log_records)));
        batch.jobs.into_iter().chain(dropped).map(|job| into_python(job, python, &self.bridge)).collect()
    }

    #[pyo3(signature = (reason, /))]
    fn stop(&self, reason: &str) {
        self.stop.request(reason);
    }

    /// Ends all threads of the engine, whatever they do.
    fn close(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }

    #[pyo3(signature = (levels, /))]
    fn set_levels(&self, levels: &str) -> PyResult<()> {
        self.front.set_levels(serde_json::from_str(levels).map_err(invalid_json)?);
        Ok(())
    }

    #[pyo3(signature = (event, backoffs, /))]
    fn post_event(&self, event: &str, backoffs: Vec<f64>) -> PyResult<bool> {
        let event: Posted = serde_json::from_str(event).map_err(invalid_json)?;
        let Some(services) = self.front.services() else { return Ok(false) };
        services.poster.post(EventDraft {
            reference: event.involved_object,
            kind: event.kind,
            reason: event.reason,
            message: event.message,
            backoffs,
        });
        Ok(true)
    }

    /// Where the cluster finds the webhooks (JSON).
    #[pyo3(signature = (client_config, /))]
    fn announce_webhooks(&self, client_config: &str) -> PyResult<bool> {
        Ok(self.front.webhooks.announce(serde_json::from_str(client_config).map_err(invalid_json)?))
    }

    /// Starts the engine's own server of webhooks; its addresses come as jobs with the number.
    #[pyo3(signature = (number, options, /))]
    fn serve_webhooks(&self, number: u64, options: &str) -> PyResult<bool> {
        let options: ServerOptions = serde_json::from_str(options).map_err(invalid_json)?;
        Ok(self.front.webhooks.serve(number, options, &self.bridge))
    }

    #[pyo3(signature = (number, /))]
    fn stop_webhooks(&self, number: u64) {
        self.front.webhooks.stop(number);
    }

    /// Answers a review that the front has received: by a job with the token.
    #[pyo3(signature = (token, review, /))]
    fn review(&self, token: Py<PyAny>, review: &str) -> PyResult<bool> {
        let received: Received = serde_json::from_str(review).map_err(invalid_json)?;
        let review = Review {
            content: received.request,
            webhook: received.webhook,
            headers: received.headers,
            peer: received.sslpeer,
            timeout: None,
        };
        Ok(self.front.webhooks.review(token, review, &self.bridge))
    }

    #[pyo3(signature = (index, /))]
    fn resource(&self, index: usize) -> PyResult<String> {
        let resource = self.bridge.resources.get(index).ok_or_else(|| misuse("there is no such resource"))?;
        Ok(json!(*resource).to_string())
    }
}

/// Log records that did not fit into the queue are lost, but never silently.
fn describe_dropped(count: usize) -> Record {
    Record {
        severity: Severity::Warning,
        target: "kopf",
        message: format!("{count} log records were dropped, since the event loop was blocked for too long."),
        reference: None,
        local: true,
        error: None,
    }
}
