//! Namespaces: what a new one has, and which ones take new objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::request::status::StatusError;
use crate::state::State;
use crate::store::ObjectKey;

/// Every namespace can be selected by its name.
pub(crate) fn label(namespace: &mut Value) {
    if namespace["metadata"].get("name").is_none_or(|name| name == "") {
        return;
    }
    let name = namespace["metadata"]["name"].clone();
    if !namespace["metadata"]["labels"].is_object() {
        namespace["metadata"]["labels"] = json!({});
    }
    namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
}

/// Completes a new namespace.
pub(crate) fn prepare_new(namespace: &mut Value) {
    label(namespace);
    namespace["spec"]["finalizers"] = json!(["kubernetes"]);
    namespace["status"] = json!({"phase": "Active"});
}

/// Rejects new objects in missing and terminating namespaces.
pub(crate) fn check_open(
    state: &State,
    resource: &ResourceType,
    namespace: &str,
    name: &str,
) -> Result<(), StatusError> {
    let Some(namespaces) = namespaces(state) else { return Ok(()) };
    match state.get(&namespaces, &ObjectKey::new("", namespace)) {
        None => Err(StatusError::not_found(&namespaces, namespace)),
        Some(stored) if stored.deleting => Err(StatusError::terminating(resource, name, namespace)),
        Some(_) => Ok(()),
    }
}

fn namespaces(state: &State) -> Option<Arc<ResourceType>> {
    state.built_in("", "v1", "namespaces")
}
