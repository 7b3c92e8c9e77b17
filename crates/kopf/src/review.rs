//! Admission and conversion: what handlers of webhooks get beside the object, and where they are served.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kopf_engine::{CycleContext, FrontSlot, WebhookContext};
use kopf_reaction::{Cause, Reason};
use serde::Deserialize;
use serde_json::Value;

use crate::extract::FromCall;
use crate::{Call, Context, Result};

/// What is asked about an object, by whom and how: a parameter of handlers of webhooks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Review {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: Option<String>,
    /// Such as `status`; None for the object itself.
    pub subresource: Option<String>,
    /// Nothing will come of it, whatever the answer is.
    #[serde(rename = "dryrun")]
    pub dry_run: bool,
    /// Who wants the change: `username`, `uid`, `groups`.
    #[serde(rename = "userinfo")]
    pub user: Value,
    /// The headers of the request of the cluster.
    pub headers: Value,
    /// The certificate of the cluster as a client; empty if it shows none.
    #[serde(rename = "sslpeer")]
    pub peer: Value,
    /// Of conversions: the version that the object has.
    pub from_version: Option<String>,
    /// Of conversions: the version that the object should have.
    pub to_version: Option<String>,
}

/// What the user is told even if the change is made: a parameter of handlers of webhooks.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    texts: Arc<Mutex<Vec<String>>>,
}

impl Warnings {
    /// No warnings yet, for calling handlers in tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn add(&self, text: impl Into<String>) {
        self.lock().push(text.into());
    }

    /// All of them.
    pub fn texts(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the calls of one review share beside the object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reviewed {
    pub(crate) review: Arc<Review>,
    pub(crate) warnings: Warnings,
}

/// The context of a review: the same for all its handlers.
pub(crate) fn context_of(webhook: &Arc<WebhookContext>) -> Context {
    let made = webhook.slot.get_or_init(|| Box::new(new_context(webhook)));
    made.downcast_ref::<Context>().cloned().unwrap_or_else(|| new_context(webhook))
}

fn new_context(webhook: &Arc<WebhookContext>) -> Context {
    let cause = Cause {
        body: webhook.body.clone(),
        event: None,
        reason: Reason::Noop,
        initial: false,
        old: webhook.old.clone(),
        new: webhook.new.clone(),
        diff: webhook.diff.clone(),
        deletion_ongoing: webhook.body.deletion_timestamp().is_some(),
    };
    let cycle = CycleContext {
        uid: webhook.body.object_uid().into(),
        resource: Arc::clone(&webhook.resource),
        body: webhook.body.clone(),
        event: None,
        finalizer: "".into(),
        cause: OnceLock::from(Arc::new(cause)),
        slot: FrontSlot::new(),
        memory: Arc::clone(&webhook.memory),
    };
    let review: Review = serde_json::from_value(webhook.facts.clone()).unwrap_or_default();
    Context::of_review(Arc::new(cycle), Reviewed { review: Arc::new(review), warnings: Warnings::new() })
}

impl<S: Sync> FromCall<S> for Review {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let reviewed = call.context().reviewed().ok_or_else(|| call.reject("it is not under review"))?;
        Ok(reviewed.review.as_ref().clone())
    }
}

impl<S: Sync> FromCall<S> for Warnings {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let reviewed = call.context().reviewed().ok_or_else(|| call.reject("it is not under review"))?;
        Ok(reviewed.warnings.clone())
    }
}
