//! The identity of an object: which one it is, and which version of it, read without the rest of the object.
//!
//! The engine reads it from the raw JSON of every listed or watched object, to route and deduplicate
//! events. Most events end there, and their objects are never parsed in full. So it stops reading as early as possible.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::text::{Members, Unsupported, members, plain_string};

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
    /// Reads the JSON text of an object until the uid and the version are known; it ignores the text after that.
    pub fn from_slice(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut found = Found::default();
        if found.search(&mut members(json), SearchDepth::Object).is_err() {
            found = serde_json::from_slice::<Object>(json)?.into();
        }
        let Found { uid, resource_version, kind, api_version, name, namespace, creation_timestamp } = found;
        let others = [&kind, &api_version, &name, &namespace, &creation_timestamp];
        let object_uid = uid.unwrap_or_else(|| Cow::Owned(simulate_uid(others.map(Option::as_deref))));
        Ok(Self { object_uid, resource_version })
    }
}

/// Joins everything that identifies an object without a uid: kind, apiVersion, name, namespace and
/// creation time. It is less unique in time, but better than not handling the object at all.
pub(crate) fn simulate_uid(parts: [Option<&str>; 5]) -> String {
    let or_dash = |part: Option<&'_ str>| part.filter(|part| !part.is_empty()).unwrap_or("-").to_owned();
    parts.map(or_dash).join("//")
}

/// A field of the metadata of a parsed object. Unlike JSON pointers, it allocates no memory.
pub(crate) fn metadata_field<'a>(body: &'a Value, key: &str) -> Option<&'a Value> {
    body.get("metadata")?.get(key)
}

/// What the search has found so far.
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
    /// The other parts matter only without these two.
    fn is_enough(&self) -> bool {
        self.uid.is_some() && self.resource_version.is_some()
    }

    /// Searches the members until it has enough.
    fn search(&mut self, members: &mut Members<'a>, depth: SearchDepth) -> Result<(), Unsupported> {
        while let Some(name) = members.next_name() {
            let name = name?;
            if depth == SearchDepth::Object && name == "metadata" && members.peek() == Some(b'{') {
                let mut metadata = members.enter_members();
                self.search(&mut metadata, SearchDepth::Metadata)?;
                if !self.is_enough() {
                    members.leave(metadata.end()?);
                }
            } else {
                let value = members.value()?;
                if let Some(part) = self.part(depth, name) {
                    *part = if value == b"null" { None } else { Some(Cow::Borrowed(plain_string(value)?)) };
                }
            }
            if self.is_enough() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn part(&mut self, depth: SearchDepth, key: &str) -> Option<&mut Option<Cow<'a, str>>> {
        Some(match (depth, key) {
            (SearchDepth::Object, "apiVersion") => &mut self.api_version,
            (SearchDepth::Object, "kind") => &mut self.kind,
            (SearchDepth::Metadata, "creationTimestamp") => &mut self.creation_timestamp,
            (SearchDepth::Metadata, "name") => &mut self.name,
            (SearchDepth::Metadata, "namespace") => &mut self.namespace,
            (SearchDepth::Metadata, "resourceVersion") => &mut self.resource_version,
            (SearchDepth::Metadata, "uid") => &mut self.uid,
            _ => return None,
        })
    }
}

/// How deep the search is.
#[derive(Clone, Copy, PartialEq)]
enum SearchDepth {
    Object,
    Metadata,
}

/// The same for a full parser, for unusual or invalid JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Object> for Found<'_> {
    fn from(object: Object) -> Self {
        let metadata = object.metadata.unwrap_or_default();
        let owned = |text: Option<String>| text.map(Cow::Owned);
        Self {
            uid: owned(metadata.uid),
            resource_version: owned(metadata.resource_version),
            kind: owned(object.kind),
            api_version: owned(object.api_version),
            name: owned(metadata.name),
            namespace: owned(metadata.namespace),
            creation_timestamp: owned(metadata.creation_timestamp),
        }
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
    fn uid_and_version_are_found_at_any_position() {
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
    fn text_after_the_identity_is_ignored() {
        check(r#"{"metadata":{"uid":"u","resourceVersion":"7","oops"#, "u", Some("7"));
        for json in
            ["", "{", r#"{"metadata":{"uid":"u"}"#, r#"{"metadata":{"uid":7,"resourceVersion":"7"}}"#, "[]", "{} 1"]
        {
            assert!(ObjectIdentity::from_slice(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn objects_without_a_uid_get_a_simulated_one() {
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
