//! Who owns which fields of an object: the entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::field_set::FieldSet;

/// Beyond this many updaters, the oldest ones are merged.
const MAX_UPDATERS: usize = 10;

/// Who a set of fields belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldManager {
    /// The name that the client gave itself.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version that it writes; empty for appliers, which the server does not distinguish by version.
    pub api_version: String,
    /// The part of the object that it writes; empty for the object itself.
    pub subresource: String,
}

/// How an owner writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// The name in entries.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl FieldManager {
    /// The owner as in messages about conflicts.
    pub(super) fn description(&self) -> String {
        let mut text = crate::go::go_quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", crate::go::go_quote(&self.subresource)));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ManagedEntry {
    /// The fields.
    pub fields: FieldSet,
    /// The version of the schema that the fields are of.
    pub api_version: String,
    /// When it was written last.
    pub time: Option<String>,
}

/// The entries of an object.
pub(super) type ManagedFields = BTreeMap<FieldManager, ManagedEntry>;

/// Parses the entries of an object; the error is the reason.
pub(super) fn read(managed_fields: Option<&Value>) -> Result<ManagedFields, String> {
    let mut owners = ManagedFields::new();
    let entries = managed_fields.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (position, entry) in entries.iter().enumerate() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {position}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {} in managed fields entry {position}",
                    crate::go::go_quote(other)
                ));
            }
        }
        let owner = FieldManager {
            manager: text("manager"),
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
            subresource: text("subresource"),
        };
        let fields = entry.get("fieldsV1").map(FieldSet::parse).unwrap_or_default();
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        owners.insert(owner, ManagedEntry { fields, api_version, time });
    }
    Ok(owners)
}

/// Writes the entries of an object, in the server's order; without entries, it removes the field.
pub(super) fn write(object: &mut Value, owners: ManagedFields) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.shift_remove("managedFields");
    if owners.is_empty() {
        return;
    }
    let mut sorted: Vec<(FieldManager, ManagedEntry)> = owners.into_iter().collect();
    sorted.sort_by(|(left, left_owned), (right, right_owned)| {
        (left.operation, &left_owned.time, &left.manager, &left_owned.api_version, &left.subresource).cmp(&(
            right.operation,
            &right_owned.time,
            &right.manager,
            &right_owned.api_version,
            &right.subresource,
        ))
    });
    let entries = sorted.into_iter().map(|(owner, owned)| {
        let mut entry = Map::with_capacity(7);
        if !owner.manager.is_empty() {
            entry.insert("manager".to_owned(), Value::String(owner.manager));
        }
        entry.insert("operation".to_owned(), Value::String(owner.operation.name().to_owned()));
        entry.insert("apiVersion".to_owned(), Value::String(owned.api_version));
        if let Some(time) = owned.time {
            entry.insert("time".to_owned(), Value::String(time));
        }
        entry.insert("fieldsType".to_owned(), Value::String("FieldsV1".to_owned()));
        entry.insert("fieldsV1".to_owned(), owned.fields.to_fields());
        if !owner.subresource.is_empty() {
            entry.insert("subresource".to_owned(), Value::String(owner.subresource));
        }
        Value::Object(entry)
    });
    metadata.insert("managedFields".to_owned(), entries.collect());
}

/// Joins the oldest writers into one, if there are too many.
pub(super) fn limit(owners: &mut ManagedFields) {
    if owners.len() <= MAX_UPDATERS {
        return;
    }
    let mut updaters: Vec<FieldManager> =
        owners.keys().filter(|owner| owner.operation == Operation::Update).cloned().collect();
    let mut count = updaters.len();
    updaters.sort_by(|left, right| {
        let time = |owner: &FieldManager| owners.get(owner).and_then(|owned| owned.time.clone());
        time(left).cmp(&time(right)).then_with(|| left.cmp(right))
    });
    let mut firsts: BTreeMap<String, FieldManager> = BTreeMap::new();
    for updater in updaters {
        if count <= MAX_UPDATERS {
            return;
        }
        let version = updater.api_version.clone();
        let Some(first) = firsts.get(&version) else {
            firsts.insert(version, updater);
            continue;
        };
        let joined = FieldManager {
            manager: "ancient-changes".to_owned(),
            operation: Operation::Update,
            api_version: version,
            subresource: String::new(),
        };
        if !owners.contains_key(&joined)
            && let Some(owned) = owners.remove(first)
        {
            owners.insert(joined.clone(), owned);
        }
        if let Some(owned) = owners.remove(&updater) {
            let bucket = owners.entry(joined).or_default();
            bucket.fields = bucket.fields.union(&owned.fields);
            bucket.api_version = owned.api_version;
            bucket.time = owned.time;
        }
        count -= 1;
    }
}
