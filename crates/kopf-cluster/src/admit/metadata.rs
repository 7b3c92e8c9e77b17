//! The metadata of written objects: what clients may set, what the system keeps, generated names.

use serde_json::{Map, Value, json};

use crate::builtin::strategy;
use crate::catalog::ResourceType;
use crate::request::status::StatusError;
use crate::state::State;
use crate::values::names::NameRule;

/// The metadata of an object that is to be created, without the fields that clients cannot set.
pub(super) fn new_metadata(value: &mut Value) -> Result<&mut Map<String, Value>, StatusError> {
    let metadata = metadata_of(value)?;
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.shift_remove(field);
    }
    Ok(metadata)
}

/// The metadata of an object; added if it is missing.
pub(super) fn metadata_of(value: &mut Value) -> Result<&mut Map<String, Value>, StatusError> {
    let metadata = value.as_object_mut().map(|fields| fields.entry("metadata").or_insert(Value::Null));
    if let Some(metadata) = metadata {
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Value::Object(metadata) = metadata {
            return Ok(metadata);
        }
    }
    Err(StatusError::bad_request("metadata must be an object"))
}

/// Restores the metadata that only the system sets.
pub(super) fn keep_system_metadata(old: &Value, value: &mut Value) {
    const FIELDS: [&str; 8] = [
        "uid",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
    ];
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in FIELDS {
        match old["metadata"].get(field) {
            Some(kept) => metadata.insert(field.into(), kept.clone()),
            None => metadata.shift_remove(field),
        };
    }
}

pub(super) fn copy_namespace(old: &Value, value: &mut Value) {
    if let Some(namespace) = old["metadata"].get("namespace") {
        value["metadata"]["namespace"] = namespace.clone();
    }
}

/// Completes a `generateName` to a name.
pub(super) fn generate_name(state: &State, resource: &ResourceType, metadata: &mut Map<String, Value>) {
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, prefix) = (text("name"), text("generateName"));
    if name.is_empty() && !prefix.is_empty() {
        let generated = match strategy::name_rule(resource) {
            // An address cannot be generated.
            NameRule::Address => prefix,
            _ => {
                let prefix: String = prefix.chars().take(58).collect();
                format!("{prefix}{}", state.randomness().suffix())
            }
        };
        metadata.insert("name".into(), json!(generated));
    }
}

/// Removes empty metadata: nulls, empty maps and empty lists.
pub(super) fn tidy(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|name, field| match field {
        Value::Null => false,
        // An empty list resets the managed fields.
        Value::Array(_) if name == "managedFields" => true,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}
