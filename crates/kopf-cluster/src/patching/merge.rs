//! Merge patches (RFC 7386), as the server applies them.
//!
//! The server differs from the standard in one thing: nulls are dropped from new values also
//! inside of their lists.

use serde_json::{Map, Value};

/// Applies a merge patch to an object and returns the result. A patch that is no object becomes
/// the result itself, which the server then rejects as an object.
pub(crate) fn apply_merge(original: &Value, patch: &Value) -> Value {
    let mut merged = original.clone();
    merge(&mut merged, patch);
    merged
}

fn merge(current: &mut Value, patch: &Value) {
    match (current, patch) {
        (Value::Object(fields), Value::Object(changes)) => merge_fields(fields, changes),
        (current @ Value::Object(_), other) => *current = other.clone(),
        (current, other) => *current = without_nulls(other),
    }
}

fn merge_fields(fields: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, change) in changes {
        if change.is_null() {
            fields.shift_remove(name);
        } else if let Some(current) = fields.get_mut(name) {
            merge(current, change);
        } else {
            fields.insert(name.clone(), without_nulls(change));
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name.clone(), without_nulls(field))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patches_are_merged_as_the_server_merges_them() {
        for (original, patch, expected) in [
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
            (json!({"a": [1]}), json!({"a": [{"x": null, "y": 1}]}), json!({"a": [{"y": 1}]})),
            (json!({"a": {"x": 1}}), json!({"a": [null, {"x": null}]}), json!({"a": [null, {"x": null}]})),
            (json!({}), json!({"a": {"b": null}}), json!({"a": {}})),
            (json!({"a": null}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
        ] {
            assert_eq!(apply_merge(&original, &patch), expected, "{patch}");
        }
    }
}
