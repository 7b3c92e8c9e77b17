//! Server-side apply, and the bookkeeping of all other writes in `metadata.managedFields`.
//!
//! Every write leaves a trace of who set which fields. Server-side apply merges a configuration
//! into the live object by these traces: it refuses to take fields that others have set to other
//! values, unless forced, and removes the fields that the same manager applied before and does
//! not apply any more.
//!
//! The API front calls [`apply`] for patches of that type, and [`record_write`] for all others.

mod path;
mod field_set;
mod shape;
mod typed;
mod compare;
mod merge;
mod managers;
mod apply;
mod versions;
mod zero;

use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(crate) use apply::{ApplyError, apply};
pub(crate) use field_set::FieldSet;
#[cfg(test)]
pub(crate) use versions::OneVersion;
pub(crate) use versions::{Unconverted, Versions};
pub(crate) use zero::zero_object;

use compare::{Comparison, compare};
use managers::{FieldManager, ManagedFields, Operation};
use shape::Shape;
use versions::changes_in;

/// A write as the bookkeeping sees it.
pub(crate) struct FieldWrite<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Who writes: the `fieldManager` of the request, or see [`manager_name`].
    pub manager: &'a str,
    /// The part of the object that is written; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this sort of write never changes, such as the status for writes to the object.
    pub ignored: &'a FieldSet,
    /// The time of the request, such as `2026-01-31T23:59:59Z`.
    pub now: &'a str,
}

/// The name that a request is recorded under, if it gave none: the program of its user agent.
pub(crate) fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let program = user_agent.split('/').next().unwrap_or_default();
    program.chars().filter(|character| !character.is_control()).take(128).collect()
}

/// Records a create, an update or a patch: `new` gets the `managedFields` that it is stored with.
/// `old` is the object before the write, absent for a create.
pub(crate) fn record_write(write: &FieldWrite<'_>, old: Option<&Value>, new: &mut Value) {
    let mut owners = owners_before(write, old, new);
    strip_managed_fields(new);
    // Objects whose managed fields were reset stay without them.
    if owners.is_empty() && old.is_some() {
        return;
    }
    // A real server drops the entries if it cannot convert the object to all versions.
    if record_in(write, old, new, Operation::Update, write.manager, &mut owners).is_err() {
        return;
    }
    managers::limit(&mut owners);
    managers::write(new, owners);
}

/// Keeps the old bookkeeping if a write changed nothing but the times in it.
pub(crate) fn keep_times_of_no_change(old: &Value, new: &mut Value) {
    if !is_same_but_for_times(old, new) {
        return;
    }
    if let (Some(old), Some(new)) = (managed_fields(old), new.pointer_mut("/metadata/managedFields")) {
        *new = old.clone();
    }
}

fn is_same_but_for_times(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    is_same_but(old, new, "metadata", |old, new| {
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
        is_same_but(old, new, "managedFields", |old, new| {
            let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return old == new };
            old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| match (old.as_object(), new.as_object()) {
                    (Some(old), Some(new)) => is_same_but(old, new, "time", |_, _| true),
                    _ => old == new,
                })
        })
    })
}

/// Whether two objects are equal, with a special comparison for one field.
fn is_same_but(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    name: &str,
    compare: impl FnOnce(&Value, &Value) -> bool,
) -> bool {
    let is_rest_same =
        old.iter().filter(|(field, _)| *field != name).all(|(field, value)| new.get(field) == Some(value));
    let is_field_same = match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) => compare(old, new),
        (old, new) => old == new,
    };
    old.len() == new.len() && is_rest_same && is_field_same
}

/// The entries that a write starts from: those that it brings, or those of the stored object.
fn owners_before(write: &FieldWrite<'_>, old: Option<&Value>, new: &Value) -> ManagedFields {
    let stored = || managers::read(old.and_then(managed_fields)).unwrap_or_default();
    if !write.subresource.is_empty() {
        return stored();
    }
    let brought = managed_fields(new).filter(|brought| !brought.is_null());
    // An empty list of a custom resource is dropped on decoding, before anybody sees it.
    let is_custom = || {
        let schema = write.versions.schema(write.api_version);
        schema.is_none_or(|schema| schema.node(schema.root_id()).definition.is_none())
    };
    let is_reset = match brought.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => !is_custom(),
        Some([only]) => only.as_object().is_some_and(|entry| entry.is_empty()),
        _ => false,
    };
    if is_reset {
        return ManagedFields::new();
    }
    match managers::read(brought) {
        Ok(owners) if !owners.is_empty() => owners,
        _ => stored(),
    }
}

/// Notes the differences of two states under a name, and takes them from all others.
fn record_in(
    write: &FieldWrite<'_>,
    old: Option<&Value>,
    new: &Value,
    operation: Operation,
    manager: &str,
    owners: &mut ManagedFields,
) -> Result<(), WriteError> {
    let Some(schema) = write.versions.schema(write.api_version) else { return Ok(()) };
    let shape = Shape::new(&schema);
    let empty;
    let old = match old {
        Some(old) => old,
        None => {
            empty = zero_object(&schema, new);
            &empty
        }
    };
    let mut changes = compare(&shape, old, new);
    changes.ignore(write.ignored);
    if !owners.is_empty() {
        take_from_others(write, (old, new), &changes, owners, None, true)?;
    }
    let mut set = changes.modified;
    set.add(changes.added);
    set.remove(stripped());
    if set.is_empty() {
        return Ok(());
    }
    let owner = FieldManager {
        manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
        operation,
        api_version: write.api_version.to_owned(),
        subresource: write.subresource.to_owned(),
    };
    let owned = owners.entry(owner).or_default();
    owned.fields.add(set);
    owned.api_version = write.api_version.to_owned();
    owned.time = Some(write.now.to_owned());
    Ok(())
}

/// Why a write fails.
enum WriteError {
    /// Fields that others own.
    Owned(Vec<(FieldManager, FieldSet)>),
    /// The object cannot be converted to the version of an entry.
    Unseen(String),
}

/// Takes the changed fields from all owners but one. Without force, fields that others own are
/// conflicts, and nothing is taken. The changes are those that are not ignored.
fn take_from_others(
    write: &FieldWrite<'_>,
    (old, new): (&Value, &Value),
    changes: &Comparison,
    owners: &mut ManagedFields,
    writer: Option<&FieldManager>,
    force: bool,
) -> Result<(), WriteError> {
    let touched = changes.modified.union(&changes.added);
    // The changes in other versions: those that set something, and those that remove something.
    let mut by_version: Vec<(String, Option<(FieldSet, FieldSet)>)> = Vec::new();
    let mut conflicts = Vec::new();
    let mut lost = Vec::new();
    for (owner, owned) in owners.iter().filter(|(owner, _)| Some(*owner) != writer) {
        let (touched, removed) = if owned.api_version == write.api_version {
            (&touched, &changes.removed)
        } else {
            let known = by_version.iter().position(|(version, _)| *version == owned.api_version);
            let position = match known {
                Some(position) => position,
                None => {
                    let changes = match changes_in(write.versions, &owned.api_version, old, new) {
                        Ok(changes) => Some((changes.modified.union(&changes.added), changes.removed)),
                        Err(Unconverted::NoVersion) => None,
                        Err(Unconverted::Failed(reason)) => return Err(WriteError::Unseen(reason)),
                    };
                    by_version.push((owned.api_version.clone(), changes));
                    by_version.len() - 1
                }
            };
            let Some((_, Some((touched, removed)))) = by_version.get(position) else {
                lost.push((owner.clone(), None));
                continue;
            };
            (touched, removed)
        };
        let taken = owned.fields.intersection(touched);
        lost.push((owner.clone(), Some(taken.union(removed))));
        if !taken.is_empty() {
            conflicts.push((owner.clone(), taken));
        }
    }
    if !force && !conflicts.is_empty() {
        return Err(WriteError::Owned(conflicts));
    }
    for (owner, fields) in lost {
        let left = owners.get_mut(&owner).zip(fields).is_some_and(|(owned, fields)| {
            owned.fields.remove(&fields);
            !owned.fields.is_empty()
        });
        if !left {
            owners.remove(&owner);
        }
    }
    Ok(())
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn strip_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
}

/// The fields without owners: they identify the object, or belong to the server.
fn stripped() -> &'static FieldSet {
    static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &STRIPPED
}
