//! Compact storages: everything in the status, beside the results of handlers.
//!
//! Where the status is a subresource, annotations and the status need a request each. With compact storages, one
//! request is enough. Both modes also read the records of the other mode, so that users can switch without any handler
//! running again.

use kopf_object::FieldPath;
use serde_json::{Value, json};

use super::diff_base::DiffBaseStorage;
use super::progress::ProgressStorage;

const PROGRESS_FIELD: &str = "status.kopf.progress";
const TOUCH_FIELD: &str = "status.kopf.dummy";
const DIFF_BASE_FIELD: &str = "status.kopf.last-handled-configuration";

/// A status that the schema of the resource must preserve, or else the storages cannot be compact.
pub fn compact_sample() -> Value {
    let record = json!({
        "started": "", "stopped": "", "delayed": "", "purpose": "", "retries": 0,
        "success": false, "failure": false, "message": "", "subrefs": [""],
    });
    let essence = json!({"stopped": "", "essence": ""});
    let progress = json!({"handler/id": record, "handler/id#essence": essence});
    json!({"kopf": {"progress": progress, "dummy": "", "last-handled-configuration": ""}})
}

impl ProgressStorage {
    pub(crate) fn compacted(&self) -> Self {
        if self.is_front() {
            return self.clone();
        }
        let compact = Self::Status {
            field: FieldPath::parse(PROGRESS_FIELD),
            touch_field: FieldPath::parse(TOUCH_FIELD),
            write: true,
        };
        let mut storages = vec![compact.clone()];
        storages.extend(superseded_progress(self, &compact));
        Self::Multi { storages }
    }
}

/// The storages that are not used any more, except one with the same field as the new one.
fn superseded_progress(storage: &ProgressStorage, compact: &ProgressStorage) -> Vec<ProgressStorage> {
    let field_of = |storage: &ProgressStorage| match storage {
        ProgressStorage::Status { field, .. } => Some(field.clone()),
        _ => None,
    };
    match storage {
        ProgressStorage::Multi { storages } => {
            storages.iter().flat_map(|storage| superseded_progress(storage, compact)).collect()
        }
        same if field_of(same).is_some() && field_of(same) == field_of(compact) => Vec::new(),
        other => vec![ProgressStorage::Superseded { storage: Box::new(other.clone()) }],
    }
}

impl DiffBaseStorage {
    pub(crate) fn compacted(&self) -> Self {
        if self.is_front() || self.has_compact_field() {
            return self.clone();
        }
        let superseded = Self::Superseded { storage: Box::new(self.clone()) };
        Self::Multi { storages: vec![self.compact_storage(), superseded] }
    }

    pub(crate) fn expanded(&self) -> Self {
        if self.is_front() || self.has_compact_field() {
            return self.clone();
        }
        let superseded = Self::Superseded { storage: Box::new(self.compact_storage()) };
        Self::Multi { storages: vec![self.clone(), superseded] }
    }

    /// It builds the same essence as this storage.
    fn compact_storage(&self) -> Self {
        Self::Status { field: FieldPath::parse(DIFF_BASE_FIELD), ignored_fields: self.ignored_fields() }
    }

    fn ignored_fields(&self) -> Vec<FieldPath> {
        match self {
            Self::Annotations { ignored_fields, .. } | Self::Status { ignored_fields, .. } => ignored_fields.clone(),
            Self::Multi { storages } => storages.iter().flat_map(Self::ignored_fields).collect(),
            Self::Superseded { storage } => storage.ignored_fields(),
            Self::Front => Vec::new(),
        }
    }

    fn has_compact_field(&self) -> bool {
        match self {
            Self::Status { field, .. } => *field == FieldPath::parse(DIFF_BASE_FIELD),
            Self::Multi { storages } => storages.iter().any(Self::has_compact_field),
            Self::Superseded { storage } => storage.has_compact_field(),
            Self::Annotations { .. } | Self::Front => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use kopf_object::MergePatch;

    use super::*;
    use crate::ReactionSettings;

    const ANNOTATION: &str = "/metadata/annotations/kopf.zalando.org~1last-handled-configuration";
    const STATUS: &str = "/status/kopf/last-handled-configuration";

    fn stored_by(settings: &ReactionSettings, mut body: Value) -> Value {
        let mut patch = MergePatch::new();
        let essence = settings.diffbase.build(&body, &[]);
        settings.diffbase.store(&essence, &body, &mut patch);
        settings.progress.store("fn", &json!({"retries": 1}), &body, &mut patch);
        patch.apply_to(&mut body);
        body
    }

    #[test]
    fn records_move_when_the_mode_is_switched() {
        let default = ReactionSettings::default();
        let (compact, plain) = (default.compacted(), default.expanded());
        let mut body = json!({"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {"size": 1}});
        let essence = plain.diffbase.build(&body, &[]);
        for (writer, expected, absent) in [
            (&plain, ANNOTATION, STATUS),
            (&compact, STATUS, ANNOTATION),
            (&compact, STATUS, ANNOTATION),
            (&plain, ANNOTATION, STATUS),
        ] {
            body = stored_by(writer, body);
            assert!(body.pointer(expected).is_some(), "{expected} in {body}");
            assert!(body.pointer(absent).is_none(), "{absent} in {body}");
            for reader in [&plain, &compact] {
                assert_eq!(reader.diffbase.fetch(&body, &mut Vec::new()), Some(essence.clone()));
                assert_eq!(reader.diffbase.build(&body, &[]), essence);
                assert_eq!(reader.progress.fetch("fn", &body, &mut Vec::new()), Some(json!({"retries": 1})));
            }
        }
    }

    #[test]
    fn compact_records_need_no_annotations() {
        let body = json!({"metadata": {"name": "x"}, "spec": {}});
        let stored = stored_by(&ReactionSettings::default().compacted(), body);
        assert!(stored.pointer("/metadata/annotations").is_none(), "{stored}");
    }

    #[test]
    fn storages_of_users_stay_unchanged() {
        let own = ReactionSettings {
            progress: ProgressStorage::Front,
            diffbase: DiffBaseStorage::Front,
            ..ReactionSettings::default()
        };
        assert_eq!(own.compacted().progress, ProgressStorage::Front);
        assert_eq!(own.compacted().diffbase, DiffBaseStorage::Front);
        assert_eq!(own.expanded().diffbase, DiffBaseStorage::Front);
    }
}
