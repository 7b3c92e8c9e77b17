//! JSON patches (RFC 6902): how lists are changed without overwriting what others put there.
//!
//! The engine builds them for finalizers and for users' transformation functions, by comparing
//! the body before and after, and sends them guarded by a test of the resource version.
//! Admission answers are JSON patches, too.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::identity::metadata_field;

/// One step of a JSON patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Sets a key of an object, or inserts an item into a list.
    Add {
        /// The JSON pointer of the place to fill.
        path: String,
        /// What to put there.
        value: Value,
    },
    /// Removes a key of an object or an item of a list.
    Remove {
        /// The JSON pointer of what to remove.
        path: String,
    },
    /// Replaces an existing value.
    Replace {
        /// The JSON pointer of what to replace.
        path: String,
        /// What to put there.
        value: Value,
    },
    /// Makes the whole patch fail if the value differs.
    Test {
        /// The JSON pointer of what to compare.
        path: String,
        /// What is expected there.
        value: Value,
    },
}

/// Why a JSON patch does not apply; nothing is said about the steps before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// There is nothing at the path, or its parent is neither an object nor a list.
    #[error("there is no {path:?} in the object")]
    NoSuchPath {
        /// The JSON pointer of the failed step.
        path: String,
    },
    /// A test has failed.
    #[error("the value at {path:?} is not the expected one")]
    TestFailed {
        /// The JSON pointer of the failed step.
        path: String,
    },
}

impl PatchOperation {
    /// The JSON pointer that this step works on.
    pub fn path(&self) -> &str {
        match self {
            PatchOperation::Add { path, .. }
            | PatchOperation::Remove { path }
            | PatchOperation::Replace { path, .. }
            | PatchOperation::Test { path, .. } => path,
        }
    }

    /// Whether this step belongs to the status, and so to the status subresource if there is one.
    pub fn is_of_status(&self) -> bool {
        self.path() == "/status" || self.path().starts_with("/status/")
    }
}

/// The steps from one value to another; none if they are the same.
///
/// Of lists, the common items at both ends are left alone. Numbers are compared as written:
/// `1` and `1.0` differ.
///
/// ```
/// use serde_json::json;
///
/// let steps = kopf_object::json_patch(&json!({"items": [1, 2, 3]}), &json!({"items": [1, 3]}));
/// assert_eq!(json!(steps), json!([{"op": "remove", "path": "/items/1"}]));
/// ```
pub fn json_patch(old: &Value, new: &Value) -> Vec<PatchOperation> {
    let mut comparison = Comparison { place: String::new(), operations: Vec::new() };
    comparison.values(old, new);
    comparison.operations
}

/// Applies a JSON patch to a value. After an error, the value is changed up to the failed step.
pub fn apply_json_patch(target: &mut Value, operations: &[PatchOperation]) -> Result<(), JsonPatchError> {
    operations.iter().try_for_each(|operation| apply_step(target, operation))
}

/// Puts a test of the body's resource version before the steps, so that they are applied
/// to exactly this body. There is no test if the body has no version.
pub fn with_version_test(body: &Value, operations: Vec<PatchOperation>) -> Vec<PatchOperation> {
    let version = metadata_field(body, "resourceVersion").filter(|version| !version.is_null());
    let test = version
        .map(|version| PatchOperation::Test { path: "/metadata/resourceVersion".to_owned(), value: version.clone() });
    test.into_iter().chain(operations).collect()
}

/// Splits the steps into those for the object and those for its status, in this order.
pub fn split_status_operations(operations: Vec<PatchOperation>) -> (Vec<PatchOperation>, Vec<PatchOperation>) {
    operations.into_iter().partition(|operation| !operation.is_of_status())
}

/// One walk over two values.
struct Comparison {
    /// The JSON pointer to where the walk is now.
    place: String,
    /// The steps found so far.
    operations: Vec<PatchOperation>,
}

impl Comparison {
    fn values(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.objects(old, new),
            (Value::Array(old), Value::Array(new)) => self.lists(old, new),
            _ if old == new => {}
            _ => self.operations.push(PatchOperation::Replace { path: self.place.clone(), value: new.clone() }),
        }
    }

    fn objects(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            self.at(key, |this| this.remove());
        }
        for (key, value) in new {
            self.at(key, |this| match old.get(key) {
                Some(known) => this.values(known, value),
                None => this.add(value),
            });
        }
    }

    fn lists(&mut self, old: &[Value], new: &[Value]) {
        let is_same = |(old, new): &(&Value, &Value)| old == new;
        let head = old.iter().zip(new).take_while(is_same).count();
        let (old, new) = (&old[head..], &new[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(is_same).count();
        let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);

        let paired = old.len().min(new.len());
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            self.at(&(head + index).to_string(), |this| this.values(old, new));
        }
        for index in (paired..old.len()).rev() {
            self.at(&(head + index).to_string(), |this| this.remove());
        }
        for (index, value) in new.iter().enumerate().skip(paired) {
            self.at(&(head + index).to_string(), |this| this.add(value));
        }
    }

    fn at(&mut self, key: &str, step: impl FnOnce(&mut Self)) {
        let length = self.place.len();
        self.place.push('/');
        self.place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        step(self);
        self.place.truncate(length);
    }

    fn add(&mut self, value: &Value) {
        self.operations.push(PatchOperation::Add { path: self.place.clone(), value: value.clone() });
    }

    fn remove(&mut self) {
        self.operations.push(PatchOperation::Remove { path: self.place.clone() });
    }
}

fn apply_step(target: &mut Value, operation: &PatchOperation) -> Result<(), JsonPatchError> {
    let path = operation.path();
    let missing = || JsonPatchError::NoSuchPath { path: path.to_owned() };
    match operation {
        PatchOperation::Add { value, .. } => add_at(target, path, value).ok_or_else(missing),
        PatchOperation::Remove { .. } => remove_at(target, path).ok_or_else(missing),
        PatchOperation::Replace { value, .. } => {
            *target.pointer_mut(path).ok_or_else(missing)? = value.clone();
            Ok(())
        }
        PatchOperation::Test { value, .. } if target.pointer(path) == Some(value) => Ok(()),
        PatchOperation::Test { .. } => Err(JsonPatchError::TestFailed { path: path.to_owned() }),
    }
}

fn add_at(target: &mut Value, path: &str, value: &Value) -> Option<()> {
    if path.is_empty() {
        *target = value.clone();
        return Some(());
    }
    let (parent, key) = path.rsplit_once('/')?;
    match target.pointer_mut(parent)? {
        Value::Object(map) => {
            map.insert(unescape(key), value.clone());
        }
        Value::Array(list) if key == "-" => list.push(value.clone()),
        Value::Array(list) => {
            let index = key.parse().ok().filter(|index| *index <= list.len())?;
            list.insert(index, value.clone());
        }
        _ => return None,
    }
    Some(())
}

fn remove_at(target: &mut Value, path: &str) -> Option<()> {
    let (parent, key) = path.rsplit_once('/')?;
    match target.pointer_mut(parent)? {
        Value::Object(map) => {
            map.shift_remove(&unescape(key))?;
        }
        Value::Array(list) => {
            let index = key.parse().ok().filter(|index| *index < list.len())?;
            list.remove(index);
        }
        _ => return None,
    }
    Some(())
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn building() {
        let check = |old: Value, new: Value, expected: Value| {
            assert_eq!(json!(json_patch(&old, &new)), expected, "{old} -> {new}");
        };
        check(json!({"a": 1}), json!({"a": 1}), json!([]));
        check(json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), json!([]));
        check(json!({}), json!({"a": null}), json!([{"op": "add", "path": "/a", "value": null}]));
        check(json!({"a": 1}), json!({"a": 1.0}), json!([{"op": "replace", "path": "/a", "value": 1.0}]));
        check(json!({"a/~b": 1}), json!({}), json!([{"op": "remove", "path": "/a~1~0b"}]));
        check(json!(1), json!(2), json!([{"op": "replace", "path": "", "value": 2}]));
        check(json!({"a": []}), json!({"a": {}}), json!([{"op": "replace", "path": "/a", "value": {}}]));
        check(json!([1]), json!([1, 2]), json!([{"op": "add", "path": "/1", "value": 2}]));
        check(json!([2]), json!([1, 2]), json!([{"op": "add", "path": "/0", "value": 1}]));
        check(json!([1, 2, 3]), json!([1]), json!([{"op": "remove", "path": "/2"}, {"op": "remove", "path": "/1"}]));
        check(json!([1, {"x": 1}, 3]), json!([1, {"x": 2}, 3]), json!([{"op": "replace", "path": "/1/x", "value": 2}]));
    }

    #[test]
    fn failing() {
        let check = |operation: Value, expected: &str| {
            let operation: PatchOperation = serde_json::from_value(operation).unwrap();
            let mut target = json!({"a": [1], "s": "text"});
            let error = apply_json_patch(&mut target, &[operation]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(json!({"op": "remove", "path": "/b"}), "there is no \"/b\" in the object");
        check(json!({"op": "remove", "path": ""}), "there is no \"\" in the object");
        check(json!({"op": "add", "path": "/a/2", "value": 1}), "there is no \"/a/2\" in the object");
        check(json!({"op": "add", "path": "/s/x", "value": 1}), "there is no \"/s/x\" in the object");
        check(json!({"op": "replace", "path": "/x", "value": 1}), "there is no \"/x\" in the object");
        check(json!({"op": "test", "path": "/s", "value": 1}), "the value at \"/s\" is not the expected one");
        check(json!({"op": "test", "path": "/x", "value": null}), "the value at \"/x\" is not the expected one");
    }

    #[test]
    fn guarding() {
        let operations = || vec![PatchOperation::Remove { path: "/spec".into() }];
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let check = |body: Value, expected: Value| {
            assert_eq!(json!(with_version_test(&body, operations())), expected);
        };
        let remove = json!({"op": "remove", "path": "/spec"});
        check(json!({"metadata": {"resourceVersion": "7"}}), json!([test, remove]));
        check(json!({"metadata": {"resourceVersion": null}}), json!([remove]));
        check(json!({}), json!([remove]));
    }

    #[test]
    fn splitting() {
        let remove = |path: &str| PatchOperation::Remove { path: path.into() };
        let operations = vec![remove("/status"), remove("/statuses"), remove("/status/x"), remove("/spec/status")];
        let (body, status) = split_status_operations(operations);
        assert_eq!(body, [remove("/statuses"), remove("/spec/status")]);
        assert_eq!(status, [remove("/status"), remove("/status/x")]);
    }
}
