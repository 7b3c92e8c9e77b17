//! Sub-handlers: the way from a handler in flight back to the cycle that has called it.

use std::sync::Arc;

use futures::SinkExt as _;
use futures::channel::mpsc;
use kopf_reaction::{Handler, Lifecycle};
use tokio::sync::oneshot;

/// The way from a handler in flight back to the engine.
#[derive(Clone)]
pub struct Children {
    requests: mpsc::Sender<ChildrenRequest>,
}

/// Sub-handlers to be looked at.
pub struct ChildrenRequest {
    pub handlers: Vec<Arc<Handler>>,
    pub lifecycle: Option<Lifecycle>,
    pub reply: oneshot::Sender<ChildrenReply>,
}

/// The outcome of one batch of sub-handlers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChildrenReply {
    pub done: bool,
    /// Seconds until the next one is due.
    pub delay_seconds: Option<f64>,
}

impl Children {
    /// The way of one call, and its other end.
    pub fn channel() -> (Self, mpsc::Receiver<ChildrenRequest>) {
        // They are served one after another: the next one waits. (That of tokio takes 2 KiB for each call.)
        let (requests, receiver) = mpsc::channel(0);
        (Self { requests }, receiver)
    }

    /// Runs one batch of sub-handlers; None if the cycle is over.
    pub async fn execute(&self, handlers: Vec<Arc<Handler>>, lifecycle: Option<Lifecycle>) -> Option<ChildrenReply> {
        let (reply, answer) = oneshot::channel();
        self.requests.clone().send(ChildrenRequest { handlers, lifecycle, reply }).await.ok()?;
        answer.await.ok()
    }
}
