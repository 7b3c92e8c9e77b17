//! Where the last handled essence is kept.

use kopf_object::{EssenceOptions, FieldPath, MergePatch, build_essence, encode_essence_within, keys, python_json};
use serde::Deserialize;
use serde_json::Value;

use super::annotation_budget::remaining_annotation_budget;
use super::fields::{Corruption, DEFAULT_PREFIX, annotation_field, decode, fetch_json, mark, purge_field};

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
