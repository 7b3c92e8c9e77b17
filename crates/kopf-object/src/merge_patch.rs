//! Merge-patches (RFC 7386): how the outcomes of handlers are written to an object.
//!
//! The reaction collects everything that handlers and storages want into one [`MergePatch`];
//! the engine sends it, in two requests where the status is a subresource, and applies it
//! to bodies in memory.

use serde_json::{Map, Value};

use crate::path::{FieldPath, object_at};

/// Changes to an object: values to set, and nulls for the keys to remove.
///
/// ```
/// use kopf_object::{FieldPath, MergePatch};
/// use serde_json::json;
///
/// let mut patch = MergePatch::new();
/// patch.set(&FieldPath::parse("status.ready"), json!(true));
/// patch.set_annotation("example.com/seen", Some("yes"));
/// let (body, status) = patch.split_status();
/// assert_eq!(body, Some(json!({"metadata": {"annotations": {"example.com/seen": "yes"}}})));
/// assert_eq!(status, Some(json!({"status": {"ready": true}})));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MergePatch {
    /// Always an object; its root is the root of the patched object.
    changes: Value,
}

impl MergePatch {
    /// A patch that changes nothing yet.
    pub fn new() -> Self {
        Self { changes: Value::Object(Map::new()) }
    }

    /// Whether the patch changes nothing, so that it need not be sent.
    pub fn is_empty(&self) -> bool {
        self.changes.as_object().is_none_or(Map::is_empty)
    }

    /// The whole patch, as the engine sends it where the status is not a subresource.
    pub fn as_value(&self) -> &Value {
        &self.changes
    }

    /// The same as [`MergePatch::as_value`], but owned.
    pub fn into_value(self) -> Value {
        self.changes
    }

    /// What the patch holds for a field; null if the field is to be removed.
    pub fn get(&self, field: &FieldPath) -> Option<&Value> {
        field.resolve(&self.changes)
    }

    /// Requests a value for a field; null requests its removal. The root cannot be set.
    pub fn set(&mut self, field: &FieldPath, value: Value) {
        if !field.is_root() {
            field.ensure(&mut self.changes, value);
        }
    }

    /// Withdraws an earlier request for a field, with the parents that are left empty.
    pub fn unset(&mut self, field: &FieldPath) -> Option<Value> {
        field.remove(&mut self.changes)
    }

    /// What the patch holds for an annotation; null if it is to be removed.
    pub fn annotation(&self, key: &str) -> Option<&Value> {
        self.get(&annotation_path(key))
    }

    /// Requests a value for an annotation, or its removal.
    pub fn set_annotation(&mut self, key: &str, value: Option<&str>) {
        self.set(&annotation_path(key), Value::from(value));
    }

    /// Adds another patch on top of this one, see [`combine`].
    pub fn combine(&mut self, other: &MergePatch) {
        combine(&mut self.changes, &other.changes);
    }

    /// Applies the patch to an object in memory, see [`merge`].
    pub fn apply_to(&self, body: &mut Value) {
        merge(body, &self.changes);
    }

    /// The parts for the object and for its status subresource, each if there is anything in it.
    ///
    /// The API cannot remove the whole status, so a null for it is dropped.
    pub fn split_status(self) -> (Option<Value>, Option<Value>) {
        let Value::Object(mut changes) = self.changes else {
            return (None, None);
        };
        let status = changes.shift_remove("status").filter(|status| !status.is_null());
        let status = status.map(|status| Value::Object(Map::from_iter([("status".into(), status)])));
        let body = (!changes.is_empty()).then_some(Value::Object(changes));
        (body, status)
    }
}

/// Applies a merge-patch to a value: nulls remove keys, objects are merged, all else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    let target = object_at(target);
    for (key, change) in patch {
        if change.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// Adds merge-patch `addition` on top of merge-patch `base`, so that applying the result is
/// the same as applying one after another. Nulls are kept: they are requests, too.
///
/// The only thing that cannot be expressed is a removal followed by an object for the same key:
/// such an object is merged into what is there, not put in its place.
pub fn combine(base: &mut Value, addition: &Value) {
    let Value::Object(addition) = addition else {
        base.clone_from(addition);
        return;
    };
    let base = object_at(base);
    for (key, change) in addition {
        match (base.get_mut(key), change) {
            (Some(known @ Value::Object(_)), Value::Object(_)) => combine(known, change),
            (Some(known), _) => known.clone_from(change),
            (None, _) => {
                base.insert(key.clone(), change.clone());
            }
        }
    }
}

fn annotation_path(key: &str) -> FieldPath {
    FieldPath::from(["metadata", "annotations", key])
}

impl Default for MergePatch {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Map<String, Value>> for MergePatch {
    fn from(changes: Map<String, Value>) -> Self {
        Self { changes: Value::Object(changes) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merging() {
        let check = |target: Value, patch: Value, expected: Value| {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged.to_string(), expected.to_string(), "{patch} on {target}");
        };
        // The examples of RFC 7386, appendix A.
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"]));
        check(json!({"a": "b"}), json!(["c"]), json!(["c"]));
        check(json!({"a": "foo"}), json!(null), json!(null));
        check(json!({"a": "foo"}), json!("bar"), json!("bar"));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
        // The order of other keys is kept.
        check(json!({"a": 1, "b": 2, "c": 3}), json!({"a": null}), json!({"b": 2, "c": 3}));
    }

    #[test]
    fn combining() {
        let check = |base: Value, addition: Value, expected: Value| {
            let mut combined = base.clone();
            combine(&mut combined, &addition);
            assert_eq!(combined, expected, "{addition} on {base}");
        };
        check(json!({"a": 1}), json!({"a": null}), json!({"a": null}));
        check(json!({"a": null}), json!({"a": 1}), json!({"a": 1}));
        check(json!({"a": {"x": null}}), json!({"a": {"y": 1}}), json!({"a": {"x": null, "y": 1}}));
        check(json!({}), json!({"a": {"x": null}}), json!({"a": {"x": null}}));
        check(json!({"a": {"x": 1}}), json!({"a": [1]}), json!({"a": [1]}));
    }

    #[test]
    fn splitting() {
        let check = |changes: Value, body: Option<Value>, status: Option<Value>| {
            let Value::Object(map) = changes else { panic!("not an object: {changes}") };
            assert_eq!(MergePatch::from(map).split_status(), (body, status));
        };
        let (spec, status) = (json!({"spec": {"a": 1}}), json!({"status": {"b": null}}));
        check(json!({}), None, None);
        check(spec.clone(), Some(spec.clone()), None);
        check(status.clone(), None, Some(status.clone()));
        check(json!({"status": {"b": null}, "spec": {"a": 1}}), Some(spec.clone()), Some(status));
        check(json!({"status": {}}), None, Some(json!({"status": {}})));
        check(json!({"status": null, "spec": {"a": 1}}), Some(spec), None);
    }

    #[test]
    fn requests_can_be_withdrawn() {
        let mut patch = MergePatch::new();
        patch.set_annotation("example.com/a", None);
        assert_eq!(patch.annotation("example.com/a"), Some(&Value::Null));
        assert!(!patch.is_empty());
        patch.unset(&annotation_path("example.com/a"));
        assert!(patch.is_empty());
        patch.set(&FieldPath::root(), json!(1));
        assert!(patch.is_empty());
    }
}
