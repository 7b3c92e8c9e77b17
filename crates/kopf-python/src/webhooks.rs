//! What receives the requests of the cluster: the engine's own server, or one of the user's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{Admission, Review, ServerOptions};
use pyo3::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::job::Work;
use crate::mailbox::Mailbox;

/// The webhooks of one operator.
#[derive(Default)]
pub(crate) struct Webhooks {
    /// Set while the webhooks may be served.
    admission: Mutex<Option<Admission>>,
    /// The running servers, by the numbers under which the front knows them.
    servers: Mutex<HashMap<u64, AbortHandle>>,
}

impl Webhooks {
    pub fn set(&self, admission: Admission) {
        *self.admission.lock().unwrap_or_else(PoisonError::into_inner) = Some(admission);
    }

    fn admission(&self) -> Option<Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The operator has ended: nothing is served any more.
    pub fn close(&self) {
        let admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(admission);
        for (_, server) in self.servers.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            server.abort();
        }
    }

    pub fn announce(&self, client_config: Value) -> bool {
        let Some(admission) = self.admission() else { return false };
        admission.announce(client_config);
        true
    }

    /// Serves under the options; each address comes as a job with the number, and so does the error.
    pub fn serve(&self, number: u64, options: ServerOptions, handle: &Handle, mailbox: &Arc<Mailbox>) -> bool {
        let Some(admission) = self.admission() else { return false };
        let mailbox = Arc::clone(mailbox);
        let task = handle.spawn(async move {
            let told = Arc::clone(&mailbox);
            let tell = move |config: Value| told.put(Work::Served { number, outcome: Ok(config) });
            if let Err(error) = kopf_engine::serve_webhooks(&admission, options, tell).await {
                mailbox.put(Work::Served { number, outcome: Err(error.to_string()) });
            }
        });
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = servers.insert(number, task.abort_handle()) {
            earlier.abort();
        }
        true
    }

    pub fn stop(&self, number: u64) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.remove(&number) {
            server.abort();
        }
    }

    /// Answers a request that a server of the user has received: by a job with the token.
    pub fn review(&self, token: Py<PyAny>, review: Review, handle: &Handle, mailbox: &Arc<Mailbox>) -> bool {
        let Some(admission) = self.admission() else { return false };
        let mailbox = Arc::clone(mailbox);
        handle.spawn(async move {
            let outcome = match admission.review(review).await {
                Ok(answer) => answer,
                Err(error) => json!({"error": error.to_string(), "code": error.code()}),
            };
            mailbox.put(Work::Reviewed { token, outcome });
        });
        true
    }
}
