//! Label and field selectors: which fields a resource supports, and whether an object matches.
//!
//! Lists, watches and deletions of collections call it. Labels, names and namespaces are compared
//! without decoding the object; only other fields need that.

use serde_json::Value;

use crate::catalog::ResourceType;
use crate::request::query::Selectors;
use crate::request::status::StatusError;
use crate::store::Stored;

/// Rejects selectors by fields that the resource does not support.
pub(super) fn check(resource: &ResourceType, selectors: &Selectors) -> Result<(), StatusError> {
    for term in &selectors.fields.terms {
        let field = term.field.as_str();
        let common = field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced);
        if common || selectable(resource).contains(&field) {
            continue;
        }
        let standard = resource.custom().is_none() && selectable(resource).is_empty();
        return Err(StatusError::bad_request(match standard {
            true => {
                format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            }
            false if resource.is("batch", "jobs") => format!("field label {field:?} not supported for Job"),
            false => format!("field label not supported: {field}"),
        }));
    }
    Ok(())
}

/// Whether an object matches the selectors.
pub(super) fn selects(selectors: &Selectors, stored: &Stored) -> bool {
    if !selectors.labels.matches(|key| stored.label(key)) {
        return false;
    }
    let mut decoded = None;
    selectors.fields.matches(|field| match field {
        "metadata.name" => stored.object_key.name.to_string(),
        "metadata.namespace" => stored.object_key.namespace.to_string(),
        field => field_text(decoded.get_or_insert_with(|| stored.decode()), field),
    })
}

/// The text of a field for the comparison with a selector.
fn field_text(object: &Value, field: &str) -> String {
    let at = |path: &str| path.split('.').try_fold(object, |value, name| value.get(name));
    let found = match field {
        // Events name their source twice, and their old and new APIs name things differently.
        field if field.starts_with("regarding.") => at(&field.replacen("regarding", "involvedObject", 1)),
        "source" => at("source.component").filter(|source| source.as_str() != Some("")).or(at("reportingComponent")),
        "reportingController" => at("reportingComponent"),
        field => at(field),
    };
    match (found, field) {
        (Some(Value::String(text)), _) => text.clone(),
        (Some(Value::Null) | None, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        (Some(Value::Null) | None, "status.replicas" | "status.successful") => "0".to_owned(),
        (Some(Value::Null) | None, _) => String::new(),
        (Some(other), _) => other.to_string(),
    }
}

/// The selectable fields besides the name and the namespace.
fn selectable(resource: &ResourceType) -> Vec<&str> {
    if let Some(custom) = resource.custom() {
        return custom.selectable_fields.iter().map(String::as_str).collect();
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => vec![
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("events.k8s.io", "events") => vec![
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "events") => vec![
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "nodes") => vec!["spec.unschedulable"],
        ("", "namespaces") => vec!["status.phase"],
        ("", "secrets") => vec!["type"],
        ("", "services") => vec!["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => vec!["status.replicas"],
        ("batch", "jobs") => vec!["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => vec!["spec.signerName"],
        _ => Vec::new(),
    }
}
