//! Writes objects as clients receive them: with their type, in the requested version and representation.
//!
//! Objects are stored as JSON text without `apiVersion` and `kind`. Most answers only put these
//! two in front of it; only other forms and other versions decode the object.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::table;
use crate::builtin::{convert, kinds};
use crate::catalog::ResourceType;
use crate::codec::json::to_bytes;
use crate::request::representation::{Representation, RowObject};
use crate::store::Stored;

/// How to send the objects of a resource to one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renderer<'a> {
    pub resource: &'a ResourceType,
    pub representation: Representation,
    /// For the ages of tables.
    pub now: Timestamp,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub version: u64,
    pub continue_token: String,
    pub remaining: Option<u64>,
}

impl Renderer<'_> {
    /// One object.
    pub(crate) fn object(&self, stored: &Stored) -> Vec<u8> {
        match self.representation {
            Representation::Objects => self.typed(stored),
            Representation::Metadata => to_bytes(&partial(self.resource, &decode(self.resource, stored))),
            Representation::Table(_) => {
                let meta = ListMeta { version: stored.version, ..ListMeta::default() };
                self.table(&[decode(self.resource, stored)], &meta, true)
            }
        }
    }

    /// An object that is not stored (yet): the answer of a write.
    pub(crate) fn value(&self, mut value: Value) -> Vec<u8> {
        match self.representation {
            Representation::Objects => {
                put_type(&mut value, self.resource);
                to_bytes(&value)
            }
            Representation::Metadata => to_bytes(&partial(self.resource, &value)),
            Representation::Table(_) => {
                let version = value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
                let meta = ListMeta { version: version.unwrap_or_default(), ..ListMeta::default() };
                self.table(&[value], &meta, true)
            }
        }
    }

    /// A list of objects.
    pub(crate) fn list(&self, objects: &[impl AsRef<Stored>], meta: &ListMeta) -> Bytes {
        match self.representation {
            Representation::Objects => self.typed_list(objects, meta).into(),
            Representation::Metadata => {
                let items: Vec<Value> = objects
                    .iter()
                    .map(|stored| partial(self.resource, &decode(self.resource, stored.as_ref())))
                    .collect();
                // No items are none at all.
                let items = if items.is_empty() { Value::Null } else { Value::Array(items) };
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": list_meta(meta, false), "items": items});
                to_bytes(&list).into()
            }
            Representation::Table(_) => {
                let values: Vec<Value> = objects.iter().map(|stored| decode(self.resource, stored.as_ref())).collect();
                self.table(&values, meta, true).into()
            }
        }
    }

    /// An event of a watch. The columns of a table are sent with the first event only.
    pub(crate) fn event(&self, kind: &str, stored: &Stored, version: u64, first: bool) -> Vec<u8> {
        let object = match self.representation {
            Representation::Objects if stored.version == version => self.typed(stored),
            Representation::Table(_) => {
                let meta = ListMeta { version, ..ListMeta::default() };
                self.table(&[at_version(decode(self.resource, stored), version)], &meta, first)
            }
            _ => self.value(at_version(decode(self.resource, stored), version)),
        };
        event_line(kind, &object)
    }

    /// A sign of life that tells the version up to which everything has been sent: an object of
    /// which nothing else is known.
    pub(crate) fn bookmark(&self, version: u64, ends_initial_events: bool, first: bool) -> Vec<u8> {
        let mut object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": version.to_string()}});
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        if self.resource.custom().is_none() {
            normalize(self.resource, &mut object);
            kinds::prepare_bookmark(self.resource, &mut object);
        }
        let object = match self.representation {
            Representation::Table(_) => self.table(&[object], &ListMeta { version, ..ListMeta::default() }, first),
            Representation::Metadata => to_bytes(&partial(self.resource, &object)),
            Representation::Objects => to_bytes(&object),
        };
        event_line("BOOKMARK", &object)
    }

    fn typed(&self, stored: &Stored) -> Vec<u8> {
        if convert::is_needed(self.resource) {
            return to_bytes(&decode(self.resource, stored));
        }
        let mut text = Vec::with_capacity(stored.raw.len() + 96);
        text.extend_from_slice(b"{\"kind\":");
        text.extend(to_bytes(&json!(self.resource.kind)));
        text.extend_from_slice(b",\"apiVersion\":");
        text.extend(to_bytes(&json!(self.resource.api_version())));
        text.push(b',');
        text.extend_from_slice(stored.fields_text());
        text
    }

    fn typed_list(&self, objects: &[impl AsRef<Stored>], meta: &ListMeta) -> Vec<u8> {
        let custom = self.resource.custom().is_some();
        let head = json!({"kind": self.resource.list_kind, "apiVersion": self.resource.api_version(),
            "metadata": list_meta(meta, custom)});
        let mut text = to_bytes(&head);
        text.pop();
        text.extend_from_slice(b",\"items\":[");
        for (index, stored) in objects.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            let stored = stored.as_ref();
            match () {
                () if custom => text.extend(self.typed(stored)),
                // Items of built-in kinds carry no type: the list names it.
                () if convert::is_needed(self.resource) => {
                    let mut value = stored.decode();
                    convert::from_storage(self.resource, &mut value);
                    normalize(self.resource, &mut value);
                    text.extend(to_bytes(&value));
                }
                () => text.extend_from_slice(&stored.raw),
            }
        }
        text.extend_from_slice(b"]}");
        text
    }

    fn table(&self, objects: &[Value], meta: &ListMeta, with_columns: bool) -> Vec<u8> {
        let row = |object: &Value| {
            let kept = convert::kept_form(self.resource, object);
            let cells = table::cells(self.resource, kept.as_ref().unwrap_or(object), self.now);
            let mut row = json!({"cells": cells});
            match self.representation {
                Representation::Table(RowObject::Object) => row["object"] = object.clone(),
                Representation::Table(RowObject::Nothing) => row["object"] = Value::Null,
                _ => row["object"] = partial(self.resource, object),
            }
            row
        };
        let columns = if with_columns { table::columns(self.resource) } else { Value::Null };
        let rows = match objects.is_empty() && table::is_plain(self.resource) {
            true => Value::Null,
            false => objects.iter().map(row).collect(),
        };
        to_bytes(&json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta(meta, false),
            "columnDefinitions": columns, "rows": rows}))
    }
}

/// An object as data, with its type, in the version of the resource; what only a webhook could
/// convert stays in the version in which it is stored.
pub(crate) fn decode(resource: &ResourceType, stored: &Stored) -> Value {
    let mut value = stored.decode();
    convert::from_storage(resource, &mut value);
    if convert::is_needed(resource) {
        normalize(resource, &mut value);
    }
    put_type(&mut value, resource);
    if let Some(version) = stored.api_version().filter(|_| resource.conversion().is_some()) {
        value["apiVersion"] = json!(version);
    }
    value
}

/// Brings an object of a built-in kind into the form of its version.
fn normalize(resource: &ResourceType, value: &mut Value) {
    if let Some(structure) = resource.structure() {
        structure.normalize(value);
    }
}

/// Puts `kind` and `apiVersion` in front of an object.
pub(crate) fn put_type(value: &mut Value, resource: &ResourceType) {
    let is_typed = value.as_object().is_some_and(|fields| {
        let is = |field: Option<(&String, &Value)>, name: &str, text: &str| {
            field.is_some_and(|(field, value)| field == name && value.as_str() == Some(text))
        };
        let mut first = fields.iter();
        is(first.next(), "kind", &resource.kind) && is(first.next(), "apiVersion", resource.api_version())
    });
    if is_typed {
        return;
    }
    let mut typed = Map::new();
    typed.insert("kind".into(), json!(resource.kind));
    typed.insert("apiVersion".into(), json!(resource.api_version()));
    if let Value::Object(fields) = std::mem::take(value) {
        typed.extend(fields.into_iter().filter(|(name, _)| name != "kind" && name != "apiVersion"));
    }
    *value = Value::Object(typed);
}

/// An error as an event of a watch.
pub(crate) fn error_event(status: &Value) -> Vec<u8> {
    event_line("ERROR", &to_bytes(status))
}

fn event_line(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line
}

/// The metadata is that of the object as the server keeps it.
fn partial(resource: &ResourceType, object: &Value) -> Value {
    let kept = convert::kept_form(resource, object);
    let metadata = &kept.as_ref().unwrap_or(object)["metadata"];
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn at_version(mut object: Value, version: u64) -> Value {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

/// Lists of custom resources always have a token, be it empty.
fn list_meta(meta: &ListMeta, custom: bool) -> Value {
    let mut fields = Map::new();
    fields.insert("resourceVersion".into(), json!(meta.version.to_string()));
    if custom || !meta.continue_token.is_empty() {
        fields.insert("continue".into(), json!(meta.continue_token));
    }
    if let Some(remaining) = meta.remaining {
        fields.insert("remainingItemCount".into(), json!(remaining));
    }
    Value::Object(fields)
}
