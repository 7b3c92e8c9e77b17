//! The webhook servers of one operator: the engine's own, and those that users have written in Python.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{Admission, Review, ServerOptions};
use pyo3::prelude::*;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::bridge::Bridge;
use crate::job::Job;

#[derive(Default)]
pub(crate) struct Webhooks {
    /// Set while the webhooks may be served.
    admission: Mutex<Option<Admission>>,
    /// The running servers, by the numbers under which the front knows them.
    servers: Mutex<HashMap<u64, AbortHandle>>,
}

impl Webhooks {
    pub(crate) fn set(&self, admission: Admission) {
        *self.admission.lock().unwrap_or_else(PoisonError::into_inner) = Some(admission);
    }

    fn admission(&self) -> Option<Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops all servers, at the end of the operator.
    pub(crate) fn close(&self) {
        let admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(admission);
        for (_, server) in self.servers.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            server.abort();
        }
    }

    pub(crate) fn announce(&self, client_config: Value) -> bool {
        let Some(admission) = self.admission() else { return false };
        admission.announce(client_config);
        true
    }

    /// Starts the engine's server. A job with the number follows for each of its addresses, and for its error.
    /// Returns whether webhooks can be served at all.
    pub(crate) fn serve(&self, number: u64, options: ServerOptions, bridge: &Arc<Bridge>) -> bool {
        let (Some(admission), Some(runtime)) = (self.admission(), bridge.runtime.get()) else { return false };
        let bridge = Arc::clone(bridge);
        let task = runtime.spawn(async move {
            let reporting = Arc::clone(&bridge);
            let report = move |config: Value| reporting.queue.put(Job::WebhookServer { number, outcome: Ok(config) });
            if let Err(error) = kopf_engine::serve_webhooks(&admission, options, report).await {
                bridge.queue.put(Job::WebhookServer { number, outcome: Err(error.to_string()) });
            }
        });
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = servers.insert(number, task.abort_handle()) {
            earlier.abort();
        }
        true
    }

    pub(crate) fn stop(&self, number: u64) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.remove(&number) {
            server.abort();
        }
    }

    /// Answers a review that a server of the user has received, by a job with the token.
    /// Returns whether webhooks can be served at all.
    pub(crate) fn review(&self, token: Py<PyAny>, review: Review, bridge: &Arc<Bridge>) -> bool {
        let (Some(admission), Some(runtime)) = (self.admission(), bridge.runtime.get()) else { return false };
        let bridge = Arc::clone(bridge);
        runtime.spawn(async move {
            let response = match admission.review(review).await {
                Ok(response) => response,
                Err(error) => json!({"error": error.to_string(), "code": error.code()}),
            };
            bridge.queue.put(Job::ReviewAnswered { token, response });
        });
        true
    }
}
