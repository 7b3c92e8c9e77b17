//! The identity of an object: which one it is, and which version of it, read without the rest of the object.
//!
//! The engine reads it from the bytes of every listed or watched object to route and deduplicate
//! events; most events end there, and their objects are never parsed in full. So it reads no further than it must.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Which object it is, and which version of it.
///
/// ```
/// use kopf_object::ObjectIdentity;
///
/// let bytes = br#"{"kind": "Pod", "metadata": {"name": "x", "resourceVersion": "7", "uid": "u"}}"#;
/// let identity = ObjectIdentity::from_slice(bytes)?;
/// assert_eq!(identity.object_uid, "u");
/// assert_eq!(identity.resource_version.as_deref(), Some("7"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity<'a> {
    /// The key of the object in the memory of the operator: its uid or the next best thing.
    pub object_uid: Cow<'a, str>,
    /// The version of the object in the storage.
    pub resource_version: Option<Cow<'a, str>>,
}

impl<'a> ObjectIdentity<'a> {
    /// Reads the JSON text of an object until all is known; the text behind that is not looked at.
    pub fn from_slice(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut found = Found::default();
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let reader = Reader { level: Level::Object, found: &mut found };
        let read = reader.deserialize(&mut deserializer).and_then(|()| deserializer.end());
        if !found.is_enough() {
            read?;
        }
        let Found { uid, resource_version, kind, api_version, name, namespace, creation_timestamp } = found;
        let others = [&kind, &api_version, &name, &namespace, &creation_timestamp];
        let object_uid = uid.unwrap_or_else(|| Cow::Owned(simulate_uid(others.map(Option::as_deref))));
        Ok(Self { object_uid, resource_version })
    }
}

/// Joins whatever identifies an object that has no uid: kind, apiVersion, name, namespace and
/// creation time. It is less unique in time, but better than not handling the object at all.
pub(crate) fn simulate_uid(parts: [Option<&str>; 5]) -> String {
    let or_dash = |part: Option<&'_ str>| part.filter(|part| !part.is_empty()).unwrap_or("-").to_owned();
    parts.map(or_dash).join("//")
}

/// A field of the metadata of a parsed object. JSON pointers would do, too, but they allocate memory for each key.
pub(crate) fn metadata_field<'a>(body: &'a Value, key: &str) -> Option<&'a Value> {
    body.get("metadata")?.get(key)
}

/// What was found so far.
#[derive(Default)]
struct Found<'a> {
    uid: Option<Cow<'a, str>>,
    resource_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    api_version: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    creation_timestamp: Option<Cow<'a, str>>,
}

impl<'a> Found<'a> {
    /// The other parts matter only without these.
    fn is_enough(&self) -> bool {
        self.uid.is_some() && self.resource_version.is_some()
    }

    fn place(&mut self, level: Level, key: &str) -> Option<&mut Option<Cow<'a, str>>> {
        Some(match (level, key) {
            (Level::Object, "apiVersion") => &mut self.api_version,
            (Level::Object, "kind") => &mut self.kind,
            (Level::Metadata, "creationTimestamp") => &mut self.creation_timestamp,
            (Level::Metadata, "name") => &mut self.name,
            (Level::Metadata, "namespace") => &mut self.namespace,
            (Level::Metadata, "resourceVersion") => &mut self.resource_version,
            (Level::Metadata, "uid") => &mut self.uid,
            _ => return None,
        })
    }
}

/// How deep the reader is.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
}

struct Reader<'f, 'a> {
    level: Level,
    found: &'f mut Found<'a>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = members.next_key()? {
            if self.level == Level::Object && key == "metadata" {
                members.next_value_seed(Reader { level: Level::Metadata, found: &mut *self.found })?;
            } else if let Some(place) = self.found.place(self.level, &key) {
                *place = members.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
            if self.found.is_enough() {
                // The only way to stop a deserializer; the caller knows that nothing is wrong.
                return Err(A::Error::custom("the rest is not of interest"));
            }
        }
        Ok(())
    }
}

/// A string borrowed from the JSON text unless it contains escapes.
struct Text<'a>(Cow<'a, str>);

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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, uid: &str, version: Option<&str>) {
        let identity = ObjectIdentity::from_slice(json.as_bytes()).unwrap();
        assert_eq!((&*identity.object_uid, identity.resource_version.as_deref()), (uid, version), "{json}");
    }

    #[test]
    fn reading() {
        check(
            r#"{"apiVersion": "v1", "spec": {"metadata": {"uid": "x"}}, "kind": "Pod", "metadata": {
                "name": "n", "managedFields": [{"uid": "y"}], "labels": {"uid": "z"}, "resourceVersion": "7", "uid": "u"}}"#,
            "u",
            Some("7"),
        );
        check(r#"{"metadata": {"uid": "\u0061", "resourceVersion": "7\n"}}"#, "a", Some("7\n"));
        check(r#"{"metadata": {"uid": "u"}}"#, "u", None);
    }

    #[test]
    fn what_is_behind_is_not_looked_at() {
        check(r#"{"metadata":{"uid":"u","resourceVersion":"7","oops"#, "u", Some("7"));
        for json in
            ["", "{", r#"{"metadata":{"uid":"u"}"#, r#"{"metadata":{"uid":7,"resourceVersion":"7"}}"#, "[]", "{} 1"]
        {
            assert!(ObjectIdentity::from_slice(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn objects_without_uid() {
        check("{}", "-//-//-//-//-", None);
        check(r#"{"metadata": null}"#, "-//-//-//-//-", None);
        check(r#"{"metadata": {"uid": null, "resourceVersion": "3", "name": "n"}}"#, "-//-//n//-//-", Some("3"));
        check(
            r#"{"metadata": {"creationTimestamp": null, "name": "cm"}, "apiVersion": "v1", "kind": "ComponentStatus"}"#,
            "ComponentStatus//v1//cm//-//-",
            None,
        );
        check(r#"{"metadata": {"namespace": "ns", "creationTimestamp": "2020"}}"#, "-//-//-//ns//2020", None);
    }
}
