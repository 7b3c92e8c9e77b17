//! Server-side apply itself.

use serde_json::{Value, json};

use super::compare::compare;
use super::field_set::FieldSet;
use super::managers::{self, FieldManager, ManagedEntry, ManagedFields, Operation};
use super::merge::merge;
use super::path::{compare_values, path_text};
use super::shape::Shape;
use super::typed::{fields_of, misfits, with_named_parents, without};
use super::versions::{listed, see};
use super::{
    FieldWrite, Unconverted, WriteError, record_in, strip_managed_fields, stripped, take_from_others, zero_object,
};
use crate::schema::Schema;

const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Why a configuration cannot be applied.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum ApplyError {
    /// The request is wrong in itself; 400.
    #[error("{0}")]
    BadRequest(String),
    /// Others own some of the fields, with other values; 409.
    #[error("{}", message_of(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the schema; 500, as the server has it.
    #[error("{0}")]
    Untypable(String),
}

impl ApplyError {
    /// The HTTP status that the server answers with.
    #[cfg(test)]
    pub(crate) fn status_code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Conflicts(_) => 409,
            Self::Untypable(_) => 500,
        }
    }

    /// The causes for the details of the status.
    pub(crate) fn causes(&self) -> Value {
        let conflicts = match self {
            Self::Conflicts(conflicts) => conflicts.as_slice(),
            Self::BadRequest(_) | Self::Untypable(_) => &[],
        };
        conflicts
            .iter()
            .map(|conflict| {
                let message = format!("conflict with {}", conflict.owner);
                json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.field})
            })
            .collect()
    }
}

impl From<WriteError> for ApplyError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Owned(conflicts) => Self::Conflicts(conflicts.into_iter().flat_map(each_conflict).collect()),
            WriteError::Unseen(reason) => Self::Untypable(reason),
        }
    }
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Who owns it, as in messages.
    pub owner: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

fn message_of(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.owner, only.field);
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", conflict.owner));
            last = Some(&conflict.owner);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Applies a configuration to a live object, absent if it is to be created, and returns the object
/// with its new `managedFields`. The caller defaults and validates it, but does not prune it: what
/// the schema does not know was refused already, and a null is a flaw to complain about.
pub(crate) fn apply(
    write: &FieldWrite<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    match try_apply(write, live, config, force) {
        Err(ApplyError::Conflicts(conflicts)) if write.manager == "kubectl" => {
            let allowed = live.and_then(|live| unchanged_since_last_applied(write, live)).unwrap_or_default();
            let is_allowed = |conflict: &Conflict| allowed.contains(&conflict.field);
            let rest: Vec<Conflict> = conflicts.into_iter().filter(|conflict| !is_allowed(conflict)).collect();
            match rest.is_empty() {
                true => try_apply(write, live, config, true),
                false => Err(ApplyError::Conflicts(rest)),
            }
        }
        result => result,
    }
}

fn try_apply(write: &FieldWrite<'_>, live: Option<&Value>, config: &Value, force: bool) -> Result<Value, ApplyError> {
    let schema = check_request(write, config)?;
    let shape = Shape::new(&schema);
    let mut object = live.cloned().unwrap_or_else(|| Value::clone(&zero_object(&schema, config)));
    let mut owners = managers::read(object.pointer("/metadata/managedFields"))
        .map_err(|reason| ApplyError::Untypable(format!("failed to decode managed fields: {reason}")))?;
    strip_managed_fields(&mut object);
    if owners.is_empty() {
        record_in(write, None, &object, Operation::Update, "before-first-apply", &mut owners)?;
    }
    for owned in owners.values().filter(|owned| owned.api_version != write.api_version) {
        // The live object is looked at before anything else, in the version of every owner.
        if let Err(Unconverted::Failed(reason)) = see(write.versions, &object, &owned.api_version) {
            return Err(ApplyError::Untypable(reason));
        }
    }
    let applier = FieldManager {
        manager: if write.manager.is_empty() { "unknown".to_owned() } else { write.manager.to_owned() },
        operation: Operation::Apply,
        api_version: String::new(),
        subresource: write.subresource.to_owned(),
    };
    let merged = merge(&shape, &object, config);
    let last = owners.get(&applier).cloned();
    let fields = fields_of(&shape, config).outside_of(write.ignored);
    let time = last.as_ref().and_then(|last| last.time.clone());
    owners.insert(applier.clone(), ManagedEntry { fields, api_version: write.api_version.to_owned(), time });
    let mut applied = match last.filter(|last| !last.fields.is_empty()) {
        Some(last) => without_abandoned(write, merged, &owners, &last)?,
        None => merged,
    };
    let mut changes = compare(&shape, &object, &applied);
    changes.ignore(write.ignored);
    take_from_others(write, (&object, &applied), &changes, &mut owners, Some(&applier), force)?;
    if let Some(owned) = owners.get_mut(&applier) {
        owned.fields.remove(stripped());
        if compare_values(&object, &applied).is_ne() {
            owned.time = Some(write.now.to_owned());
        }
    }
    owners.retain(|_, owned| !owned.fields.is_empty());
    renew_last_applied(write, config, &mut applied);
    managers::write(&mut applied, owners);
    Ok(applied)
}

fn check_request(write: &FieldWrite<'_>, config: &Value) -> Result<Schema, ApplyError> {
    let version = config.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version != write.api_version {
        return Err(ApplyError::BadRequest(format!("invalid object type: {}", type_designation(config))));
    }
    if config.pointer("/metadata/managedFields").is_some_and(|entries| !entries.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let schema = write.versions.schema(write.api_version).unwrap_or_else(Schema::of_anything);
    let misfits = misfits(&Shape::new(&schema), config, false);
    if misfits.is_empty() {
        return Ok(schema);
    }
    let (object, reason) = (designation(config), listed(&misfits));
    Err(ApplyError::Untypable(format!("failed to create typed patch object ({object}): {reason}")))
}

/// An object in messages: `namespace/name; group/version, Kind=Kind`.
fn designation(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), type_designation(object))
}

/// A type in messages: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn type_designation(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let separator = if version.contains('/') { "" } else { "/" };
    format!("{separator}{version}, Kind={}", text("kind"))
}

fn each_conflict((owner, fields): (FieldManager, FieldSet)) -> Vec<Conflict> {
    let description = owner.description();
    fields.paths().iter().map(|path| Conflict { owner: description.clone(), field: path_text(path) }).collect()
}

/// Removes the fields that the applier applied last time, does not apply now, and that no other manager owns.
fn without_abandoned(
    write: &FieldWrite<'_>,
    merged: Value,
    owners: &ManagedFields,
    last: &ManagedEntry,
) -> Result<Value, ApplyError> {
    match try_without_abandoned(write, &merged, owners, last) {
        Ok(rest) => Ok(rest),
        Err(Unconverted::NoVersion) => Ok(merged),
        Err(Unconverted::Failed(reason)) => Err(ApplyError::Untypable(format!("failed to prune fields: {reason}"))),
    }
}

fn try_without_abandoned(
    write: &FieldWrite<'_>,
    merged: &Value,
    owners: &ManagedFields,
    last: &ManagedEntry,
) -> Result<Value, Unconverted> {
    let versions = write.versions;
    let (schema, merged) = see(versions, merged, &last.api_version)
        .map_err(|problem| problem.prefixed("failed to convert merged object to last applied version"))?;
    let shape = Shape::new(&schema);
    let last_fields = with_named_parents(&shape, &last.fields);
    let mut pruned = without(&shape, &merged, &last_fields);
    let mut owned_versions: Vec<&String> = owners.values().map(|owned| &owned.api_version).collect();
    owned_versions.sort_unstable_by_key(|version| (**version != last.api_version, (*version).clone()));
    owned_versions.dedup();
    let mut whole = merged.clone();
    for version in owned_versions {
        match add_back_owned(write, &whole, &pruned, version, owners) {
            Ok(both) => (whole, pruned) = both,
            Err(Unconverted::NoVersion) => {}
            Err(problem) => return Err(problem.prefixed("failed add back owned items")),
        }
    }
    // Only what the applier itself owned may go.
    let (_, pruned) = see(versions, &pruned, &last.api_version).map_err(|problem| {
        problem.prefixed("failed add back dangling items: failed to convert pruned object to last applied version")
    })?;
    let pruned_fields = with_named_parents(&shape, &fields_of(&shape, &pruned));
    let merged_fields = with_named_parents(&shape, &fields_of(&shape, &merged));
    let gone = merged_fields.difference(&pruned_fields).intersection(&last_fields);
    Ok(see(versions, &without(&shape, &merged, &gone), write.api_version)?.1)
}

/// Restores the removed fields that somebody owns in this version. Both the whole object and what
/// was left of it come back in that version.
fn add_back_owned(
    write: &FieldWrite<'_>,
    whole: &Value,
    pruned: &Value,
    version: &str,
    owners: &ManagedFields,
) -> Result<(Value, Value), Unconverted> {
    let failed = |which: &str| format!("failed to convert {which} object at version {version}");
    let (whole, pruned) = (see(write.versions, whole, version), see(write.versions, pruned, version));
    let (schema, whole) = whole.map_err(|problem| problem.prefixed(&failed("merged")))?;
    let (_, pruned) = pruned.map_err(|problem| problem.prefixed(&failed("pruned")))?;
    let shape = Shape::new(&schema);
    let of_version = owners.values().filter(|owned| owned.api_version == version);
    let owned = of_version.fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
    let kept = with_named_parents(&shape, &fields_of(&shape, &pruned)).union(&with_named_parents(&shape, &owned));
    let removed = with_named_parents(&shape, &fields_of(&shape, &whole)).difference(&kept);
    let rest = without(&shape, &whole, &removed);
    Ok((whole, rest))
}

/// The fields that are still as `kubectl apply` left them before it used server-side apply.
fn unchanged_since_last_applied(write: &FieldWrite<'_>, live: &Value) -> Option<Vec<String>> {
    let schema = write.versions.schema(write.api_version)?;
    let shape = Shape::new(&schema);
    let annotation = live.pointer(LAST_APPLIED)?.as_str()?;
    let last: Value = serde_json::from_str(annotation).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(write.api_version) {
        return None;
    }
    let changes = compare(&shape, &last, live);
    let unchanged =
        fields_of(&shape, &last).difference(&changes.modified).difference(&changes.added).difference(&changes.removed);
    Some(unchanged.paths().iter().map(|path| path_text(path)).collect())
}

/// Keeps the annotation of client-side `kubectl apply` up to date where it is in use.
fn renew_last_applied(write: &FieldWrite<'_>, config: &Value, applied: &mut Value) {
    if write.manager != "kubectl" {
        return;
    }
    let Some(annotation) =
        applied.pointer_mut(LAST_APPLIED).filter(|annotation| annotation.as_str().is_some_and(|text| !text.is_empty()))
    else {
        return;
    };
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    *annotation = Value::String(crate::go::go_json(&config) + "\n");
}
