//! Errors as the server reports them: `metav1.Status` objects.
//!
//! Every step of a request returns a [`StatusError`]; `http/service.rs` sends it. Clients compare reasons,
//! codes and sometimes whole messages, so each constructor uses the words of the real server.

use serde_json::{Map, Value, json};

use crate::catalog::ResourceType;
use crate::go::FieldError;

/// An error response, ready to be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub(crate) struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty where the server gives none.
    pub reason: &'static str,
    pub message: String,
    /// The object that the error is about, and the causes; null where the server gives none.
    pub details: Box<Value>,
    /// A new continue token, if the list cannot continue with the old one.
    pub continue_token: Option<String>,
    /// The whole status, if a webhook provided it.
    pub given: Option<Box<Value>>,
    /// Warnings to send along.
    pub warnings: Vec<String>,
}

impl StatusError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>, details: Value) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Box::new(details),
            continue_token: None,
            given: None,
            warnings: Vec::new(),
        }
    }

    /// A webhook rejected the request, in its own words.
    pub(crate) fn given(code: u16, message: impl Into<String>, status: Value) -> Self {
        Self { given: Some(Box::new(status)), ..Self::new(code, "", message, Value::Null) }
    }

    /// The same, with warnings about the request.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings = warnings.to_vec();
        self
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message, Value::Null)
    }

    /// The token is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", Value::Null)
    }

    /// The API has no such resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource", json!({}))
    }

    /// The resource does not support this verb.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message, json!({}))
    }

    /// The server cannot send any media type that the client accepts.
    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message, Value::Null)
    }

    /// The same for built-in kinds, whose message lists the available representations.
    pub(crate) fn no_such_representation(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::new(406, "NotAcceptable", message, json!({}))
    }

    /// The client asked for a list as an object, or for an object as a list.
    pub(crate) fn unfit_form(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message, Value::Null)
    }

    /// The server does not read the media type of the body.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message, Value::Null)
    }

    /// The media type of a patch is unknown.
    pub(crate) fn unsupported_patch_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type", json!({}))
    }

    /// The body exceeds the limit.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"), Value::Null)
    }

    /// Something other than the body exceeds its limit.
    pub(crate) fn request_entity_too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message, Value::Null)
    }

    /// There is no such object.
    pub(crate) fn not_found(resource: &ResourceType, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message, details(resource, name))
    }

    /// The object exists already; it may be terminating.
    pub(crate) fn already_exists(resource: &ResourceType, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message, details(resource, name))
    }

    /// Another client changed the object first.
    pub(crate) fn modified(resource: &ResourceType, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object is not in the state that the request expects.
    pub(crate) fn conflict(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message, details(resource, name))
    }

    /// The same for preconditions of deletions, whose message names the kind instead of the resource.
    pub(crate) fn precondition(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_kind());
        Self::new(409, "Conflict", message, details_of_kind(resource, name))
    }

    /// The object is not valid.
    pub(crate) fn invalid(resource: &ResourceType, name: &str, errors: &[FieldError]) -> Self {
        let message =
            format!("{} \"{name}\" is invalid: {}", resource.qualified_kind(), FieldError::message_of_all(errors));
        let mut details = details_of_kind(resource, name);
        if let Some(details) = details.as_object_mut() {
            details.insert("causes".into(), FieldError::causes(errors));
        }
        Self::new(422, "Invalid", message, details)
    }

    /// The same for a kind that only occurs as a subresource.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind}.{group} \"{name}\" is invalid: {}", FieldError::message_of_all(errors));
        let details = json!({"name": name, "group": group, "kind": kind, "causes": FieldError::causes(errors)});
        Self::new(422, "Invalid", message, details)
    }

    /// The options of a request are not valid.
    pub(crate) fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", FieldError::message_of_all(errors));
        let details = json!({"group": "meta.k8s.io", "kind": kind, "causes": FieldError::causes(errors)});
        Self::new(422, "Invalid", message, details)
    }

    /// The server can read the patch, but not apply it.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message, json!({}))
    }

    /// The server cannot decode the patched object.
    pub(crate) fn invalid_patch(shown: String, problem: &str) -> Self {
        let error = FieldError::invalid("patch", json!(shown), problem);
        let message = format!(" \"\" is invalid: {error}");
        Self::new(422, "Invalid", message, json!({"causes": FieldError::causes(&[error])}))
    }

    /// The namespace is terminating and accepts no new objects.
    pub(crate) fn terminating(resource: &ResourceType, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status_error = Self::forbidden(resource, name, &why);
        let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {namespace} is being terminated")});
        if let Some(details) = status_error.details.as_object_mut() {
            details.insert("causes".into(), json!([cause]));
        }
        status_error
    }

    /// The server understands the request, but forbids it.
    pub(crate) fn forbidden(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message, details(resource, name))
    }

    /// The history does not reach back to the requested version.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message, Value::Null)
    }

    /// The requested version is in the future.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message, json!({"causes": [cause], "retryAfterSeconds": 1}))
    }

    /// The client did not send the whole body in time.
    pub(crate) fn slow_body() -> Self {
        Self::new(408, "Timeout", "the body of the request was not sent in time", Value::Null)
    }

    /// The server failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({"causes": [{"message": message}]});
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"), details)
    }

    /// The error of an injected fault, as sent; without a reason, the usual one for the code.
    pub(crate) fn on_demand(
        code: u16,
        reason: Option<String>,
        message: Option<String>,
        retry_after: Option<u32>,
    ) -> Value {
        let usual = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "Unknown",
        };
        let details = retry_after.map_or(Value::Null, |seconds| json!({"retryAfterSeconds": seconds}));
        let message = message.unwrap_or_else(|| "a fault on demand".to_owned());
        let mut status = Self::new(code, usual, message, details).to_value();
        if let Some(reason) = reason {
            status["reason"] = json!(reason);
        }
        status
    }

    /// An error without a reason, as the server sends it for a few unusual requests.
    pub(crate) fn bare(message: impl Into<String>) -> Self {
        Self::new(500, "", message, Value::Null)
    }

    /// The `Status` object to send.
    pub(crate) fn to_value(&self) -> Value {
        if let Some(given) = &self.given {
            return (**given).clone();
        }
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = Map::new();
        status.insert("kind".into(), json!("Status"));
        status.insert("apiVersion".into(), json!("v1"));
        status.insert("metadata".into(), Value::Object(metadata));
        status.insert("status".into(), json!("Failure"));
        status.insert("message".into(), json!(self.message));
        if !self.reason.is_empty() {
            status.insert("reason".into(), json!(self.reason));
        }
        if !self.details.is_null() {
            status.insert("details".into(), (*self.details).clone());
        }
        status.insert("code".into(), json!(self.code));
        Value::Object(status)
    }
}

/// The response to a deletion that removed the object.
pub(crate) fn deleted(resource: &ResourceType, name: &str, uid: &str) -> Value {
    let mut details = details(resource, name);
    if let Some(details) = details.as_object_mut() {
        details.insert("uid".into(), json!(uid));
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn details(resource: &ResourceType, name: &str) -> Value {
    named(name, &resource.group, &resource.plural)
}

fn details_of_kind(resource: &ResourceType, name: &str) -> Value {
    named(name, resource.internal_group(), &resource.kind)
}

fn named(name: &str, group: &str, kind: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.into(), json!(value));
        }
    }
    Value::Object(details)
}
