//! The head of an object: its identity and metadata, decoded without the rest of the object.
//!
//! The engine decodes it from the bytes of every listed or watched object to route, filter and
//! deduplicate events; most events end there, and their objects are never parsed in full.
//! Strings are borrowed from the bytes unless they contain escapes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::reference::ObjectReference;

/// What identifies an object, and its metadata.
///
/// ```
/// use kopf_object::ObjectHead;
///
/// let bytes = br#"{"kind": "Pod", "metadata": {"name": "x", "labels": {"app": "y"}}}"#;
/// let head = ObjectHead::from_slice(bytes)?;
/// assert_eq!(head.metadata.name.as_deref(), Some("x"));
/// assert_eq!(head.metadata.labels.get("app"), Some("y"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectHead<'a> {
    /// The group and version; absent on items of typed lists.
    #[serde(borrow)]
    pub api_version: Option<Text<'a>>,
    /// The kind; absent on items of typed lists.
    #[serde(borrow)]
    pub kind: Option<Text<'a>>,
    /// The metadata; empty if the object has none.
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub metadata: ObjectMeta<'a>,
}

/// The metadata that the framework looks at. Any of it can be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta<'a> {
    /// The name, unique in the namespace at any moment.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// The namespace; absent for cluster-scoped objects.
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    /// The identifier, unique in space and time; a few virtual kinds have none.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// The version of the object in the storage; compared for equality only.
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
    /// The counter of changes in the spec.
    pub generation: Option<i64>,
    /// When the object was created.
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    /// When the deletion was requested.
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// The labels in their order.
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub labels: TextMap<'a>,
    /// The annotations in their order.
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub annotations: TextMap<'a>,
    /// Who must agree to the object's deletion.
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub finalizers: Vec<Text<'a>>,
    /// The objects with which this one is garbage-collected.
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerHead<'a>>,
}

/// What is decoded of an owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerHead<'a> {
    /// The group and version of the owner.
    #[serde(borrow)]
    pub api_version: Option<Text<'a>>,
    /// The kind of the owner.
    #[serde(borrow)]
    pub kind: Option<Text<'a>>,
    /// The name of the owner.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// The identifier of the owner.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// Whether the owner is the one that manages the object.
    pub controller: Option<bool>,
}

impl<'a> ObjectHead<'a> {
    /// Decodes the head from the JSON text of an object, skipping everything else.
    pub fn from_slice(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The key of the object in the memory of the operator: its uid or the next best thing.
    pub fn object_uid(&self) -> Cow<'a, str> {
        if let Some(uid) = &self.metadata.uid {
            return uid.0.clone();
        }
        Cow::Owned(simulate_uid([
            self.kind.as_deref(),
            self.api_version.as_deref(),
            self.metadata.name.as_deref(),
            self.metadata.namespace.as_deref(),
            self.metadata.creation_timestamp.as_deref(),
        ]))
    }

    /// Whether somebody has requested the deletion of the object.
    pub fn is_deletion_ongoing(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the object carries the finalizer.
    pub fn is_deletion_blocked(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|known| &**known == finalizer)
    }

    /// The reference by which events and log records name the object.
    pub fn reference(&self) -> ObjectReference {
        let owned = |text: &Option<Text<'_>>| text.as_deref().map(str::to_owned);
        ObjectReference {
            api_version: owned(&self.api_version),
            kind: owned(&self.kind),
            name: owned(&self.metadata.name),
            uid: owned(&self.metadata.uid),
            namespace: owned(&self.metadata.namespace),
        }
    }
}

/// Joins whatever identifies an object that has no uid: kind, apiVersion, name, namespace and
/// creation time. It is less unique in time, but better than not handling the object at all.
pub(crate) fn simulate_uid(parts: [Option<&str>; 5]) -> String {
    let or_dash = |part: Option<&'_ str>| part.filter(|part| !part.is_empty()).unwrap_or("-").to_owned();
    parts.map(or_dash).join("//")
}

/// A string borrowed from the JSON text where possible, also inside of options and lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text)))
    }
}

/// Labels or annotations: few enough to be searched one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextMap<'a>(pub Vec<(Text<'a>, Text<'a>)>);

impl TextMap<'_> {
    /// The value of a key. If the key is repeated, the last one counts, as for any JSON object.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| &**known == key);
        found.map(|(_, value)| &**value)
    }

    /// All keys and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextMapVisitor)
    }
}

struct TextMapVisitor;

impl<'de> Visitor<'de> for TextMapVisitor {
    type Value = TextMap<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = map.next_key()? {
            if let Some(value) = map.next_value::<Option<Text<'de>>>()? {
                pairs.push((key, value));
            }
        }
        Ok(TextMap(pairs))
    }
}

/// Reads null as if the key was absent.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_in_full() {
        let json = br#"{"apiVersion": "v1", "spec": {"a": [1, {}]}, "kind": "Pod", "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-02T00:00:00Z",
            "labels": {"a": "1", "b": "2"}, "annotations": {"x": "quoted \" text"},
            "finalizers": ["f1", "f2"], "managedFields": [{"manager": "m"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true}]
        }}"#;
        let head = ObjectHead::from_slice(json).unwrap();
        let meta = &head.metadata;
        assert_eq!(head.api_version.as_deref(), Some("v1"));
        assert_eq!(head.kind.as_deref(), Some("Pod"));
        assert_eq!(meta.namespace.as_deref(), Some("ns"));
        assert_eq!(meta.resource_version.as_deref(), Some("7"));
        assert_eq!(meta.generation, Some(3));
        assert_eq!(meta.labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!(meta.annotations.get("x"), Some("quoted \" text"));
        assert_eq!(meta.annotations.get("y"), None);
        assert_eq!(meta.owner_references[0].kind.as_deref(), Some("K"));
        assert_eq!(meta.owner_references[0].controller, Some(true));
        assert_eq!(head.object_uid(), "u");
        assert!(head.is_deletion_ongoing());
        assert!(head.is_deletion_blocked("f2"));
        assert!(!head.is_deletion_blocked("f"));
    }

    #[test]
    fn strings_are_borrowed_unless_escaped() {
        let json = br#"{"metadata": {"name": "plain", "namespace": "\u0061", "labels": {"a": "b"}}}"#;
        let head = ObjectHead::from_slice(json).unwrap();
        let is_borrowed = |text: &Text<'_>| matches!(text.0, Cow::Borrowed(_));
        assert!(head.metadata.name.as_ref().is_some_and(is_borrowed));
        assert!(!head.metadata.namespace.as_ref().is_some_and(is_borrowed));
        assert!(head.metadata.labels.0.iter().all(|(key, value)| is_borrowed(key) && is_borrowed(value)));
    }

    #[test]
    fn absent_parts() {
        let check = |json: &str, uid: &str| {
            let head = ObjectHead::from_slice(json.as_bytes()).unwrap();
            assert_eq!(head.object_uid(), uid, "{json}");
            assert!(head.metadata.labels.is_empty());
            assert!(!head.is_deletion_ongoing());
        };
        check("{}", "-//-//-//-//-");
        check(r#"{"metadata": null}"#, "-//-//-//-//-");
        check(r#"{"metadata": {"uid": null, "labels": null, "finalizers": null, "name": "n"}}"#, "-//-//n//-//-");
        check(
            r#"{"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"creationTimestamp": null, "name": "cm"}}"#,
            "ComponentStatus//v1//cm//-//-",
        );
        check(r#"{"metadata": {"namespace": "ns", "creationTimestamp": "2020"}}"#, "-//-//-//ns//2020");
    }

    #[test]
    fn broken_text_is_an_error() {
        for json in ["", "7", "{", r#"{"metadata": {"name": 1}}"#, r#"{"metadata": {"labels": ["x"]}}"#] {
            assert!(ObjectHead::from_slice(json.as_bytes()).is_err(), "{json}");
        }
    }
}
