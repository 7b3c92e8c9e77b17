//! Admission: what is asked by the cluster before it makes a change, whom to ask about it, what to answer.
//!
//! The engine parses a review here, picks the handlers, calls them, and has the answer built from what they said.
//! The texts and codes are part of the contract.

mod configuration;
mod conversion;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kopf_object::{Body, Diff, PatchOperation, diff};
use serde_json::{Map, Value, json};

pub use configuration::{WebhookPlan, webhook_url, webhooks};
pub use conversion::{
    ConversionFailure, ConversionReview, ConversionRoute, conversion_patch, conversion_path, find_duplicate_conversion,
    restore_metadata,
};

use crate::declare::deduplicated;
use crate::text::python_repr;
use crate::{
    CallError, FilterAnswers, FilterDepth, FilterQuestion, FilterSubject, Handler, HandlerType, Resource,
    WebhookOptions, WebhookType, select_handlers,
};

/// Why a review cannot be answered: the request itself is bad, whatever change it is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// It is not a review at all, or a part of it is not there.
    #[error("{0}")]
    MissingData(String),
    /// No handler is for this resource.
    #[error("The specified resource has no handlers: {0}")]
    UnknownResource(String),
    /// The operator stops, or its front is gone.
    #[error("{0}")]
    Unavailable(String),
}

impl ReviewError {
    /// The code of HTTP for it.
    pub const fn code(&self) -> u16 {
        match self {
            Self::MissingData(_) => 400,
            Self::UnknownResource(_) => 404,
            Self::Unavailable(_) => 503,
        }
    }
}

/// One request of the cluster, taken apart.
#[derive(Clone, Debug)]
pub struct AdmissionReview {
    api_version: Value,
    kind: Value,
    uid: Value,
    pub operation: Option<String>,
    pub subresource: Option<String>,
    pub dry_run: bool,
    pub user_info: Value,
    /// The object in question: as it should be, or as it is when it is to be deleted.
    pub body: Body,
    pub old: Option<Value>,
    pub new: Option<Value>,
    pub diff: Diff,
    resource: Map<String, Value>,
}

impl AdmissionReview {
    pub fn parse(review: &Value) -> Result<Self, ReviewError> {
        let missing = |text: &str| ReviewError::MissingData(text.to_owned());
        let request = review
            .get("request")
            .and_then(Value::as_object)
            .ok_or_else(|| missing("It is not an admission request."))?;
        let present = |key: &str| request.get(key).filter(|value| !value.is_null());
        let text = |key: &str| present(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let object = |key: &str| present(key).filter(|value| value.is_object()).cloned();
        let resource = present("resource")
            .and_then(Value::as_object)
            .ok_or_else(|| missing("The resource is missing from the admission request."))?;
        let user_info =
            present("userInfo").cloned().ok_or_else(|| missing("User info is missing from the admission request."))?;
        let (new, old) = (object("object"), object("oldObject"));
        let body = new
            .as_ref()
            .or(old.as_ref())
            .cloned()
            .ok_or_else(|| missing("Either old or new object is missing from the admission request."))?;
        Ok(Self {
            api_version: review.get("apiVersion").cloned().unwrap_or_else(|| json!("admission.k8s.io/v1")),
            kind: review.get("kind").cloned().unwrap_or_else(|| json!("AdmissionReview")),
            uid: request.get("uid").cloned().unwrap_or_else(|| json!("")),
            operation: text("operation"),
            subresource: text("subResource"),
            dry_run: present("dryRun").and_then(Value::as_bool).unwrap_or_default(),
            user_info,
            diff: diff(old.as_ref(), new.as_ref()),
            body: Body::from_value(body),
            old,
            new,
            resource: resource.clone(),
        })
    }

    /// The resource that the request names, among those that webhooks are for.
    pub fn find_resource(&self, resources: &[Arc<Resource>]) -> Result<Arc<Resource>, ReviewError> {
        let part = |key: &str| self.resource.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version, plural) = (part("group"), part("version"), part("resource"));
        let named = |resource: &&Arc<Resource>| {
            resource.group == group && resource.version == version && resource.plural == plural
        };
        let unknown = || ReviewError::UnknownResource(python_repr(&Value::Object(self.resource.clone())));
        resources.iter().find(named).cloned().ok_or_else(unknown)
    }

    /// The handlers to be asked, before their filters: by the path of the request, the operation, the subresource.
    ///
    /// `webhook` is the id of the handler that the path names; None if it names none.
    pub fn candidates(&self, handlers: &[Arc<Handler>], webhook: Option<&str>) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.handler_type == HandlerType::Webhook)
            .filter(|handler| webhook.is_none_or(|id| *handler.id == *id))
            .filter(|handler| handler.webhook.as_ref().is_some_and(|options| self.concerns(options)))
            .cloned()
            .collect()
    }

    fn concerns(&self, options: &WebhookOptions) -> bool {
        let operations = options.operations.as_deref().unwrap_or_default();
        let deleting = self.operation.as_deref() == Some("DELETE");
        // Nothing can be changed in what goes away, so that only those are called who want just that.
        let suitable = match options.webhook_type {
            WebhookType::Validating => true,
            WebhookType::Mutating => !deleting || (operations.len() == 1 && operations[0] == "DELETE"),
            WebhookType::Converting => false,
        };
        let operation = self.operation.as_deref().is_none_or(|operation| {
            operations.is_empty() || operations.iter().any(|known| known == operation || known == "*")
        });
        let subresource = options.subresource.as_deref() == Some("*")
            || options.subresource.as_deref() == self.subresource.as_deref();
        suitable && operation && subresource
    }

    /// Those of the candidates that match by their filters; or the questions to be answered first.
    pub fn matching(
        &self,
        candidates: &[Arc<Handler>],
        answers: &FilterAnswers,
    ) -> Result<Vec<Arc<Handler>>, Vec<FilterQuestion>> {
        let subject = FilterSubject { body: &self.body, change: None };
        select_handlers(&deduplicated(candidates.to_vec()), subject, FilterDepth::Full, answers)
    }

    /// What the cluster is told.
    pub fn answer(&self, refusals: &[Denial], warnings: &[String], patch: &[PatchOperation]) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": refusals.is_empty()});
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        if !patch.is_empty() {
            response["patch"] = Value::from(STANDARD.encode(json!(patch).to_string()));
            response["patchType"] = json!("JSONPatch");
        }
        // The first one of the best rank: those who refuse on purpose know best what to say.
        if let Some(refusal) = refusals.iter().min_by_key(|refusal| refusal.rank) {
            response["status"] = json!({"message": refusal.message, "code": refusal.code});
        }
        json!({"apiVersion": self.api_version, "kind": self.kind, "response": response})
    }
}

/// Why one handler does not let a change pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    rank: u8,
    message: String,
    code: u16,
}

/// The code of a refusal without one.
const DEFAULT_CODE: u16 = 500;

impl From<&CallError> for Denial {
    fn from(error: &CallError) -> Self {
        let (rank, message, code) = match error {
            CallError::Denied { display, code, .. } => (0, display.clone(), code.unwrap_or(DEFAULT_CODE)),
            CallError::Permanent { display, .. } => (1, display.clone(), DEFAULT_CODE),
            CallError::Exhausted { message } => (1, message.clone(), DEFAULT_CODE),
            CallError::Temporary { display, .. } => (2, display.clone(), DEFAULT_CODE),
            CallError::Arbitrary { display, .. } => (9, display.clone(), DEFAULT_CODE),
            CallError::TimedOut => (9, "The handler has timed out.".to_owned(), DEFAULT_CODE),
            CallError::Abandoned => (9, "The operator is stopping.".to_owned(), 503),
            CallError::ChildrenRetry { .. } => (9, "Admission handlers have no sub-handlers.".to_owned(), DEFAULT_CODE),
        };
        Self { rank, message, code }
    }
}

#[cfg(test)]
mod tests;
