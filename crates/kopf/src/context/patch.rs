//! The changes that handlers make to their object: one patch per cycle, shared by its handlers.
//!
//! Handlers take it as a parameter. The front hands it to the engine with each reply, and the engine sends it once.
//! Its methods take `&self`, so that handlers can clone it into tasks and closures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kopf_object::{FieldPath, MergePatch};
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;

/// The changes to the object. The engine applies them when the handlers of the cycle are done, also if they fail.
///
/// ```
/// use kopf::extract::Patch;
/// use serde_json::json;
///
/// # fn main() -> kopf::Result<()> {
/// let patch = Patch::new();
/// patch.status("size", 3)?;
/// patch.spec("pods.limit", "1Gi")?;
/// patch.label("example.com/tier", "cache");
/// patch.remove_annotation("example.com/note");
/// assert_eq!(patch.changes(), json!({
///     "status": {"size": 3},
///     "spec": {"pods": {"limit": "1Gi"}},
///     "metadata": {"labels": {"example.com/tier": "cache"}, "annotations": {"example.com/note": null}},
/// }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Patch {
    changes: Arc<Mutex<Changes>>,
}

/// What the clones of a patch share.
#[derive(Default)]
struct Changes {
    /// What a merge patch can express.
    merge: MergePatch,
    /// What it cannot: functions that change the latest body in place.
    transformations: Vec<Transformation>,
}

type Transformation = Arc<dyn Fn(&mut Value) + Send + Sync>;

impl Patch {
    /// A patch that changes nothing yet, for calling handlers in tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a field of the status. A dotted field goes deeper; `None` (or any null) removes it.
    pub fn status(&self, field: impl Into<FieldPath>, value: impl Serialize) -> Result<()> {
        self.set(below("status", &field.into()), value)
    }

    /// Sets a field of the spec. A dotted field goes deeper; `None` (or any null) removes it.
    pub fn spec(&self, field: impl Into<FieldPath>, value: impl Serialize) -> Result<()> {
        self.set(below("spec", &field.into()), value)
    }

    /// Sets a field of the object. A dotted field goes deeper; `None` (or any null) removes it.
    pub fn set(&self, field: impl Into<FieldPath>, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        self.lock().merge.set(&field.into(), value);
        Ok(())
    }

    /// Sets a label.
    pub fn label(&self, key: &str, value: impl Into<String>) {
        self.lock().merge.set(&metadata("labels", key), Value::String(value.into()));
    }

    /// Sets an annotation.
    pub fn annotation(&self, key: &str, value: impl Into<String>) {
        self.lock().merge.set(&metadata("annotations", key), Value::String(value.into()));
    }

    /// Removes a field.
    pub fn remove(&self, field: impl Into<FieldPath>) {
        self.lock().merge.set(&field.into(), Value::Null);
    }

    /// Removes a label.
    pub fn remove_label(&self, key: &str) {
        self.lock().merge.set(&metadata("labels", key), Value::Null);
    }

    /// Removes an annotation.
    pub fn remove_annotation(&self, key: &str) {
        self.lock().merge.set(&metadata("annotations", key), Value::Null);
    }

    /// Changes the latest body in place, for what a merge patch cannot express (items of lists, conditions).
    ///
    /// The engine may call the function several times, each time with a newer body, until the API accepts the result.
    pub fn transform(&self, transformation: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.lock().transformations.push(Arc::new(transformation));
    }

    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        let changes = self.lock();
        changes.merge.is_empty() && changes.transformations.is_empty()
    }

    /// The merge patch, without the transformations.
    pub fn changes(&self) -> Value {
        self.lock().merge.as_value().clone()
    }

    /// Applies the merge patch and the transformations to a body, as the API would.
    pub fn apply_to(&self, body: &mut Value) {
        self.lock().merge.apply_to(body);
        self.apply_transformations(body);
    }

    pub(crate) fn apply_transformations(&self, body: &mut Value) {
        // Call users' functions without the lock: they may hold a clone of the patch.
        let transformations = self.lock().transformations.clone();
        for transformation in transformations {
            transformation(body);
        }
    }

    pub(crate) fn has_transformations(&self) -> bool {
        !self.lock().transformations.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Patch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let changes = self.lock();
        formatter
            .debug_struct("Patch")
            .field("changes", changes.merge.as_value())
            .field("transformations", &changes.transformations.len())
            .finish()
    }
}

fn below(stanza: &str, field: &FieldPath) -> FieldPath {
    field.segments().fold(FieldPath::root().child(stanza), |path, key| path.child(key))
}

/// Keys of labels and annotations contain dots: they are never split.
fn metadata(stanza: &str, key: &str) -> FieldPath {
    FieldPath::root().child("metadata").child(stanza).child(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn transformations_come_after_the_merge_patch() {
        let patch = Patch::new();
        assert!(patch.is_empty());
        patch.set("status", json!({"a": 1})).unwrap();
        patch.status("b.c", Some(2)).unwrap();
        patch.status("d", None::<u32>).unwrap();
        patch.remove("spec.x");
        patch.annotation("example.com/a.b", "1");
        patch.remove_label("l");
        assert_eq!(
            patch.changes(),
            json!({
                "status": {"a": 1, "b": {"c": 2}, "d": null},
                "spec": {"x": null},
                "metadata": {"annotations": {"example.com/a.b": "1"}, "labels": {"l": null}},
            })
        );
        assert!(!patch.has_transformations());
        let clone = patch.clone();
        patch.transform(move |body| body["seen"] = json!(clone.changes()["status"]["a"]));
        let mut body = json!({"spec": {"x": 1, "y": 2}});
        patch.apply_to(&mut body);
        assert_eq!((&body["spec"], &body["seen"]), (&json!({"y": 2}), &json!(1)));
    }

    #[test]
    fn values_that_are_not_json_are_refused() {
        let patch = Patch::new();
        let keyed_by_lists = std::collections::HashMap::from([(vec![1], 2)]);
        assert!(patch.status("x", keyed_by_lists).is_err());
        assert!(patch.is_empty());
    }
}
