//! 6. The one way to call a user's function: wait for its concurrency limit, count the call, call, count the outcome.
//!
//! The cycles, the indexes, the daemons and timers, the activities and the webhooks call through it. Each of them
//! waits for the reply in its own way, in between [`Caller::start`] and [`StartedCall::finish`].

use std::sync::Arc;

use kopf_reaction::{CallError, Handler};
use tokio::sync::OwnedSemaphorePermit;

use super::{ConcurrencyLimits, WorkerPermit};
use crate::front::{CallReply, Front, FrontFailure};
use crate::metrics::{CallCount, Metrics};
use crate::support::{Clock, Log};

/// Who calls the users' functions of one operator.
pub(crate) struct Caller {
    pub front: Arc<dyn Front>,
    pub clock: Clock,
    pub log: Log,
    pub metrics: Metrics,
    limits: ConcurrencyLimits,
}

/// A call under way. It holds a place within the limit of its handler.
pub(crate) struct StartedCall<'a> {
    caller: &'a Caller,
    handler: Arc<Handler>,
    count: CallCount,
    _place: Option<OwnedSemaphorePermit>,
}

impl Caller {
    /// The limits are those of the handlers.
    pub(crate) fn new(
        front: Arc<dyn Front>,
        clock: Clock,
        log: Log,
        metrics: Metrics,
        handlers: &[Arc<Handler>],
    ) -> Self {
        Self { front, clock, log, metrics, limits: ConcurrencyLimits::new(handlers) }
    }

    /// Waits until the handler may be called. A worker lends its permit to others meanwhile.
    pub(crate) async fn start(
        &self,
        handler: &Arc<Handler>,
        retry: u32,
        worker: Option<&mut WorkerPermit>,
    ) -> StartedCall<'_> {
        let place = match (self.limits.of(handler), worker) {
            (None, _) => None,
            (Some(limit), Some(worker)) => worker.wait_for(limit).await,
            // The semaphores are never closed: an error cannot happen, and would only lift the limit.
            (Some(limit), None) => limit.acquire_owned().await.ok(),
        };
        let count = self.metrics.begin(handler, retry, &self.clock);
        StartedCall { caller: self, handler: Arc::clone(handler), count, _place: place }
    }
}

impl StartedCall<'_> {
    /// Counts the outcome, and lets the next call start.
    pub(crate) fn finish(self, reply: &CallReply) {
        self.count.finish(reply, &self.caller.clock);
    }

    /// The same, where nobody can go on without a reply.
    pub(crate) fn finish_unless_abandoned(self, reply: CallReply) -> Result<CallReply, FrontFailure> {
        self.count.finish(&reply, &self.caller.clock);
        match reply.result {
            Err(CallError::Abandoned) => {
                let message = format!("{} was given up without an answer", self.handler.title());
                Err(FrontFailure { message, error: reply.error })
            }
            _ => Ok(reply),
        }
    }
}
