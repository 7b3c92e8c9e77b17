//! The operator's own moments: startup, cleanup, login. Their handlers are called until all are done.

use std::sync::Arc;

use kopf_reaction::{Activity, Batch, BatchStep, CallOutcome, ErrorsMode, Handler};
use serde_json::Value;

use crate::front::{ActivityCall, Front};
use crate::metrics::Metrics;
use crate::worker::level_of;
use crate::{Clock, FrontError, Log, Record};

/// Some handlers of an activity have failed for good.
#[derive(Debug, thiserror::Error)]
#[error("One or more handlers failed: {failures}")]
pub struct ActivityError {
    pub failures: String,
}

/// The name under which an activity logs.
pub(crate) const fn target_of(activity: Activity) -> &'static str {
    match activity {
        Activity::Startup => "kopf.activities.startup",
        Activity::Cleanup => "kopf.activities.cleanup",
        Activity::Authentication => "kopf.activities.authentication",
        Activity::Probe => "kopf.activities.probe",
    }
}

/// The handlers of an activity; those of last resort only if there are no others.
pub(crate) fn handlers_of(activity: Activity, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
    let all: Vec<_> = handlers.iter().filter(|handler| handler.activity == Some(activity)).cloned().collect();
    if all.iter().any(|handler| !handler.fallback) {
        all.into_iter().filter(|handler| !handler.fallback).collect()
    } else {
        all
    }
}

/// Calls the handlers of an activity, with retries, and gives their results.
pub(crate) async fn run_activity(
    front: &Arc<dyn Front>,
    clock: &Clock,
    log: &Log,
    metrics: &Metrics,
    activity: Activity,
    handlers: &[Arc<Handler>],
    default_backoff: f64,
) -> Result<Vec<(Arc<str>, Value)>, ActivityError> {
    let handlers = handlers_of(activity, handlers);
    let mut batch = Batch::transient(handlers, ErrorsMode::Temporary, true, default_backoff, clock.now());
    let mut results = Vec::new();
    let mut last_error: Option<FrontError> = None;
    loop {
        let step = batch.step(clock.now(), &mut || clock.jitter(1.0));
        for note in batch.take_notes() {
            log.record(Record {
                level: level_of(note.severity),
                target: target_of(activity),
                message: note.text,
                reference: None,
                local: true,
                error: last_error.clone().filter(|_| note.traceback),
            });
        }
        match step {
            BatchStep::Call(request) => {
                let call = ActivityCall {
                    activity,
                    handler: request.handler,
                    retry: request.retry,
                    started: request.started,
                    runtime_seconds: request.runtime_seconds,
                };
                let count = metrics.begin(&call.handler, call.retry, clock);
                let reply = front.call_activity(call).await;
                count.finish(&reply, clock);
                last_error = reply.error;
                let outcome = CallOutcome { result: reply.result, subrefs: Default::default() };
                batch.called(outcome, clock.now(), &mut || clock.jitter(1.0));
            }
            // The activities are always done all at once.
            BatchStep::Choose(_) | BatchStep::Finished => {
                results.extend(batch.take_results());
                if batch.done() {
                    break;
                }
                let delay = batch.delay(clock.now()).unwrap_or_default();
                clock.sleep(crate::seconds(delay)).await;
                batch.again();
            }
        }
    }
    let failures: Vec<String> = batch.failures().map(|(id, message)| format!("{id}: {message}")).collect();
    if failures.is_empty() { Ok(results) } else { Err(ActivityError { failures: failures.join("; ") }) }
}
