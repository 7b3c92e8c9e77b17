//! Admission: the reviews that the API server requests before it makes a change.
//!
//! The engine parses a review here, selects the handlers, calls them, and builds the response from their outcomes. The
//! texts and codes are part of the contract with users.

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

/// Why the operator cannot answer a review at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The request is not a review, or is incomplete.
    #[error("{0}")]
    MissingData(String),
    /// No handler serves this resource.
    #[error("The specified resource has no handlers: {0}")]
    UnknownResource(String),
    /// The operator is stopping.
    #[error("{0}")]
    Unavailable(String),
}

impl ReviewError {
    /// The HTTP status code.
    pub const fn code(&self) -> u16 {
        match self {
            Self::MissingData(_) => 400,
            Self::UnknownResource(_) => 404,
            Self::Unavailable(_) => 503,
        }
    }
}

/// One request of the API server.
#[derive(Clone, Debug)]
pub struct AdmissionReview {
    api_version: Value,
    kind: Value,
    uid: Value,
    /// Such as `CREATE`.
    pub operation: Option<String>,
    /// Such as `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// The API server only checks the change, and does not make it.
    pub dry_run: bool,
    /// Who makes the change.
    pub user_info: Value,
    /// The object after the change, or before its deletion.
    pub body: Body,
    /// The object before the change.
    pub old: Option<Value>,
    /// The object after the change.
    pub new: Option<Value>,
    /// The changes from `old` to `new`.
    pub diff: Diff,
    resource: Map<String, Value>,
}

impl AdmissionReview {
    /// Reads the request.
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

    /// The resource of the request, among those that have webhooks.
    pub fn find_resource(&self, resources: &[Arc<Resource>]) -> Result<Arc<Resource>, ReviewError> {
        let part = |key: &str| self.resource.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version, plural) = (part("group"), part("version"), part("resource"));
        let named = |resource: &&Arc<Resource>| {
            resource.group == group && resource.version == version && resource.plural == plural
        };
        let unknown = || ReviewError::UnknownResource(python_repr(&Value::Object(self.resource.clone())));
        resources.iter().find(named).cloned().ok_or_else(unknown)
    }

    /// The handlers for the path, the operation and the subresource of the request, before their filters.
    ///
    /// `webhook` is the id of the handler in the path of the request, if there is one.
    pub fn candidates(&self, handlers: &[Arc<Handler>], webhook: Option<&str>) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.handler_type == HandlerType::Webhook)
            .filter(|handler| webhook.is_none_or(|id| *handler.id == *id))
            .filter(|handler| handler.webhook.as_ref().is_some_and(|options| self.is_for(options)))
            .cloned()
            .collect()
    }

    fn is_for(&self, options: &WebhookOptions) -> bool {
        let operations = options.operations.as_deref().unwrap_or_default();
        let deleting = self.operation.as_deref() == Some("DELETE");
        // A deleted object cannot be modified: call only mutating handlers that are for deletions alone.
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

    /// Selects the candidates that match by their filters; or returns the questions to ask the front first.
    pub fn matching(
        &self,
        candidates: &[Arc<Handler>],
        answers: &FilterAnswers,
    ) -> Result<Vec<Arc<Handler>>, Vec<FilterQuestion>> {
        let subject = FilterSubject { body: &self.body, change: None };
        select_handlers(&deduplicated(candidates.to_vec()), subject, FilterDepth::Full, answers)
    }

    /// Builds the response.
    pub fn answer(&self, denials: &[Denial], warnings: &[String], patch: &[PatchOperation]) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": denials.is_empty()});
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        if !patch.is_empty() {
            response["patch"] = Value::from(STANDARD.encode(json!(patch).to_string()));
            response["patchType"] = json!("JSONPatch");
        }
        // The first one of the best rank: a deliberate denial has the best message.
        if let Some(denial) = denials.iter().min_by_key(|denial| denial.rank) {
            response["status"] = json!({"message": denial.message, "code": denial.code});
        }
        json!({"apiVersion": self.api_version, "kind": self.kind, "response": response})
    }
}

/// Why one handler denies a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    rank: u8,
    message: String,
    code: u16,
}

/// The HTTP status code of a denial without one.
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
