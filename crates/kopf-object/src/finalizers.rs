//! Finalizers: how the operator blocks the deletion of an object until its handlers are done.
//!
//! The reaction checks whether the deletion has begun and whether it waits for this operator;
//! the engine sends the steps that add or remove the operator's finalizer, guarded by
//! the resource version, because a list cannot be changed safely by a merge-patch.

use serde_json::{Value, json};

use crate::identity::metadata_field;
use crate::json_patch::{PatchOperation, with_version_test};
use crate::path::FieldPath;

/// Whether somebody has requested the deletion of the object.
pub fn is_deletion_ongoing(body: &Value) -> bool {
    metadata_field(body, "deletionTimestamp").is_some_and(|timestamp| !timestamp.is_null())
}

/// Whether the object carries the finalizer, so that its deletion waits for the operator.
pub fn is_deletion_blocked(body: &Value, finalizer: &str) -> bool {
    finalizers(body).iter().any(|known| known == finalizer)
}

/// The steps to add the finalizer to exactly this body, or `None` if it is there already.
pub fn block_deletion(body: &Value, finalizer: &str) -> Option<Vec<PatchOperation>> {
    if is_deletion_blocked(body, finalizer) {
        return None;
    }
    let known = finalizers(body);
    let (path, value) = if !body.get("metadata").is_some_and(Value::is_object) {
        ("/metadata".to_owned(), json!({"finalizers": [finalizer]}))
    } else if metadata_field(body, "finalizers").is_some_and(Value::is_array) {
        (format!("/metadata/finalizers/{}", known.len()), json!(finalizer))
    } else {
        ("/metadata/finalizers".to_owned(), json!([finalizer]))
    };
    Some(with_version_test(body, vec![PatchOperation::Add { path, value }]))
}

/// The steps to remove the finalizer from exactly this body, or `None` if it is not there.
pub fn allow_deletion(body: &Value, finalizer: &str) -> Option<Vec<PatchOperation>> {
    let known = finalizers(body);
    let positions = known.iter().enumerate().filter(|(_, known)| *known == finalizer);
    let mut indices: Vec<usize> = positions.map(|(index, _)| index).collect();
    if indices.is_empty() {
        return None;
    }
    let paths = if indices.len() == known.len() {
        vec!["/metadata/finalizers".to_owned()]
    } else {
        indices.reverse(); // from the end, so that the indices to go stay valid
        indices.into_iter().map(|index| format!("/metadata/finalizers/{index}")).collect()
    };
    let steps = paths.into_iter().map(|path| PatchOperation::Remove { path });
    Some(with_version_test(body, steps.collect()))
}

/// Adds the finalizer to a body in memory.
pub fn add_finalizer(body: &mut Value, finalizer: &str) {
    if !is_deletion_blocked(body, finalizer) {
        let mut finalizers = finalizers(body).to_vec();
        finalizers.push(json!(finalizer));
        finalizers_path().ensure(body, Value::Array(finalizers));
    }
}

/// Removes the finalizer from a body in memory, and the list of finalizers if it gets empty.
pub fn remove_finalizer(body: &mut Value, finalizer: &str) {
    let mut finalizers = finalizers(body).to_vec();
    finalizers.retain(|known| known != finalizer);
    if finalizers.is_empty() {
        finalizers_path().remove(body);
    } else {
        finalizers_path().ensure(body, Value::Array(finalizers));
    }
}

fn finalizers(body: &Value) -> &[Value] {
    let finalizers = metadata_field(body, "finalizers").and_then(Value::as_array);
    finalizers.map_or(&[], Vec::as_slice)
}

fn finalizers_path() -> FieldPath {
    FieldPath::from(["metadata", "finalizers"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let check = |metadata: Value, blocking: Option<Value>, allowing: Option<Value>| {
            let body = json!({"metadata": metadata});
            let as_json = |steps: Option<Vec<PatchOperation>>| steps.map(|steps| json!(steps));
            assert_eq!(as_json(block_deletion(&body, "f")), blocking, "{body}");
            assert_eq!(as_json(allow_deletion(&body, "f")), allowing, "{body}");
        };
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        let remove = |path: &str| json!({"op": "remove", "path": path});
        check(json!({"resourceVersion": "7"}), Some(json!([test, add("/metadata/finalizers", json!(["f"]))])), None);
        check(
            json!({"resourceVersion": "7", "finalizers": ["a"]}),
            Some(json!([test, add("/metadata/finalizers/1", json!("f"))])),
            None,
        );
        check(
            json!({"resourceVersion": "7", "finalizers": ["f"]}),
            None,
            Some(json!([test, remove("/metadata/finalizers")])),
        );
        check(
            json!({"resourceVersion": "7", "finalizers": ["a", "f", "b", "f"]}),
            None,
            Some(json!([test, remove("/metadata/finalizers/3"), remove("/metadata/finalizers/1")])),
        );
        check(json!({"finalizers": null}), Some(json!([add("/metadata/finalizers", json!(["f"]))])), None);
        check(json!(null), Some(json!([add("/metadata", json!({"finalizers": ["f"]}))])), None);
    }

    #[test]
    fn deletion() {
        let check = |body: Value, ongoing: bool, blocked: bool| {
            assert_eq!(is_deletion_ongoing(&body), ongoing, "{body}");
            assert_eq!(is_deletion_blocked(&body, "f"), blocked, "{body}");
        };
        check(json!({}), false, false);
        check(json!({"metadata": {"deletionTimestamp": null, "finalizers": null}}), false, false);
        check(json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}), true, false);
        check(json!({"metadata": {"finalizers": ["a", "f"]}}), false, true);
        check(json!({"metadata": {"finalizers": ["ff"]}}), false, false);
    }
}
