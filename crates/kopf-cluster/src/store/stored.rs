//! A stored object: its JSON text, and the few fields that are indexed to avoid decoding it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ObjectKey;

/// The prefix of an object's text that contains its API version.
const API_VERSION: &[u8] = b"{\"apiVersion\":\"";

/// One version of an object. It is immutable; readers share it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub object_key: ObjectKey,
    /// The global version at which it was written.
    pub version: u64,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// The uids of its owners, for garbage collection.
    owners: Box<[Box<str>]>,
    /// For label selectors, so that they need not decode the object.
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The object as JSON without `kind`, and without `apiVersion` for built-in kinds.
    pub raw: Bytes,
}

/// An object that is serialized except for its version, before the store is locked.
#[derive(Debug)]
pub(crate) struct Draft {
    deleting: bool,
    owners: Box<[Box<str>]>,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The text, with an empty version.
    text: Vec<u8>,
    /// Where the version goes; None for values that are not objects.
    version_at: Option<usize>,
}

impl Draft {
    pub(crate) fn of(value: Value) -> Self {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        /// A larger buffer is not kept for the next object.
        const KEPT: usize = 64 * 1024;
        let metadata = value.get("metadata").and_then(Value::as_object);
        let labels = metadata.and_then(|metadata| metadata.get("labels")?.as_object()).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        let owners = metadata.and_then(|metadata| metadata.get("ownerReferences")?.as_array()).into_iter().flatten();
        let owners = owners.filter_map(|owner| Some(owner.get("uid")?.as_str()?.into()));
        let (text, version_at) = BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            let version_at = write_object(buffer, &value);
            let text = buffer.to_vec();
            buffer.shrink_to(KEPT);
            (text, version_at)
        });
        Self {
            deleting: metadata.is_some_and(|metadata| metadata.contains_key("deletionTimestamp")),
            owners: owners.collect(),
            labels: labels.collect(),
            text,
            version_at,
        }
    }

    /// The object with a key and a version.
    pub(crate) fn at(self, object_key: ObjectKey, version: u64) -> Stored {
        let Self { deleting, owners, labels, text, version_at } = self;
        let raw = match version_at.and_then(|at| text.split_at_checked(at)) {
            None => Bytes::from(text.into_boxed_slice()),
            Some((before, after)) => {
                let mut digits = [0; 20];
                let digits = decimal(version, &mut digits);
                // Exactly as many bytes as needed: the object stays in memory.
                let mut raw = Vec::with_capacity(text.len() + digits.len());
                raw.extend_from_slice(before);
                raw.extend_from_slice(digits);
                raw.extend_from_slice(after);
                Bytes::from(raw)
            }
        };
        Stored { object_key, version, deleting, owners, labels, raw }
    }
}

/// The digits of a number.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// Writes the text of an object without its kind, and returns where its version goes.
///
/// The API version comes first, where it can be found without decoding.
fn write_object(buffer: &mut Vec<u8>, value: &Value) -> Option<usize> {
    let Value::Object(fields) = value else {
        write_value(buffer, value);
        return None;
    };
    let mut version_at = None;
    buffer.push(b'{');
    if let Some(api_version) = fields.get("apiVersion") {
        write_field(buffer, "apiVersion", api_version);
    }
    let mut has_metadata = false;
    for (name, field) in fields {
        match (name.as_str(), field) {
            ("kind" | "apiVersion", _) => {}
            ("metadata", Value::Object(metadata)) => {
                has_metadata = true;
                version_at = Some(write_metadata(buffer, metadata));
            }
            (name, field) => {
                has_metadata |= name == "metadata";
                write_field(buffer, name, field);
            }
        }
    }
    if !has_metadata {
        version_at = Some(write_metadata(buffer, &Map::new()));
    }
    buffer.push(b'}');
    version_at
}

fn write_metadata(buffer: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    write_name(buffer, "metadata");
    buffer.push(b'{');
    let mut version_at = None;
    for (name, field) in metadata {
        match name.as_str() {
            "resourceVersion" => version_at = Some(write_empty_version(buffer)),
            name => write_field(buffer, name, field),
        }
    }
    let version_at = version_at.unwrap_or_else(|| write_empty_version(buffer));
    buffer.push(b'}');
    version_at
}

fn write_empty_version(buffer: &mut Vec<u8>) -> usize {
    write_name(buffer, "resourceVersion");
    buffer.extend_from_slice(b"\"\"");
    buffer.len() - 1
}

fn write_field(buffer: &mut Vec<u8>, name: &str, value: &Value) {
    write_name(buffer, name);
    write_value(buffer, value);
}

/// The name of a field, with a comma before it unless it is the first one.
fn write_name(buffer: &mut Vec<u8>, name: &str) {
    if buffer.last() != Some(&b'{') {
        buffer.push(b',');
    }
    // Writing into memory cannot fail.
    let _ = serde_json::to_writer(&mut *buffer, name);
    buffer.push(b':');
}

fn write_value(buffer: &mut Vec<u8>, value: &Value) {
    if serde_json::to_writer(&mut *buffer, value).is_err() {
        // Serializing a JSON value cannot fail; null stands for the impossible.
        let _ = buffer.write_all(b"null");
    }
}

impl Stored {
    /// An object from its stored text.
    pub(super) fn read(object_key: ObjectKey, version: u64, raw: Bytes) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Indexed {
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            labels: BTreeMap<Box<str>, Box<str>>,
            owner_references: Vec<OwnerReference>,
            deletion_timestamp: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct OwnerReference {
            uid: Box<str>,
        }
        // The schema was checked before the write, and the checksum since.
        let Indexed { metadata } = serde_json::from_slice(&raw).unwrap_or_default();
        let owners = metadata.owner_references.into_iter().map(|owner| owner.uid).collect();
        Self {
            object_key,
            version,
            deleting: metadata.deletion_timestamp.is_some(),
            owners,
            labels: metadata.labels.into_iter().collect(),
            raw,
        }
    }

    /// The uids of the owners of the object.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().map(|uid| &**uid)
    }

    /// A label of the object.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    /// The same object in another API version of its resource.
    pub(crate) fn with_value(&self, value: Value) -> Self {
        Draft::of(value).at(self.object_key.clone(), self.version)
    }

    /// The API version in which it is stored; None for built-in kinds.
    pub(crate) fn api_version(&self) -> Option<&str> {
        let rest = self.raw.strip_prefix(API_VERSION)?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(&rest[..end]).ok()
    }

    /// The text of all fields but `apiVersion`, up to the end of the object.
    pub(crate) fn fields_text(&self) -> &[u8] {
        match self.api_version() {
            // A comma follows the closing quote, since every object has metadata.
            Some(version) => self.raw.get(API_VERSION.len() + version.len() + 2..).unwrap_or(b"}"),
            None => self.raw.get(1..).unwrap_or(b"}"),
        }
    }

    /// The decoded object, still without `kind`.
    pub(crate) fn decode(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_has_the_version_and_no_kind() {
        for (value, expected) in [
            (json!({}), r#"{"metadata":{"resourceVersion":"7"}}"#),
            (json!({"kind": "A"}), r#"{"metadata":{"resourceVersion":"7"}}"#),
            (
                json!({"kind": "A", "b": {}, "apiVersion": "c/v1", "metadata": {"name": "d\"", "uid": "e"}, "f": [1]}),
                r#"{"apiVersion":"c/v1","b":{},"metadata":{"name":"d\"","uid":"e","resourceVersion":"7"},"f":[1]}"#,
            ),
            (
                json!({"metadata": {"resourceVersion": "1234", "name": "a"}, "kind": "A"}),
                r#"{"metadata":{"resourceVersion":"7","name":"a"}}"#,
            ),
            (json!({"metadata": null}), r#"{"metadata":null}"#),
            (json!([1]), "[1]"),
        ] {
            let stored = Draft::of(value.clone()).at(ObjectKey::new("", "x"), 7);
            assert_eq!(std::str::from_utf8(&stored.raw), Ok(expected), "{value}");
        }
        let stored = Draft::of(json!({})).at(ObjectKey::new("", "x"), u64::MAX);
        assert_eq!(stored.decode()["metadata"]["resourceVersion"], u64::MAX.to_string());
    }

    #[test]
    fn what_is_looked_for_is_found_in_the_text_again() {
        let value = json!({"metadata": {"labels": {"a": "b", "c": "d"}, "deletionTimestamp": "now",
            "ownerReferences": [{"uid": "e"}]}});
        let drafted = Draft::of(value).at(ObjectKey::new("", "x"), 7);
        let read = Stored::read(ObjectKey::new("", "x"), 7, drafted.raw.clone());
        for stored in [drafted, read] {
            assert_eq!((stored.label("a"), stored.label("c"), stored.label("e")), (Some("b"), Some("d"), None));
            assert_eq!(stored.owners().collect::<Vec<_>>(), ["e"]);
            assert!(stored.deleting);
        }
    }
}
