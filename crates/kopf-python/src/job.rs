//! What the engine asks of the front, as data in the queue.
//!
//! [`crate::front`] makes jobs of the engine's requests; [`crate::jobs`] makes Python objects of them.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{
    ActivityCall, CallReply, Configuration, CycleContext, FrontFailure, HandlerCall, Record, StorageContent,
    StorageQuestion, WebhookCall, WebhookContext, WebhookReply,
};
use kopf_object::Body;
use kopf_reaction::{FilterQuestion, Handler, HandlerState, Resource, StorageOperation};
use pyo3::prelude::*;
use serde_json::Value;
use tokio::sync::oneshot;

pub(crate) enum Job {
    CallHandler(Box<HandlerCall>, Reply<CallReply>),
    CallActivity(ActivityCall, Reply<CallReply>),
    CallWebhook(WebhookCall, Reply<WebhookReply>),
    EvaluateFilters(Arc<CycleContext>, Vec<FilterQuestion>, Reply<Result<Vec<bool>, FrontFailure>>),
    EvaluateReviewFilters(Arc<WebhookContext>, Vec<FilterQuestion>, Reply<Result<Vec<bool>, FrontFailure>>),
    EvaluateSelector(usize, Arc<Resource>, Reply<Result<bool, FrontFailure>>),
    ChooseHandlers(Arc<CycleContext>, Candidates, Reply<Result<Vec<usize>, FrontFailure>>),
    ComputeInitialDelay(Arc<CycleContext>, usize, Reply<Result<f64, FrontFailure>>),
    ReadStorage(Arc<CycleContext>, StorageQuestion, Reply<Result<StorageContent, FrontFailure>>),
    WriteStorage(Arc<CycleContext>, Vec<StorageOperation>, Reply<Result<Option<Value>, FrontFailure>>),
    TransformBody(Arc<CycleContext>, Body, Reply<Result<Value, FrontFailure>>),
    TransformReviewed(Arc<WebhookContext>, Body, Reply<Result<Value, FrontFailure>>),
    Configure(Reply<Result<Configuration, FrontFailure>>),
    ListActivities(Reply<Option<Vec<Arc<Handler>>>>),
    Ping(Reply<()>),
    /// The rest are notices: nobody awaits an answer.
    EmitLog(Record),
    Unindex {
        uid: Arc<str>,
        ids: Vec<Arc<str>>,
    },
    /// The number of a daemon's or a timer's call, and the reasons to stop it, as bits.
    StopCall {
        call_number: u64,
        reasons: u8,
    },
    SubHandlersDone {
        token: Py<PyAny>,
        done: bool,
        delay_seconds: Option<f64>,
    },
    ServeWebhooks,
    WebhookServer {
        number: u64,
        outcome: Result<Value, String>,
    },
    ReviewAnswered {
        token: Py<PyAny>,
        response: Value,
    },
    Ready,
    Finished(Option<String>),
}

/// The handlers among which the user's lifecycle function chooses, and their states by their ids.
pub(crate) struct Candidates {
    pub handlers: Vec<Arc<Handler>>,
    pub states: Vec<(Arc<str>, HandlerState)>,
}

/// Where the engine awaits the answer to a job. Only the first answer counts.
pub(crate) struct Reply<T>(Mutex<Option<oneshot::Sender<T>>>);

impl<T> Reply<T> {
    pub(crate) fn new(sender: oneshot::Sender<T>) -> Self {
        Self(Mutex::new(Some(sender)))
    }

    /// The engine's task may be gone: then nobody needs the answer.
    pub(crate) fn send(&self, answer: T) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = sender.send(answer);
        }
    }

    /// There will be no answer.
    pub(crate) fn abandon(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
