//! Webhooks: how a server of the front has reviews answered, and how the handlers are called for them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_object::{Body, Diff};
use kopf_reaction::{CallError, Handler, Resource, ReviewError};
use serde_json::Value;

use super::{CallReply, FrontSlot};
use crate::{Clock, Log};

/// Where a server of webhooks has reviews answered. Clones are the same.
#[derive(Clone)]
pub struct Admission {
    pub(crate) reviewer: Arc<dyn Reviewer>,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
}

impl Admission {
    /// Answers one review.
    pub async fn review(&self, review: Review) -> Result<Value, ReviewError> {
        self.reviewer.review(review).await
    }

    /// Tells where the cluster finds the webhooks, for the managed configurations.
    pub fn announce(&self, client_config: Value) {
        self.reviewer.announce(client_config);
    }

    /// Waits for the end of the operator.
    pub async fn closed(&self) {
        self.reviewer.closed().await;
    }
}

/// The engine's side of [`Admission`].
pub(crate) trait Reviewer: Send + Sync {
    fn review(&self, review: Review) -> BoxFuture<'_, Result<Value, ReviewError>>;

    fn announce(&self, client_config: Value);

    fn closed(&self) -> BoxFuture<'_, ()>;
}

/// One request of the cluster, as a server has received it.
#[derive(Clone, Debug, Default)]
pub struct Review {
    /// The whole review.
    pub content: Value,
    /// The id of the handler, from the path; None if the server knows none.
    pub webhook: Option<String>,
    /// The headers of the request.
    pub headers: Value,
    /// The certificate of the client, in the form of Python's `ssl`; empty if there is none.
    pub peer: Value,
    /// How long the client waits, if it says so.
    pub timeout: Option<Duration>,
}

/// What all calls for one object under review share.
pub struct WebhookContext {
    pub resource: Arc<Resource>,
    pub body: Body,
    pub old: Option<Value>,
    pub new: Option<Value>,
    pub diff: Diff,
    /// All other things about the request: `operation`, `subresource`, `dryrun`, `userinfo`, `headers`, `sslpeer`;
    /// or `from_version` and `to_version` of a conversion.
    pub facts: Value,
    /// The front's own things for the time of the review: views, the patch, the warnings.
    pub slot: FrontSlot,
    /// The front's own things for the life of the object: the memo.
    pub memory: Arc<FrontSlot>,
}

/// One call of a handler of webhooks.
pub struct WebhookCall {
    pub handler: Arc<Handler>,
    pub context: Arc<WebhookContext>,
    pub started: jiff::Timestamp,
}

/// What a call came to.
pub struct WebhookReply {
    pub call: CallReply,
    /// All the warnings of the review so far.
    pub warnings: Vec<String>,
}

impl WebhookReply {
    /// The front is gone.
    pub fn abandoned() -> Self {
        let call = CallReply { result: Err(CallError::Abandoned), error: None, patch: None, transformations: false };
        Self { call, warnings: Vec::new() }
    }
}
