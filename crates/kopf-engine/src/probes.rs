//! The health of the operator: a small HTTP server for the kubelet and for Prometheus.
//!
//! The liveness endpoint returns the results of the probe handlers as JSON, or 503 if the operator has to be restarted;
//! `/readyz` shows whether it does its work; `/metrics` has all numbers.

mod health;
mod server;

use std::sync::Arc;

use kopf_reaction::{Activity, Handler};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::calls::{Caller, run_activity};
use crate::metrics::render;
use crate::support::crashes::Crashes;
use crate::support::pauses::Pauses;
use health::{DEADLINE, is_over};
pub(crate) use health::{Health, OperatorPhase};
use server::{Answer, serve};
pub(crate) use server::{Endpoint, EndpointError};

const TARGET: &str = "kopf.engine.probes";

/// How long the results of the probe handlers are reused.
const MAX_AGE_SECONDS: f64 = 10.0;

/// The delay after errors in probe handlers that do not say otherwise.
const BACKOFF_SECONDS: f64 = 60.0;

/// The pages for the kubelet and Prometheus.
pub(crate) struct Probes {
    caller: Arc<Caller>,
    handlers: Vec<Arc<Handler>>,
    health: Arc<Health>,
    pauses: Pauses,
    /// The latest results of the probe handlers.
    results: Mutex<Option<(Instant, Value)>>,
}

impl Probes {
    pub(crate) fn new(caller: Arc<Caller>, handlers: Vec<Arc<Handler>>, health: Arc<Health>, pauses: Pauses) -> Self {
        Self { caller, handlers, health, pauses, results: Mutex::new(None) }
    }

    /// Listens and answers, until the tasks are dropped.
    pub(crate) async fn start(
        self,
        endpoint: &Endpoint,
        crashes: &Crashes,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), EndpointError> {
        let (path, log, clock) = (endpoint.path.clone(), self.caller.log.clone(), self.caller.clock.clone());
        let probes = Arc::new(self);
        let answering = Arc::clone(&probes);
        let answer = move |asked: String| {
            let (probes, path) = (Arc::clone(&answering), path.clone());
            async move {
                match asked.as_str() {
                    asked if asked == path => probes.liveness().await,
                    "/metrics" => {
                        Answer::text(render(&probes.caller.metrics, &probes.caller.clock, probes.pauses.is_paused()))
                    }
                    "/readyz" => probes.readiness(),
                    _ => Answer::json(404, &json!({"error": "there is no such page"})),
                }
            }
        };
        let address = serve(endpoint, clock, answer, crashes, tasks).await?;
        log.debug(TARGET, format!("Serving health status at http://{address}{}", endpoint.path));
        let monitoring = async move { probes.health.monitor(&probes.caller.front, &probes.caller.clock).await };
        tasks.spawn(crashes.clone().guard("The monitoring of the front".to_owned(), monitoring));
        Ok(())
    }

    /// Whether the operator has to be restarted, and the results of its probe handlers.
    async fn liveness(self: Arc<Self>) -> Answer {
        let mut problems = self.health.problems(self.caller.clock.instant());
        problems.extend(
            self.caller.metrics.dead_streams().into_iter().map(|stream| format!("the stream of {stream} is dead")),
        );
        if problems.is_empty() {
            let probing = tokio::spawn(Arc::clone(&self).probe());
            match self.caller.clock.timeout(DEADLINE, probing).await {
                Ok(Ok(Ok(results))) => return Answer::json(200, &results),
                Ok(Ok(Err(error))) => return Answer::json(500, &json!({"error": error})),
                Ok(Err(crash)) => problems.push(format!("the probe handlers have crashed: {crash}")),
                Err(_) => {
                    problems = self.health.problems(self.caller.clock.instant());
                    if problems.is_empty() {
                        problems.push("the probe handlers take too long".to_owned());
                    }
                }
            }
        }
        Answer::json(503, &json!({"problems": problems}))
    }

    /// The results of the probe handlers, at most a few seconds old. Concurrent probes wait for the same results.
    async fn probe(self: Arc<Self>) -> Result<Value, String> {
        let mut results = self.results.lock().await;
        if let Some((when, known)) = &*results
            && !is_over(self.caller.clock.instant(), *when, crate::seconds(MAX_AGE_SECONDS))
        {
            return Ok(known.clone());
        }
        // The probe handlers may rely on the startup handlers.
        if self.health.phase() == OperatorPhase::Starting {
            return Ok(json!({}));
        }
        let values = run_activity(&self.caller, Activity::Probe, &self.handlers, BACKOFF_SECONDS).await;
        let values = values.map_err(|error| error.to_string())?;
        let values: Map<String, Value> = values.into_iter().map(|(id, result)| (id.to_string(), result)).collect();
        *results = Some((self.caller.clock.instant(), Value::Object(values.clone())));
        Ok(Value::Object(values))
    }

    /// Whether the operator does its work now.
    fn readiness(&self) -> Answer {
        let now = self.caller.clock.instant();
        let mut reasons = self.health.problems(now);
        reasons.extend(self.health.outages(now));
        reasons.extend(self.health.reasons_to_wait());
        if self.caller.metrics.is_closed() && !self.pauses.is_paused() {
            reasons.push("the indexes are not complete yet".to_owned());
        }
        let failing = self.caller.metrics.streams().into_iter().filter(|stream| stream.health.failures() > 0);
        reasons.extend(failing.map(|stream| {
            let error = stream.health.last_error().unwrap_or_default();
            format!("the stream of {} does not work: {error}", stream.resource)
        }));
        let code = if reasons.is_empty() { 200 } else { 503 };
        let (ready, paused) = (reasons.is_empty(), self.pauses.is_paused());
        Answer::json(code, &json!({"ready": ready, "paused": paused, "reasons": reasons}))
    }
}
