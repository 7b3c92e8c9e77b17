//! Refusals: what the server answers when it does not do what was asked.
//!
//! Every step of a request gives a [`Refusal`]; `http/service.rs` sends it as a `metav1.Status`. Clients
//! compare reasons, codes and sometimes whole messages, so each constructor here has the words
//! of the real server.

use serde_json::{Map, Value, json};

use crate::catalog::ResourceType;
use crate::go::FieldError;

/// A refused request, ready to be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty where the server gives none.
    pub reason: &'static str,
    pub message: String,
    /// Which object it is about, and the causes; null where the server gives none.
    pub details: Box<Value>,
    /// A token to go on with, if a list cannot go on as it was.
    pub continue_token: Option<String>,
    /// The whole status, if somebody else has given it.
    pub given: Option<Box<Value>>,
    /// What the client should know beside it.
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

    /// What a webhook has refused, in its own words.
    pub fn given(code: u16, message: impl Into<String>, status: Value) -> Self {
        Self { given: Some(Box::new(status)), ..Self::new(code, "", message, Value::Null) }
    }

    /// The same, with warnings about the request.
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings = warnings.to_vec();
        self
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message, Value::Null)
    }

    /// There is no such token, or none at all.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", Value::Null)
    }

    /// There is no such resource in the API.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource", json!({}))
    }

    /// The resource does not know this verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message, json!({}))
    }

    /// The answer cannot be given in a form that the client reads.
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message, Value::Null)
    }

    /// The same for built-in kinds, if the client reads none of the media types of the server.
    pub fn no_such_representation(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::new(406, "NotAcceptable", message, json!({}))
    }

    /// A list was asked for in the form of an object, or an object in the form of a list.
    pub fn unfit_form(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message, Value::Null)
    }

    /// The body is in a form that the server does not read.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message, Value::Null)
    }

    /// A patch of an unknown kind.
    pub fn unsupported_patch_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type", json!({}))
    }

    /// The body is over the limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"), Value::Null)
    }

    /// Something else than the body is over its limit.
    pub fn request_entity_too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message, Value::Null)
    }

    /// There is no such object.
    pub fn not_found(resource: &ResourceType, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message, details(resource, name))
    }

    /// There is such an object already, though it may be on its way out.
    pub fn already_exists(resource: &ResourceType, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message, details(resource, name))
    }

    /// Somebody else was faster.
    pub fn modified(resource: &ResourceType, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object is not as the request supposes.
    pub fn conflict(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message, details(resource, name))
    }

    /// The same for preconditions of deletions, which name the kind instead of the resource.
    pub fn precondition(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_kind());
        Self::new(409, "Conflict", message, details_of_kind(resource, name))
    }

    /// The object is not valid.
    pub fn invalid(resource: &ResourceType, name: &str, errors: &[FieldError]) -> Self {
        let message =
            format!("{} \"{name}\" is invalid: {}", resource.qualified_kind(), FieldError::message_of_all(errors));
        let mut details = details_of_kind(resource, name);
        if let Some(details) = details.as_object_mut() {
            details.insert("causes".into(), FieldError::causes(errors));
        }
        Self::new(422, "Invalid", message, details)
    }

    /// The same for a kind that is only a part of others.
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind}.{group} \"{name}\" is invalid: {}", FieldError::message_of_all(errors));
        let details = json!({"name": name, "group": group, "kind": kind, "causes": FieldError::causes(errors)});
        Self::new(422, "Invalid", message, details)
    }

    /// The options of a request are not valid.
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", FieldError::message_of_all(errors));
        let details = json!({"group": "meta.k8s.io", "kind": kind, "causes": FieldError::causes(errors)});
        Self::new(422, "Invalid", message, details)
    }

    /// A patch can be read, but not applied.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message, json!({}))
    }

    /// What a patch makes of an object cannot be read.
    pub fn invalid_patch(shown: String, problem: &str) -> Self {
        let error = FieldError::invalid("patch", json!(shown), problem);
        let message = format!(" \"\" is invalid: {error}");
        Self::new(422, "Invalid", message, json!({"causes": FieldError::causes(&[error])}))
    }

    /// Nothing can be created in a namespace that is going away.
    pub fn terminating(resource: &ResourceType, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status_error = Self::forbidden(resource, name, &why);
        let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {namespace} is being terminated")});
        if let Some(details) = status_error.details.as_object_mut() {
            details.insert("causes".into(), json!([cause]));
        }
        status_error
    }

    /// The request is understood, but not permitted.
    pub fn forbidden(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message, details(resource, name))
    }

    /// The version to go on from is not in the history any more.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message, Value::Null)
    }

    /// A version that is not there yet.
    pub fn too_large_version(asked: u64, current: u64) -> Self {
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message, json!({"causes": [cause], "retryAfterSeconds": 1}))
    }

    /// The client has not sent the whole body in time.
    pub fn slow_body() -> Self {
        Self::new(408, "Timeout", "the body of the request was not sent in time", Value::Null)
    }

    /// The server is at fault.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({"causes": [{"message": message}]});
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"), details)
    }

    /// An error that a test has asked for, on the wire; its reason is the usual one of its code.
    pub fn on_demand(code: u16, reason: Option<String>, message: Option<String>, retry_after: Option<u32>) -> Value {
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

    /// An error without any reason, as the server gives for a few odd requests.
    pub fn bare(message: impl Into<String>) -> Self {
        Self::new(500, "", message, Value::Null)
    }

    /// Its form on the wire.
    pub fn to_value(&self) -> Value {
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

/// The answer to a deletion that left nothing behind.
pub fn deleted(resource: &ResourceType, name: &str, uid: &str) -> Value {
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
