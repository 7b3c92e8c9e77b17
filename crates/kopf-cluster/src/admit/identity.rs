//! Whether a request means the stored object: its name, namespace, uid and version.

use serde_json::Value;

use super::metadata::metadata_of;
use crate::catalog::ResourceType;
use crate::request::status::StatusError;

/// The name, the namespace, the uid and the version in the request must be those of the stored object.
pub(super) fn check_identity(
    resource: &ResourceType,
    name: &str,
    old: &Value,
    value: &mut Value,
) -> Result<(), StatusError> {
    check_name(name, value)?;
    let metadata = metadata_of(value)?;
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    let current = |field: &str| old["metadata"][field].as_str().unwrap_or_default();
    if !text("namespace").is_empty() && text("namespace") != current("namespace") {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !text("uid").is_empty() && text("uid") != current("uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}",
            registry_path(resource),
            old["metadata"]["namespace"].as_str().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
            text("uid"),
            current("uid")
        );
        return Err(StatusError::conflict(resource, name, &why));
    }
    match text("resourceVersion") {
        "" | "0" => Ok(()),
        sent if sent == current("resourceVersion") => Ok(()),
        _ => Err(StatusError::modified(resource, name)),
    }
}

/// The name in the body must be the name in the path.
pub(crate) fn check_name(name: &str, value: &Value) -> Result<(), StatusError> {
    match value["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(StatusError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        sent if sent != name => Err(StatusError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// The path of a resource in etcd, which the server shows in conflicts.
fn registry_path(resource: &ResourceType) -> String {
    match (resource.group.as_str(), resource.plural.as_str()) {
        (group, plural) if resource.custom().is_some() => format!("{group}/{plural}"),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (_, plural) => plural.to_owned(),
    }
}
