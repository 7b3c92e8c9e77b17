//! Field paths: how handlers, filters, diffs and storages name a place inside an object.
//!
//! Everything that says "this field" uses [`FieldPath`]: diffs carry one per item, patches are
//! built by setting values at paths, and the essence picks and drops fields by them.
//! Only objects are walked: list items have no paths, since lists are opaque to diffs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A place in a JSON object: the keys to follow from the root. No keys is the root itself.
///
/// ```
/// use kopf_object::FieldPath;
/// use serde_json::json;
///
/// let path = FieldPath::parse("spec.size");
/// assert_eq!(path.resolve(&json!({"spec": {"size": 3}})), Some(&json!(3)));
/// assert_eq!(path.to_string(), "spec.size");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldPath {
    /// The keys from the root down to the field; a key may contain dots (annotations do).
    segments: Vec<Box<str>>,
}

impl FieldPath {
    /// The path of the whole object.
    pub const fn root() -> Self {
        Self { segments: Vec::new() }
    }

    /// Splits a dotted notation. An empty string is one empty key, not the root.
    pub fn parse(dotted: &str) -> Self {
        dotted.split('.').collect()
    }

    /// The keys from the root down.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        self.segments.iter().map(AsRef::as_ref)
    }

    /// How many keys deep the field is.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether this is the root; the same as [`FieldPath::is_root`].
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether this is the path of the whole object.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The path of a key directly under this one.
    pub fn child(&self, key: impl Into<Box<str>>) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(key.into());
        Self { segments }
    }

    /// What remains of this path below `ancestor`, or `None` if it is not below or at it.
    pub fn strip_prefix(&self, ancestor: &Self) -> Option<Self> {
        let segments = self.segments.strip_prefix(ancestor.segments.as_slice())?;
        Some(Self { segments: segments.to_vec() })
    }

    /// Finds the value at this path, or `None` if a key is absent or a parent is not an object.
    ///
    /// A JSON null at the path itself is returned, too. Callers for whom null means absence
    /// (filters, diffs) use [`FieldPath::resolve_present`].
    pub fn resolve<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.segments.iter().try_fold(root, |value, key| value.as_object()?.get(key.as_ref()))
    }

    /// The same as [`FieldPath::resolve`], with null counted as absent.
    pub fn resolve_present<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.resolve(root).filter(|value| !value.is_null())
    }

    /// The same as [`FieldPath::resolve`], for changing the value in place.
    pub fn resolve_mut<'a>(&self, root: &'a mut Value) -> Option<&'a mut Value> {
        self.segments.iter().try_fold(root, |value, key| value.as_object_mut()?.get_mut(key.as_ref()))
    }

    /// Sets the value at this path. Missing parents are created; parents that are not objects
    /// are replaced by objects. An existing key keeps its position.
    pub fn ensure(&self, root: &mut Value, value: Value) {
        let mut place = root;
        for key in &self.segments {
            place = object_at(place).entry(key.as_ref()).or_insert(Value::Null);
        }
        *place = value;
    }

    /// Removes the value at this path and every parent that is an empty object afterwards,
    /// also where the value was absent in the first place. The order of other keys is kept.
    ///
    /// Nothing happens for the root, nor below a parent that is not an object.
    pub fn remove(&self, root: &mut Value) -> Option<Value> {
        remove_below(root, &self.segments)
    }
}

/// The object in `place`; anything else there is replaced by an empty object.
pub(crate) fn object_at(place: &mut Value) -> &mut Map<String, Value> {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(map) => map,
        _ => unreachable!("the value was made an object above"),
    }
}

fn remove_below(place: &mut Value, segments: &[Box<str>]) -> Option<Value> {
    let map = place.as_object_mut()?;
    match segments {
        [] => None,
        [last] => map.shift_remove(last.as_ref()),
        [first, rest @ ..] => {
            let child = map.get_mut(first.as_ref())?;
            let removed = remove_below(child, rest);
            if child.as_object().is_some_and(Map::is_empty) {
                map.shift_remove(first.as_ref());
            }
            removed
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                formatter.write_str(".")?;
            }
            formatter.write_str(segment)?;
        }
        Ok(())
    }
}

impl<S: Into<Box<str>>> FromIterator<S> for FieldPath {
    fn from_iter<I: IntoIterator<Item = S>>(segments: I) -> Self {
        Self { segments: segments.into_iter().map(Into::into).collect() }
    }
}

impl From<&str> for FieldPath {
    fn from(dotted: &str) -> Self {
        Self::parse(dotted)
    }
}

impl<S: Into<Box<str>>, const N: usize> From<[S; N]> for FieldPath {
    fn from(segments: [S; N]) -> Self {
        segments.into_iter().collect()
    }
}

impl<S: Into<Box<str>>> From<Vec<S>> for FieldPath {
    fn from(segments: Vec<S>) -> Self {
        segments.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notations() {
        let check = |path: FieldPath, segments: &[&str], dotted: &str| {
            assert_eq!(path.segments().collect::<Vec<_>>(), segments);
            assert_eq!(path.to_string(), dotted);
            assert_eq!(json!(path), json!(segments));
        };
        check(FieldPath::root(), &[], "");
        check(FieldPath::parse(""), &[""], "");
        check(FieldPath::parse("a"), &["a"], "a");
        check(FieldPath::parse("a.b"), &["a", "b"], "a.b");
        check(FieldPath::parse("a..b"), &["a", "", "b"], "a..b");
        check(FieldPath::from(["a", "b.c/d"]), &["a", "b.c/d"], "a.b.c/d");
        check(FieldPath::from(vec!["a"]).child("b"), &["a", "b"], "a.b");
    }

    #[test]
    fn resolution() {
        let check = |root: Value, field: &str, expected: Option<Value>| {
            let path = FieldPath::parse(field);
            assert_eq!(path.resolve(&root), expected.as_ref(), "{field} of {root}");
            let present = expected.filter(|value| !value.is_null());
            assert_eq!(path.resolve_present(&root), present.as_ref(), "{field} of {root}");
        };
        check(json!({"a": {"b": 1}}), "a.b", Some(json!(1)));
        check(json!({"a": {"b": null}}), "a.b", Some(json!(null)));
        check(json!({"a": {}}), "a.b", None);
        check(json!({"a": null}), "a.b", None);
        check(json!({"a": [{"b": 1}]}), "a.b", None);
        check(json!({"a": "text"}), "a.b", None);
        check(json!(null), "a", None);
        assert_eq!(FieldPath::root().resolve(&json!(5)), Some(&json!(5)));
    }

    #[test]
    fn setting() {
        let check = |mut root: Value, field: &str, expected: Value| {
            FieldPath::parse(field).ensure(&mut root, json!(1));
            assert_eq!(root.to_string(), expected.to_string(), "{field}");
        };
        check(json!({}), "a.b.c", json!({"a": {"b": {"c": 1}}}));
        check(json!({"a": 0, "b": 0}), "a", json!({"a": 1, "b": 0}));
        check(json!({"a": {"x": 0}, "b": 0}), "a.y", json!({"a": {"x": 0, "y": 1}, "b": 0}));
        check(json!({"a": null}), "a.b", json!({"a": {"b": 1}}));
        check(json!({"a": [0]}), "a.b", json!({"a": {"b": 1}}));
        check(json!(null), "a", json!({"a": 1}));
    }

    #[test]
    fn prefixes() {
        let check = |path: &str, ancestor: &str, expected: Option<FieldPath>| {
            assert_eq!(FieldPath::parse(path).strip_prefix(&FieldPath::parse(ancestor)), expected);
        };
        check("a.b.c", "a.b", Some(FieldPath::parse("c")));
        check("a.b", "a.b", Some(FieldPath::root()));
        check("a.b", "a.b.c", None);
        check("a.bc", "a.b", None);
    }
}
