//! The essence: the part of an object whose change matters to handlers.
//!
//! The reaction builds it from each body, compares it to the one stored at the last handling,
//! and stores it back when done. The stored text must stay byte-identical to what Kopf 1.45
//! writes, so the order of keys here is deliberate: metadata and the fields that handlers name
//! come after everything else, in this order.

use serde_json::{Map, Value};

use crate::keys::{KUBECTL_LAST_APPLIED, detect_marked_prefixes, is_under};
use crate::path::FieldPath;
use crate::python_json;

/// What to keep and to drop in addition to the usual parts of the essence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EssenceOptions {
    /// The fields that handlers name; kept even in metadata and status. Kept in this order.
    pub extra_fields: Vec<FieldPath>,
    /// The fields that the operator's settings exclude, also if a handler names them.
    pub ignored_fields: Vec<FieldPath>,
    /// The annotations in which the diff-base storage itself keeps the essence.
    pub removed_annotations: Vec<String>,
    /// The fields in which the diff-base storage itself keeps the essence, usually in the status.
    pub removed_fields: Vec<FieldPath>,
}

/// Extracts the essence of an object.
///
/// Left out are apiVersion, kind, status and the metadata, except for labels and annotations;
/// of annotations, kubectl's own and those of any Kopf-based operator are left out, too.
///
/// ```
/// use kopf_object::{build_essence, EssenceOptions};
/// use serde_json::json;
///
/// let body = json!({
///     "kind": "Memcached",
///     "metadata": {"uid": "1", "labels": {"app": "x"}},
///     "spec": {"size": 1},
///     "status": {"ready": true},
/// });
/// let essence = build_essence(&body, &EssenceOptions::default());
/// assert_eq!(essence, json!({"spec": {"size": 1}, "metadata": {"labels": {"app": "x"}}}));
/// ```
pub fn build_essence(body: &Value, options: &EssenceOptions) -> Value {
    let mut essence = Value::Object(payload(body));
    pick(body, &mut essence, &FieldPath::from(["metadata", "labels"]));
    pick(body, &mut essence, &FieldPath::from(["metadata", "annotations"]));
    if let Some(annotations) = annotations_mut(&mut essence) {
        remove_foreign_annotations(annotations);
    }
    for field in &options.extra_fields {
        pick(body, &mut essence, field);
    }
    remove_empty_stanzas(&mut essence);
    for field in options.ignored_fields.iter().chain(&options.removed_fields) {
        field.remove(&mut essence);
    }
    if let Some(annotations) = annotations_mut(&mut essence) {
        annotations.retain(|key, _| !options.removed_annotations.contains(key));
    }
    remove_empty_stanzas(&mut essence);
    essence
}

/// Removes the annotations under a prefix, where the progress of handlers is stored.
///
/// It is applied both to new essences and to stored ones before they are compared.
pub fn clear_progress_annotations(essence: &mut Value, prefix: &str) {
    if let Some(annotations) = annotations_mut(essence) {
        annotations.retain(|key, _| !is_under(key, prefix));
    }
    remove_empty_stanzas(essence);
}

/// Removes the field (usually in the status) where the progress of handlers is stored.
pub fn clear_progress_field(essence: &mut Value, field: &FieldPath) {
    field.remove(essence);
    remove_empty_stanzas(essence);
}

/// The text of an essence in annotations: compact JSON and a newline.
pub fn encode_essence(essence: &Value) -> String {
    let mut encoded = python_json::dumps(essence);
    encoded.push('\n');
    encoded
}

/// Everything but what identifies the object and what Kubernetes or controllers maintain.
fn payload(body: &Value) -> Map<String, Value> {
    let Some(body) = body.as_object() else {
        return Map::new();
    };
    body.iter()
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Copies a field, if it is there; null is a value here.
fn pick(body: &Value, essence: &mut Value, field: &FieldPath) {
    if field.is_root() {
        return;
    }
    if let Some(value) = field.resolve(body) {
        field.ensure(essence, value.clone());
    }
}

fn remove_foreign_annotations(annotations: &mut Map<String, Value>) {
    let prefixes: Vec<String> =
        detect_marked_prefixes(annotations.keys().map(String::as_str)).into_iter().map(str::to_owned).collect();
    annotations.retain(|key, _| key != KUBECTL_LAST_APPLIED && !prefixes.iter().any(|prefix| is_under(key, prefix)));
}

/// Removes labels, annotations, metadata and status if nothing is left in them.
fn remove_empty_stanzas(essence: &mut Value) {
    let Some(essence) = essence.as_object_mut() else {
        return;
    };
    if let Some(metadata) = essence.get_mut("metadata").and_then(Value::as_object_mut) {
        for stanza in ["annotations", "labels"] {
            if metadata.get(stanza).is_some_and(is_blank) {
                metadata.shift_remove(stanza);
            }
        }
    }
    for stanza in ["metadata", "status"] {
        if essence.get(stanza).is_some_and(is_blank) {
            essence.shift_remove(stanza);
        }
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn annotations_mut(essence: &mut Value) -> Option<&mut Map<String, Value>> {
    essence.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
