//! Where the progress of handlers and the last handled essence are kept on the object.
//!
//! The standard storages are decided here and are byte-compatible with kopf 1.45. Storages written by
//! users live in the front: the same operations are then carried out there.

use std::sync::Arc;

use kopf_object::{
    EssenceOptions, FieldPath, MergePatch, build_essence, clear_progress_annotations, clear_progress_field,
    encode_essence_within, keys, python_json,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::annotation_budget::remaining_annotation_budget;
use crate::{HandlerState, Note};

const DEFAULT_PREFIX: &str = "kopf.zalando.org";

/// In the status, the essence of a finished handler is beside its record, under its id and this suffix. Inside of the
/// record, kopf 1.45 would take it for a difference that it writes again and again, since merging never removes it.
const ESSENCE_SUFFIX: &str = "#essence";

/// One thing to be written down; in order, into the patch of the cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum StorageOperation {
    /// The progress of a handler.
    Store { id: Arc<str>, record: Value },
    /// The progress of a handler is not needed any more.
    Purge { id: Arc<str> },
    /// Removes what was once written to wake the object up.
    Touch { value: Option<String> },
    /// The essence as it was handled.
    #[serde(rename = "diffbase")]
    DiffBase { essence: Value },
}

/// Where the progress of handlers is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ProgressStorage {
    /// One annotation per handler.
    Annotations {
        prefix: String,
        /// Nulls are written too.
        #[serde(default)]
        verbose: bool,
        touch_key: String,
        /// Also under the older, shorter keys.
        v1: bool,
    },
    /// A field of the status, by handler ids.
    Status {
        field: FieldPath,
        touch_field: FieldPath,
        /// Otherwise it is only read and purged.
        #[serde(default = "yes")]
        write: bool,
    },
    /// Several at once: the first one that has something is read.
    Multi { storages: Vec<ProgressStorage> },
    /// Where it was kept before: still read, but removed as soon as it is stored elsewhere.
    #[serde(skip)]
    Superseded { storage: Box<ProgressStorage> },
    /// Written by the user.
    Front,
}

/// Where the last handled essence is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DiffBaseStorage {
    Annotations {
        prefix: String,
        key: String,
        #[serde(default)]
        ignored_fields: Vec<FieldPath>,
        v1: bool,
    },
    Status {
        field: FieldPath,
        #[serde(default)]
        ignored_fields: Vec<FieldPath>,
    },
    Multi {
        storages: Vec<DiffBaseStorage>,
    },
    /// Where it was kept before: still read, but removed as soon as it is stored elsewhere.
    #[serde(skip)]
    Superseded {
        storage: Box<DiffBaseStorage>,
    },
    /// Written by the user.
    Front,
}

fn yes() -> bool {
    true
}

impl Default for ProgressStorage {
    /// In annotations; what older versions left in the status is read and purged.
    fn default() -> Self {
        Self::Multi {
            storages: vec![
                Self::Annotations {
                    prefix: DEFAULT_PREFIX.to_owned(),
                    verbose: false,
                    touch_key: "touch-dummy".to_owned(),
                    v1: true,
                },
                Self::Status {
                    field: FieldPath::parse("status.kopf.progress"),
                    touch_field: FieldPath::parse("status.kopf.dummy"),
                    write: false,
                },
            ],
        }
    }
}

impl Default for DiffBaseStorage {
    fn default() -> Self {
        Self::Annotations {
            prefix: DEFAULT_PREFIX.to_owned(),
            key: "last-handled-configuration".to_owned(),
            ignored_fields: Vec::new(),
            v1: true,
        }
    }
}

/// What is stored, but cannot be read; it counts as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The annotation or field.
    pub place: String,
    pub problem: String,
}

impl Corruption {
    pub(crate) fn into_note(self) -> Note {
        let Self { place, problem } = self;
        Note::warning(format!("The stored state in {place} is ignored, as it cannot be read: {problem}")).local()
    }
}

impl ProgressStorage {
    /// Whether the front has to be asked (a storage of the user, also as a part of another one).
    pub fn is_front(&self) -> bool {
        match self {
            Self::Front => true,
            Self::Multi { storages } => storages.iter().any(Self::is_front),
            Self::Superseded { storage } => storage.is_front(),
            Self::Annotations { .. } | Self::Status { .. } => false,
        }
    }

    pub(crate) fn fetch(&self, id: &str, body: &Value, corruptions: &mut Vec<Corruption>) -> Option<Value> {
        let record = match self {
            Self::Annotations { prefix, v1, .. } => fetch_json(prefix, id, *v1, body, corruptions),
            Self::Status { field, .. } => fetch_from_status(field, id, body),
            Self::Multi { storages } => {
                return storages.iter().find_map(|storage| storage.fetch(id, body, corruptions));
            }
            Self::Superseded { storage } => return storage.fetch(id, body, corruptions),
            Self::Front => None,
        };
        let record = record.filter(|record| !record.is_null())?;
        match HandlerState::find_problem(&record) {
            None => Some(record),
            Some(problem) => {
                corruptions.push(Corruption { place: self.place_of(id, body), problem });
                None
            }
        }
    }

    /// Where the progress of a handler is kept, for people.
    fn place_of(&self, id: &str, body: &Value) -> String {
        match self {
            Self::Annotations { prefix, .. } => keys::v2_key(prefix, &keys::mark_key(id, body)),
            Self::Status { field, .. } => field.child(id).to_string(),
            Self::Multi { .. } | Self::Superseded { .. } | Self::Front => id.to_owned(),
        }
    }

    pub(crate) fn store(&self, id: &str, record: &Value, body: &Value, patch: &mut MergePatch) {
        match self {
            Self::Annotations { prefix, verbose, v1, .. } => {
                let mut kept = record.as_object().cloned().unwrap_or_default();
                kept.retain(|_, value| *verbose || !value.is_null());
                let encoded = python_json::dumps(&Value::Object(kept));
                for key in keys::keys(prefix, id, *v1, Some(body)) {
                    patch.set_annotation(&key, Some(&encoded));
                }
                mark(prefix, body, patch);
            }
            Self::Status { field, write: true, .. } => store_in_status(field, id, record, body, patch),
            Self::Status { write: false, .. } | Self::Front => {}
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.store(id, record, body, patch)),
            Self::Superseded { storage } => storage.purge(id, body, patch),
        }
    }

    pub(crate) fn purge(&self, id: &str, body: &Value, patch: &mut MergePatch) {
        match self {
            Self::Annotations { prefix, v1, .. } => {
                for key in keys::keys(prefix, id, *v1, Some(body)) {
                    purge_field(&annotation_field(&key), body, patch);
                }
            }
            Self::Status { field, .. } => {
                purge_field(&field.child(id), body, patch);
                purge_field(&essence_field(field, id), body, patch);
            }
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.purge(id, body, patch)),
            Self::Superseded { storage } => storage.purge(id, body, patch),
            Self::Front => {}
        }
    }

    pub(crate) fn touch(&self, value: Option<&str>, body: &Value, patch: &mut MergePatch) {
        let differs = |field: &FieldPath| field.resolve(body).and_then(Value::as_str) != value;
        let wanted = || value.map_or(Value::Null, Value::from);
        match self {
            Self::Annotations { prefix, touch_key, v1, .. } => {
                for key in keys::keys(prefix, touch_key, *v1, Some(body)) {
                    let field = annotation_field(&key);
                    if differs(&field) {
                        patch.set(&field, wanted());
                        mark(prefix, body, patch);
                    }
                }
            }
            Self::Status { touch_field, write: true, .. } => {
                if differs(touch_field) {
                    patch.set(touch_field, wanted());
                }
            }
            Self::Status { write: false, .. } | Self::Front => {}
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.touch(value, body, patch)),
            Self::Superseded { storage } => storage.touch(None, body, patch),
        }
    }

    /// Removes what the storage itself keeps in the essence.
    pub(crate) fn clear(&self, essence: &mut Value) {
        match self {
            Self::Annotations { prefix, .. } => clear_progress_annotations(essence, prefix),
            Self::Status { field, .. } => clear_progress_field(essence, field),
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.clear(essence)),
            Self::Superseded { storage } => storage.clear(essence),
            Self::Front => {}
        }
    }
}

impl DiffBaseStorage {
    /// Whether the front has to be asked (a storage of the user, also as a part of another one).
    pub fn is_front(&self) -> bool {
        match self {
            Self::Front => true,
            Self::Multi { storages } => storages.iter().any(Self::is_front),
            Self::Superseded { storage } => storage.is_front(),
            Self::Annotations { .. } | Self::Status { .. } => false,
        }
    }

    /// The essence of now, without what the storage itself keeps on the object.
    pub(crate) fn build(&self, body: &Value, extra_fields: &[FieldPath]) -> Value {
        let mut options = EssenceOptions { extra_fields: extra_fields.to_vec(), ..EssenceOptions::default() };
        self.exclude(body, &mut options);
        build_essence(body, &options)
    }

    fn exclude(&self, body: &Value, options: &mut EssenceOptions) {
        match self {
            Self::Annotations { prefix, key, ignored_fields, v1 } => {
                options.removed_annotations.extend(keys::keys(prefix, key, *v1, Some(body)));
                options.ignored_fields.extend(ignored_fields.iter().cloned());
            }
            Self::Status { field, ignored_fields } => {
                options.removed_fields.push(field.clone());
                options.ignored_fields.extend(ignored_fields.iter().cloned());
            }
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.exclude(body, options)),
            Self::Superseded { storage } => storage.exclude(body, options),
            Self::Front => {}
        }
    }

    pub(crate) fn fetch(&self, body: &Value, corruptions: &mut Vec<Corruption>) -> Option<Value> {
        match self {
            Self::Annotations { prefix, key, v1, .. } => {
                fetch_json(prefix, key, *v1, body, corruptions).filter(|essence| !essence.is_null())
            }
            Self::Status { field, .. } => {
                let encoded = field.resolve(body)?.as_str()?;
                decode(encoded, || field.to_string(), corruptions).filter(|essence| !essence.is_null())
            }
            Self::Multi { storages } => storages.iter().find_map(|storage| storage.fetch(body, corruptions)),
            Self::Superseded { storage } => storage.fetch(body, corruptions),
            Self::Front => None,
        }
    }

    pub(crate) fn store(&self, essence: &Value, body: &Value, patch: &mut MergePatch) {
        match self {
            Self::Annotations { prefix, key, v1, .. } => {
                let keys = keys::keys(prefix, key, *v1, Some(body));
                let encoded = encode_essence_within(essence, remaining_annotation_budget(&keys, body, patch));
                for key in &keys {
                    patch.set_annotation(key, Some(&encoded));
                }
                mark(prefix, body, patch);
            }
            Self::Status { field, .. } => patch.set(field, python_json::dumps(essence).into()),
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.store(essence, body, patch)),
            Self::Superseded { storage } => storage.remove(body, patch),
            Self::Front => {}
        }
    }

    fn remove(&self, body: &Value, patch: &mut MergePatch) {
        match self {
            Self::Annotations { prefix, key, v1, .. } => {
                for key in keys::keys(prefix, key, *v1, Some(body)) {
                    purge_field(&annotation_field(&key), body, patch);
                }
            }
            Self::Status { field, .. } => purge_field(field, body, patch),
            Self::Multi { storages } => storages.iter().for_each(|storage| storage.remove(body, patch)),
            Self::Superseded { storage } => storage.remove(body, patch),
            Self::Front => {}
        }
    }
}

fn essence_field(field: &FieldPath, id: &str) -> FieldPath {
    field.child(format!("{id}{ESSENCE_SUFFIX}"))
}

/// The record with the essence from beside it, unless that belongs to an earlier record: kopf 1.45 leaves it behind.
fn fetch_from_status(field: &FieldPath, id: &str, body: &Value) -> Option<Value> {
    let mut record = field.resolve(body)?.get(id)?.clone();
    let beside = essence_field(field, id).resolve(body);
    if let (Value::Object(fields), Some(beside)) = (&mut record, beside)
        && let (Some(stopped), Some(essence)) = (beside.get("stopped"), beside.get("essence"))
        && fields.get("stopped") == Some(stopped)
    {
        fields.insert("essence".to_owned(), essence.clone());
    }
    Some(record)
}

fn store_in_status(field: &FieldPath, id: &str, record: &Value, body: &Value, patch: &mut MergePatch) {
    let mut record = record.clone();
    let essence = record.as_object_mut().and_then(|fields| fields.shift_remove("essence"));
    match essence.filter(Value::is_string) {
        Some(essence) => {
            patch.set(&essence_field(field, id), json!({"stopped": record["stopped"], "essence": essence}));
        }
        None => purge_field(&essence_field(field, id), body, patch),
    }
    patch.set(&field.child(id), record);
}

/// Removes a field where it is there; what was going to be written to it, is not.
fn purge_field(field: &FieldPath, body: &Value, patch: &mut MergePatch) {
    if field.resolve(body).is_some() {
        patch.set(field, Value::Null);
    } else {
        patch.unset(field);
    }
}

/// The first of the annotations that is there and can be read.
fn fetch_json(prefix: &str, key: &str, v1: bool, body: &Value, corruptions: &mut Vec<Corruption>) -> Option<Value> {
    let annotations = annotations_of(body)?;
    keys::keys(prefix, key, v1, Some(body)).into_iter().find_map(|key| {
        let encoded = annotations.get(&key)?.as_str()?;
        decode(encoded, || key, corruptions)
    })
}

fn decode(encoded: &str, place: impl FnOnce() -> String, corruptions: &mut Vec<Corruption>) -> Option<Value> {
    match serde_json::from_str(encoded) {
        Ok(value @ (Value::Object(_) | Value::Null)) => Some(value),
        Ok(_) => {
            corruptions.push(Corruption { place: place(), problem: "not a JSON object".to_owned() });
            None
        }
        Err(error) => {
            corruptions.push(Corruption { place: place(), problem: error.to_string() });
            None
        }
    }
}

pub(crate) fn annotations_of(body: &Value) -> Option<&Map<String, Value>> {
    body.get("metadata")?.get("annotations")?.as_object()
}

fn annotation_field(key: &str) -> FieldPath {
    FieldPath::from(["metadata", "annotations", key])
}

/// Tells other operators that the annotations under the prefix are not of interest to them.
fn mark(prefix: &str, body: &Value, patch: &mut MergePatch) {
    if let Some(marker) = keys::marker_key(prefix)
        && annotations_of(body).is_none_or(|annotations| !annotations.contains_key(&marker))
        && patch.annotation(&marker).is_none()
    {
        patch.set_annotation(&marker, Some("yes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(prefix: &str) -> ProgressStorage {
        ProgressStorage::Annotations {
            prefix: prefix.into(),
            verbose: false,
            touch_key: "touch-dummy".into(),
            v1: true,
        }
    }

    fn check(
        storage: &ProgressStorage,
        body: Value,
        act: impl Fn(&ProgressStorage, &Value, &mut MergePatch),
        expected: Value,
    ) {
        let mut patch = MergePatch::new();
        act(storage, &body, &mut patch);
        assert_eq!(patch.as_value(), &expected, "on {body}");
    }

    #[test]
    fn progress_in_annotations() {
        let store = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| {
            storage.store("a/b", &json!({"retries": 1, "message": null}), body, patch);
        };
        check(
            &annotations("kopf.zalando.org"),
            json!({}),
            store,
            json!({"metadata": {"annotations": {"kopf.zalando.org/a.b": "{\"retries\":1}"}}}),
        );
        check(
            &annotations("example.com"),
            json!({}),
            store,
            json!({"metadata": {"annotations": {"example.com/a.b": "{\"retries\":1}", "example.com/kopf-managed": "yes"}}}),
        );
        let purge = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.purge("a", body, patch);
        let stored = json!({"metadata": {"annotations": {"kopf.zalando.org/a": "{}"}}});
        check(
            &annotations("kopf.zalando.org"),
            stored.clone(),
            purge,
            json!({"metadata": {"annotations": {"kopf.zalando.org/a": null}}}),
        );
        check(
            &annotations("kopf.zalando.org"),
            json!({}),
            |storage, body, patch| {
                storage.store("a", &json!({}), body, patch);
                storage.purge("a", body, patch);
            },
            json!({}),
        );
        let touch = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.touch(None, body, patch);
        check(&annotations("kopf.zalando.org"), json!({}), touch, json!({}));
        let touched = json!({"metadata": {"annotations": {"kopf.zalando.org/touch-dummy": "2026"}}});
        check(
            &annotations("kopf.zalando.org"),
            touched,
            touch,
            json!({"metadata": {"annotations": {"kopf.zalando.org/touch-dummy": null}}}),
        );
    }

    #[test]
    fn the_default_reads_the_status_but_does_not_write_it() {
        let storage = ProgressStorage::default();
        let body = json!({"status": {"kopf": {"progress": {"a": {"retries": 3}}}}});
        assert_eq!(storage.fetch("a", &body, &mut Vec::new()), Some(json!({"retries": 3})));
        check(
            &storage,
            body.clone(),
            |storage, body, patch| storage.purge("a", body, patch),
            json!({"status": {"kopf": {"progress": {"a": null}}}}),
        );
        let mut patch = MergePatch::new();
        storage.store("b", &json!({"retries": 1}), &body, &mut patch);
        assert!(patch.as_value().get("status").is_none());
    }

    /// Kopf 1.45 writes its fields of the record only, and compares all that it finds in the record with them.
    #[test]
    fn in_the_status_the_essence_is_beside_the_record() {
        let storage = ProgressStorage::Status {
            field: FieldPath::parse("status.p"),
            touch_field: FieldPath::parse("status.t"),
            write: true,
        };
        let finished = json!({"stopped": "2026-11-15T12:00:00+00:00", "success": true, "essence": "{}"});
        let mut patch = MergePatch::new();
        storage.store("a", &finished, &json!({}), &mut patch);
        let stored = patch.as_value().clone();
        let record = json!({"stopped": "2026-11-15T12:00:00+00:00", "success": true});
        let beside = json!({"stopped": "2026-11-15T12:00:00+00:00", "essence": "{}"});
        assert_eq!(stored, json!({"status": {"p": {"a#essence": beside, "a": record}}}));
        assert_eq!(storage.fetch("a", &stored, &mut Vec::new()), Some(finished));
        let purge = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.purge("a", body, patch);
        check(&storage, stored.clone(), purge, json!({"status": {"p": {"a": null, "a#essence": null}}}));

        // Kopf 1.45 has finished that batch, and begun and finished another one.
        let mut later = stored;
        later["status"]["p"]["a"] = json!({"stopped": "2026-11-16T12:00:00+00:00", "success": true});
        assert_eq!(storage.fetch("a", &later, &mut Vec::new()), Some(later["status"]["p"]["a"].clone()));
        let store = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| {
            storage.store("a", &json!({"retries": 1}), body, patch);
        };
        check(&storage, later, store, json!({"status": {"p": {"a#essence": null, "a": {"retries": 1}}}}));
    }

    #[test]
    fn corrupt_records_are_reported_and_count_as_absent() {
        for encoded in ["{not json", "5", "[]", "\"x\"", ""] {
            let body = json!({"metadata": {"annotations": {"kopf.zalando.org/a": encoded}}});
            let mut corruptions = Vec::new();
            assert_eq!(ProgressStorage::default().fetch("a", &body, &mut corruptions), None);
            assert_eq!(corruptions.len(), 1, "{encoded}");
            assert_eq!(corruptions[0].place, "kopf.zalando.org/a");
        }
    }

    #[test]
    fn diff_bases() {
        let body = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"a": 1}, "status": {"b": 2}});
        let in_status =
            DiffBaseStorage::Status { field: FieldPath::parse("status.kopf.last"), ignored_fields: Vec::new() };
        let both = DiffBaseStorage::Multi { storages: vec![DiffBaseStorage::default(), in_status] };
        let mut stored = body.clone();
        let mut patch = MergePatch::new();
        let essence = both.build(&body, &[]);
        assert_eq!(essence, json!({"spec": {"a": 1}, "metadata": {"annotations": {"x": "y"}}}));
        both.store(&essence, &body, &mut patch);
        patch.apply_to(&mut stored);
        assert_eq!(both.fetch(&stored, &mut Vec::new()), Some(essence.clone()));
        assert_eq!(both.build(&stored, &[]), essence);
        assert_eq!(
            stored.pointer("/metadata/annotations/kopf.zalando.org~1last-handled-configuration"),
            Some(&json!("{\"spec\":{\"a\":1},\"metadata\":{\"annotations\":{\"x\":\"y\"}}}\n"))
        );
    }
}
