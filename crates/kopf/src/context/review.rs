//! Admission and conversion: what the handlers of webhooks learn about the request, beside the object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::authentication::v1::UserInfo;
use kopf_engine::WebhookContext;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::patch::Patch;

/// Who requests which change of the object: a parameter of validating and mutating handlers.
///
/// ```
/// use kopf::extract::{Review, Warnings};
/// use kopf::webhook::Operation;
/// use kopf::{Error, Operator, on};
///
/// async fn protect(review: Review, warnings: Warnings) -> kopf::Result<()> {
///     if review.operation == Operation::Delete && !review.dry_run {
///         let user = review.user.username.as_deref().unwrap_or("nobody");
///         return Err(Error::denied(403, format!("{user} must not delete it")));
///     }
///     warnings.add("The object is protected from deletion.");
///     Ok(())
/// }
/// # let _: Operator = Operator::new().on(on::validate("caches"), protect);
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Review {
    /// What the user wants to do with the object.
    pub operation: Operation,
    /// The subresource that is to be changed, such as `status`; None for the object itself.
    #[serde(default)]
    pub subresource: Option<String>,
    /// The cluster will not make the change, whatever the answer is.
    #[serde(default, rename = "dryrun")]
    pub dry_run: bool,
    /// Who requests the change.
    #[serde(default, rename = "userinfo", deserialize_with = "null_as_default")]
    pub user: UserInfo,
    /// The headers of the cluster's request.
    #[serde(default, deserialize_with = "null_as_default")]
    pub headers: BTreeMap<String, String>,
    /// The certificate of the cluster as a client; empty if it shows none.
    #[serde(default, rename = "sslpeer")]
    pub peer: Value,
}

impl Review {
    /// A review of this operation by nobody, for calling handlers in tests.
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            subresource: None,
            dry_run: false,
            user: UserInfo::default(),
            headers: BTreeMap::new(),
            peer: Value::Null,
        }
    }
}

/// The engine sends nulls where the cluster sent nothing.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// What a user wants to do with an object under review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Create the object.
    Create,
    /// Replace or patch the object.
    Update,
    /// Delete the object.
    Delete,
    /// Connect to a subresource, such as `exec` of a pod.
    Connect,
}

impl Operation {
    /// The operation as Kubernetes writes it, such as `CREATE`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// From which version to which the cluster wants the object converted: a parameter of converting handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Conversion {
    /// The version that the object has.
    #[serde(rename = "from_version")]
    pub from: String,
    /// The version that the object should have.
    #[serde(rename = "to_version")]
    pub to: String,
}

/// Messages that the user gets even if the change is accepted: a parameter of validating and mutating handlers.
/// Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    messages: Arc<Mutex<Vec<String>>>,
}

impl Warnings {
    /// No warnings yet, for calling handlers in tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn add(&self, message: impl Into<String>) {
        self.lock().push(message.into());
    }

    /// All messages so far.
    pub fn messages(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all calls of one review share, beside the object. The engine keeps it in the front's slot of the review.
#[derive(Debug)]
pub(crate) struct ReviewState {
    pub(crate) patch: Patch,
    pub(crate) warnings: Warnings,
    pub(crate) request: ReviewRequest,
}

/// What the cluster asks about the object.
#[derive(Clone, Debug)]
pub(crate) enum ReviewRequest {
    /// Whether to make the change.
    Admission(Arc<Review>),
    /// How the object looks in another version.
    Conversion(Conversion),
    /// Something else; the message says what is wrong with it.
    Unreadable(String),
}

impl ReviewState {
    /// The state of the review; made by the first call of it.
    pub(crate) fn of(webhook: &WebhookContext) -> Arc<Self> {
        let slot = webhook.slot.get_or_init(|| Box::new(Arc::new(Self::new(webhook))));
        slot.downcast_ref::<Arc<Self>>().map_or_else(|| Arc::new(Self::new(webhook)), Arc::clone)
    }

    fn new(webhook: &WebhookContext) -> Self {
        let facts = &webhook.facts;
        let request = if facts.get("to_version").is_some() {
            Conversion::deserialize(facts).map(ReviewRequest::Conversion)
        } else {
            Review::deserialize(facts).map(|review| ReviewRequest::Admission(Arc::new(review)))
        };
        let request = request.unwrap_or_else(|error| ReviewRequest::Unreadable(error.to_string()));
        Self { patch: Patch::new(), warnings: Warnings::new(), request }
    }
}
