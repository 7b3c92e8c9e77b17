//! Diffs: what has changed between the last handled essence of an object and the current one.
//!
//! The reaction computes one diff per event to tell an update from noise, reduces it to single
//! fields for field handlers, and hands it to users as `diff`. The engine also uses the
//! left-scoped variant to check that the API has kept what a merge-patch had sent.

use serde::ser::{Serialize, SerializeTuple, Serializer};
use serde_json::{Map, Value, json};

use crate::equality::python_equal;
use crate::path::{FieldPath, object_at};

/// An ordered list of changes from an old value to a new one.
///
/// The order is deterministic: on every level, additions in the order of the new object, then
/// removals in the order of the old one, then changes in the order of the new one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff(pub Vec<DiffItem>);

/// One change of one field. Null stands for absence on either side.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffItem {
    /// What has happened to the field.
    pub op: DiffOp,
    /// Which field it is, relative to the root of the compared values.
    pub field: FieldPath,
    /// The value before the change; null for additions.
    pub old: Value,
    /// The value after the change; null for removals.
    pub new: Value,
}

/// What can happen to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOp {
    /// The field was absent or null, and now has a value.
    Add,
    /// The field had another value.
    Change,
    /// The field had a value, and now is absent or null.
    Remove,
}

/// Compares two values, where absence and null mean the same.
///
/// Objects are compared key by key, lists as a whole. A subtree that appears or disappears is
/// one item. Numbers and booleans are compared by value, as Python does: `1`, `1.0` and `true`
/// are equal.
///
/// ```
/// use kopf_object::{diff, FieldPath};
/// use serde_json::json;
///
/// let changes = diff(Some(&json!({"size": 1})), Some(&json!({"size": 2, "on": true})));
/// assert_eq!(
///     changes.to_json(),
///     json!([["add", ["on"], null, true], ["change", ["size"], 1, 2]]),
/// );
/// ```
pub fn diff(old: Option<&Value>, new: Option<&Value>) -> Diff {
    let mut changes = compare(old, new, Scope::Full);
    // The diff lives as long as the calls of the handlers.
    changes.0.shrink_to_fit();
    changes
}

/// Compares only those fields that the left value has; other fields of the right are ignored.
///
/// With a merge-patch on the left and the patched object on the right, the result is what the
/// API has not applied as requested.
pub fn diff_left(old: Option<&Value>, new: Option<&Value>) -> Diff {
    compare(old, new, Scope::Left)
}

/// The parts of a merge-patch that are missing in the object of the API's response.
///
/// Kubernetes drops labels, annotations and finalizers altogether when they become empty,
/// so an empty value against an absent one is not reported for these three fields.
pub fn inconsistencies(patch: &Value, patched_body: &Value) -> Diff {
    let mut mismatches = diff_left(Some(patch), Some(patched_body));
    mismatches.0.retain(|item| is_truthy(&item.old) || is_truthy(&item.new) || !is_dropped_when_empty(&item.field));
    mismatches
}

impl Diff {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The changes in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, DiffItem> {
        self.0.iter()
    }

    /// The changes of one field and below it, with the paths relative to that field.
    ///
    /// Where a whole parent of the field has changed, the change is narrowed to the field.
    pub fn reduce(&self, field: &FieldPath) -> Diff {
        let mut items = Vec::new();
        for item in &self.0 {
            if let Some(tail) = item.field.strip_prefix(field) {
                items.push(DiffItem { field: tail, ..item.clone() });
            } else if let Some(tail) = field.strip_prefix(&item.field) {
                items.extend(diff(tail.resolve(&item.old), tail.resolve(&item.new)));
            }
        }
        Diff(items)
    }

    /// Replays the changes over the old value. The result is the new value, up to nulls and
    /// to the notation of numbers, which comparisons ignore.
    pub fn apply(&self, old: &Value) -> Value {
        let mut result = old.clone();
        for item in &self.0 {
            match item.op {
                DiffOp::Add | DiffOp::Change => item.field.ensure(&mut result, item.new.clone()),
                DiffOp::Remove => unset(&mut result, &item.field),
            }
        }
        result
    }

    /// The diff as Python users see it: a list of `[op, [keys…], old, new]`.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(DiffItem::to_json).collect()
    }
}

impl DiffItem {
    /// The item as Python users see it: `[op, [keys…], old, new]`.
    pub fn to_json(&self) -> Value {
        let field: Vec<&str> = self.field.segments().collect();
        json!([self.op.as_str(), field, self.old, self.new])
    }
}

impl DiffOp {
    /// The operation's name as Python users see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            DiffOp::Add => "add",
            DiffOp::Change => "change",
            DiffOp::Remove => "remove",
        }
    }
}

/// Which fields are compared.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The fields of both values.
    Full,
    /// The fields of the old value only.
    Left,
}

fn compare(old: Option<&Value>, new: Option<&Value>, scope: Scope) -> Diff {
    let mut comparison = Comparison { scope, place: Vec::new(), items: Vec::new() };
    comparison.values(old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
    Diff(comparison.items)
}

/// One walk over two values. Paths are only allocated for the differences found.
struct Comparison<'a> {
    /// Which fields to look at; fixed for the walk.
    scope: Scope,
    /// The keys from the root to where the walk is now.
    place: Vec<&'a str>,
    /// The differences found so far.
    items: Vec<DiffItem>,
}

impl<'a> Comparison<'a> {
    fn values(&mut self, old: &'a Value, new: &'a Value) {
        match (old, new) {
            (Value::Null, Value::Null) => {}
            (Value::Null, _) => self.found(DiffOp::Add, old, new),
            (_, Value::Null) => self.found(DiffOp::Remove, old, new),
            (Value::Object(old), Value::Object(new)) => self.objects(old, new),
            _ if python_equal(old, new) => {}
            _ => self.found(DiffOp::Change, old, new),
        }
    }

    fn objects(&mut self, old: &'a Map<String, Value>, new: &'a Map<String, Value>) {
        if self.scope == Scope::Full {
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                self.at(key, &Value::Null, value);
            }
        }
        for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            self.at(key, value, &Value::Null);
        }
        for (key, new_value) in new {
            if let Some(old_value) = old.get(key) {
                self.at(key, old_value, new_value);
            }
        }
    }

    fn at(&mut self, key: &'a str, old: &'a Value, new: &'a Value) {
        self.place.push(key);
        self.values(old, new);
        self.place.pop();
    }

    fn found(&mut self, op: DiffOp, old: &Value, new: &Value) {
        self.items.push(DiffItem {
            op,
            field: self.place.iter().copied().collect(),
            old: old.clone(),
            new: new.clone(),
        });
    }
}

/// Removes the field but keeps its emptied parents, because the new value has them.
fn unset(root: &mut Value, field: &FieldPath) {
    let keys: Vec<&str> = field.segments().collect();
    let Some((last, parents)) = keys.split_last() else {
        *root = Value::Null;
        return;
    };
    let parent: FieldPath = parents.iter().copied().collect();
    if let Some(place) = parent.resolve_mut(root) {
        object_at(place).shift_remove(*last);
    }
}

/// Whether this is one of the fields that Kubernetes removes when they become empty.
fn is_dropped_when_empty(field: &FieldPath) -> bool {
    field.segments().eq(["metadata", "annotations"])
        || field.segments().eq(["metadata", "finalizers"])
        || field.segments().eq(["metadata", "labels"])
}

/// Truth as Python sees it: zeros and everything empty are false.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_f64() != Some(0.0),
        Value::String(value) => !value.is_empty(),
        Value::Array(value) => !value.is_empty(),
        Value::Object(value) => !value.is_empty(),
    }
}

impl IntoIterator for Diff {
    type Item = DiffItem;
    type IntoIter = std::vec::IntoIter<DiffItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diff {
    type Item = &'a DiffItem;
    type IntoIter = std::slice::Iter<'a, DiffItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl Serialize for DiffItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(4)?;
        tuple.serialize_element(self.op.as_str())?;
        tuple.serialize_element(&self.field)?;
        tuple.serialize_element(&self.old)?;
        tuple.serialize_element(&self.new)?;
        tuple.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_items() {
        let old = json!({"r2": 1, "c2": 1, "r1": 1, "c1": 1, "n": {"r": 1}});
        let new = json!({"a2": 1, "n": {"a": 1}, "c1": 2, "a1": 1, "c2": 2});
        let expected = json!([
            ["add", ["a2"], null, 1],
            ["add", ["a1"], null, 1],
            ["remove", ["r2"], 1, null],
            ["remove", ["r1"], 1, null],
            ["add", ["n", "a"], null, 1],
            ["remove", ["n", "r"], 1, null],
            ["change", ["c1"], 1, 2],
            ["change", ["c2"], 1, 2],
        ]);
        let found = diff(Some(&old), Some(&new));
        assert_eq!(found.to_json(), expected);
        assert_eq!(json!(found), expected);
    }

    #[test]
    fn absence_is_null() {
        let check = |old: Option<Value>, new: Option<Value>, expected: Value| {
            assert_eq!(diff(old.as_ref(), new.as_ref()).to_json(), expected);
        };
        check(None, None, json!([]));
        check(None, Some(json!(null)), json!([]));
        check(None, Some(json!({})), json!([["add", [], null, {}]]));
        check(Some(json!(1)), None, json!([["remove", [], 1, null]]));
    }
}
