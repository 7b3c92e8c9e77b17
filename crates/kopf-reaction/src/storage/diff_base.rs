//! Where the object keeps the last handled essence.

use kopf_object::{EssenceOptions, FieldPath, MergePatch, build_essence, encode_essence_within, keys, python_json};
use serde::Deserialize;
use serde_json::Value;

use super::annotation_budget::remaining_annotation_budget;
use super::fields::{Corruption, DEFAULT_PREFIX, annotation_field, decode, fetch_json, mark, purge_field};

/// Where the object keeps the last handled essence.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum DiffBaseStorage {
    /// One annotation.
    Annotations {
        /// The prefix of the annotation.
        prefix: String,
        /// The name of the annotation, after the prefix.
        key: String,
        /// Fields that do not belong to the essence.
        #[serde(default)]
        ignored_fields: Vec<FieldPath>,
        /// Whether it also uses the shorter key of older versions.
        v1: bool,
    },
    /// A field of the status.
    Status {
        /// The field with the encoded essence.
        field: FieldPath,
        /// Fields that do not belong to the essence.
        #[serde(default)]
        ignored_fields: Vec<FieldPath>,
    },
    /// Several storages: all are written; the first one with an essence is read.
    Multi {
        /// In the order of reading.
        storages: Vec<DiffBaseStorage>,
    },
    /// A former storage: read, but removed as soon as the essence is stored elsewhere.
    #[serde(skip)]
    Superseded {
        /// The former storage.
        storage: Box<DiffBaseStorage>,
    },
    /// A storage that the user has written.
    Front,
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

impl DiffBaseStorage {
    /// Whether it is, or contains, a storage that the user has written.
    pub fn is_front(&self) -> bool {
        match self {
            Self::Front => true,
            Self::Multi { storages } => storages.iter().any(Self::is_front),
            Self::Superseded { storage } => storage.is_front(),
            Self::Annotations { .. } | Self::Status { .. } => false,
        }
    }

    /// The current essence, without the storage's own records.
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
