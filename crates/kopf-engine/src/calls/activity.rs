//! The activities of the operator: startup, cleanup, login, probes. Their handlers are called until all are done.

use std::sync::Arc;

use kopf_reaction::{Activity, Batch, BatchStep, CallOutcome, ErrorsMode, Handler, Note};
use serde_json::Value;

use super::Caller;
use crate::front::ActivityCall;
use crate::support::FrontError;

/// Some handlers of an activity have failed for good.
#[derive(Debug, thiserror::Error)]
#[error("One or more handlers failed: {failures}")]
pub struct ActivityError {
    pub failures: String,
}

/// Calls the handlers of an activity, with retries, and returns their results.
pub(crate) async fn run_activity(
    caller: &Caller,
    activity: Activity,
    handlers: &[Arc<Handler>],
    default_backoff: f64,
) -> Result<Vec<(Arc<str>, Value)>, ActivityError> {
    let Caller { front, clock, log, .. } = caller;
    let handlers = handlers_of(activity, handlers);
    let mut batch = Batch::transient(handlers, ErrorsMode::Temporary, true, default_backoff, clock.now());
    let mut results = Vec::new();
    let mut last_error: Option<FrontError> = None;
    loop {
        let step = batch.step(clock.now(), &mut || clock.jitter(1.0));
        log.notes(logger_of(activity), None, batch.take_notes().into_iter().map(Note::local), last_error.as_ref());
        match step {
            BatchStep::Call(request) => {
                let started = caller.start(&request.handler, request.retry, None).await;
                let reply = front.call_activity(ActivityCall {
                    activity,
                    handler: request.handler,
                    retry: request.retry,
                    started: request.started,
                    runtime_seconds: request.runtime_seconds,
                });
                let reply = reply.await;
                started.finish(&reply);
                last_error = reply.error;
                let outcome = CallOutcome { result: reply.result, subrefs: Default::default() };
                batch.called(outcome, clock.now(), &mut || clock.jitter(1.0));
            }
            // The handlers of an activity are always chosen all at once.
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

/// The logger of an activity.
pub(crate) const fn logger_of(activity: Activity) -> &'static str {
    match activity {
        Activity::Startup => "kopf.activities.startup",
        Activity::Cleanup => "kopf.activities.cleanup",
        Activity::Authentication => "kopf.activities.authentication",
        Activity::Probe => "kopf.activities.probe",
    }
}

/// The handlers of an activity; the fallback handlers only if there are no others.
fn handlers_of(activity: Activity, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
    let all: Vec<_> = handlers.iter().filter(|handler| handler.activity == Some(activity)).cloned().collect();
    if all.iter().any(|handler| !handler.fallback) {
        all.into_iter().filter(|handler| !handler.fallback).collect()
    } else {
        all
    }
}
