//! How the storages read, write and remove annotations and fields.

use kopf_object::{FieldPath, MergePatch, keys};
use serde_json::{Map, Value};

use crate::Note;

pub(super) const DEFAULT_PREFIX: &str = "kopf.zalando.org";

/// A stored record that nobody can read; it counts as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Corruption {
    /// The annotation or field.
    pub location: String,
    pub problem: String,
}

impl Corruption {
    pub(crate) fn into_note(self) -> Note {
        let Self { location, problem } = self;
        Note::warning(format!("The stored state in {location} is ignored, as it cannot be read: {problem}")).local()
    }
}

/// Removes a field if the object has it, and withdraws earlier changes of it from the patch.
pub(super) fn purge_field(field: &FieldPath, body: &Value, patch: &mut MergePatch) {
    if field.resolve(body).is_some() {
        patch.set(field, Value::Null);
    } else {
        patch.unset(field);
    }
}

/// The first readable annotation.
pub(super) fn fetch_json(
    prefix: &str,
    key: &str,
    v1: bool,
    body: &Value,
    corruptions: &mut Vec<Corruption>,
) -> Option<Value> {
    let annotations = annotations_of(body)?;
    keys::keys(prefix, key, v1, Some(body)).into_iter().find_map(|key| {
        let encoded = annotations.get(&key)?.as_str()?;
        decode(encoded, || key, corruptions)
    })
}

pub(super) fn decode(
    encoded: &str,
    location: impl FnOnce() -> String,
    corruptions: &mut Vec<Corruption>,
) -> Option<Value> {
    match serde_json::from_str(encoded) {
        Ok(value @ (Value::Object(_) | Value::Null)) => Some(value),
        Ok(_) => {
            corruptions.push(Corruption { location: location(), problem: "not a JSON object".to_owned() });
            None
        }
        Err(error) => {
            corruptions.push(Corruption { location: location(), problem: error.to_string() });
            None
        }
    }
}

pub(super) fn annotations_of(body: &Value) -> Option<&Map<String, Value>> {
    body.get("metadata")?.get("annotations")?.as_object()
}

pub(super) fn annotation_field(key: &str) -> FieldPath {
    FieldPath::from(["metadata", "annotations", key])
}

/// Marks the annotations under the prefix as those of an operator, so that other operators ignore them.
pub(super) fn mark(prefix: &str, body: &Value, patch: &mut MergePatch) {
    if let Some(marker) = keys::marker_key(prefix)
        && annotations_of(body).is_none_or(|annotations| !annotations.contains_key(&marker))
        && patch.annotation(&marker).is_none()
    {
        patch.set_annotation(&marker, Some("yes"));
    }
}
