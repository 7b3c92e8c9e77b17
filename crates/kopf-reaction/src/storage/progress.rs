//! Where the object keeps the progress of handlers.

use kopf_object::{FieldPath, MergePatch, clear_progress_annotations, clear_progress_field, keys, python_json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Corruption, DEFAULT_PREFIX, annotation_field, fetch_json, mark, purge_field};
use super::handler_state::HandlerState;

/// In the status, the essence of a finished handler is beside its record, under its id and this suffix. If it were inside
/// of the record, kopf 1.45 would rewrite the record again and again, since merging never removes the extra field.
const ESSENCE_SUFFIX: &str = "#essence";

/// Where the object keeps the progress of handlers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ProgressStorage {
    /// One annotation per handler.
    Annotations {
        /// The prefix of the annotations.
        prefix: String,
        /// Whether records have nulls for unset fields.
        #[serde(default)]
        verbose: bool,
        /// The annotation that kopf 1.45 uses to wake objects up.
        touch_key: String,
        /// Whether it also uses the shorter keys of older versions.
        v1: bool,
    },
    /// A field of the status, by handler ids.
    Status {
        /// The field with the records.
        field: FieldPath,
        /// The field that kopf 1.45 uses to wake objects up.
        touch_field: FieldPath,
        /// Whether it writes records; otherwise, it only reads and purges them.
        #[serde(default = "yes")]
        write: bool,
    },
    /// Several storages: all are written; the first one with a record is read.
    Multi {
        /// In the order of reading.
        storages: Vec<ProgressStorage>,
    },
    /// A former storage: read, but purged as soon as the progress is stored elsewhere.
    #[serde(skip)]
    Superseded {
        /// The former storage.
        storage: Box<ProgressStorage>,
    },
    /// A storage that the user has written.
    Front,
}

impl Default for ProgressStorage {
    /// In annotations; records of older versions in the status are read and purged.
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

impl ProgressStorage {
    /// Whether it is, or contains, a storage that the user has written.
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
                corruptions.push(Corruption { location: self.location_of(id, body), problem });
                None
            }
        }
    }

    /// The annotation or field of a handler, for the log.
    fn location_of(&self, id: &str, body: &Value) -> String {
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

    /// Removes the storage's own records from the essence.
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

fn essence_field(field: &FieldPath, id: &str) -> FieldPath {
    field.child(format!("{id}{ESSENCE_SUFFIX}"))
}

/// The record with its essence from beside it, unless that belongs to an earlier record, which kopf 1.45 leaves behind.
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

fn yes() -> bool {
    true
}
