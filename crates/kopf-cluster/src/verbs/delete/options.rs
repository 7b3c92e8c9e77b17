//! The options of a deletion, from the body or the query of a request, and the preconditions among them.

use serde_json::{Value, json};

use crate::admit;
use crate::catalog::ResourceType;
use crate::codec::{protobuf, yaml};
use crate::go::FieldError;
use crate::go::text::type_name;
use crate::request::Request;
use crate::request::query::check_dry_run;
use crate::request::status::StatusError;

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have.
    pub version: Option<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The dependents stay, without this owner.
    Orphan,
    /// The dependents are deleted after the object.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
}

impl DeleteOptions {
    /// The options as webhooks see them.
    pub(super) fn for_webhooks(&self) -> Value {
        let mut shown = json!({});
        if let Some(seconds) = self.grace_period_seconds {
            shown["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(uid) = &self.uid {
            shown["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.version {
            shown["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(propagation) = self.propagation {
            shown["propagationPolicy"] = json!(format!("{propagation:?}"));
        }
        shown
    }

    /// Reads the body, or the query parameters if the body is empty.
    pub(super) fn read(request: &Request) -> Result<Self, StatusError> {
        let query = &request.query;
        let body: Value = match request.body.is_empty() {
            true => json!({}),
            false => match request.media_type() {
                "application/yaml" => yaml::parse(&request.body).map_err(StatusError::bad_request)?,
                "application/vnd.kubernetes.protobuf" => {
                    protobuf::decode(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))?
                }
                _ => admit::decode_options(&request.body, "DeleteOptions")?,
            },
        };
        if let Some(other) = body.get("gracePeriodSeconds").filter(|seconds| !seconds.is_i64() && !seconds.is_null()) {
            let found = type_name(other);
            return Err(StatusError::bad_request(format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
        let dry_run: Vec<&str> = match body.get("dryRun").and_then(Value::as_array) {
            Some(values) => values.iter().filter_map(Value::as_str).collect(),
            None => query.all("dryRun"),
        };
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = text("propagationPolicy").or_else(|| query.text("propagationPolicy").map(str::to_owned));
        let precondition = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        Ok(Self {
            dry_run: check_dry_run(&dry_run, "DeleteOptions")?,
            grace_period_seconds: match body.get("gracePeriodSeconds").and_then(Value::as_i64) {
                Some(seconds) => Some(seconds),
                None => query.number("gracePeriodSeconds")?,
            },
            propagation: match (policy.as_deref(), orphan) {
                (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
                (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
                (Some("Foreground"), _) => Some(Propagation::Foreground),
                (Some(""), _) | (None, None) => None,
                (Some(other), _) => return Err(unknown_policy(other)),
            },
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
        })
    }
}

fn unknown_policy(policy: &str) -> StatusError {
    let supported: Vec<String> = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned).to_vec();
    let error = FieldError::not_supported("propagationPolicy", json!(policy), &supported);
    StatusError::invalid_options("DeleteOptions", &[error])
}

/// Compares the uid and the version of an object with those in the options.
pub(super) fn check_preconditions(
    resource: &ResourceType,
    name: &str,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let current = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    if resource.is("", "namespaces") {
        for (title, field, wanted) in
            [("UID", "uid", &options.uid), ("ResourceVersion", "resourceVersion", &options.version)]
        {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != current(field)) {
                let found = current(field);
                let why =
                    format!("Precondition failed: {title} in precondition: {wanted}, {title} in object meta: {found}");
                return Err(StatusError::conflict(resource, name, &why));
            }
        }
    }
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current("uid")) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            current("uid")
        );
        return Err(StatusError::precondition(resource, name, &why));
    }
    if let Some(version) = options.version.as_deref().filter(|version| *version != current("resourceVersion")) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            current("resourceVersion")
        );
        return Err(StatusError::precondition(resource, name, &why));
    }
    Ok(())
}
