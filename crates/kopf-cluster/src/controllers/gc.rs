//! What goes with an object when it goes: its dependents, and the objects of a CRD.
//!
//! Dependents name their owners in `metadata.ownerReferences`. They are deleted before or after
//! the owner, or let go, as the deletion of the owner says. As with namespaces, it happens right
//! after the request that causes it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admit::ownership::{self, Writer};
use crate::builtin::crd::CLEANUP_FINALIZER;
use crate::catalog::{CRDS, ResourceType};
use crate::publish::render::decode;
use crate::state::State;
use crate::store::ObjectKey;
use crate::verbs::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete_object, write_if_unchanged};

/// Looks after an object that was changed: whether it waits for its dependents, or has lost its owners.
pub(super) fn after_update(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
    if object["metadata"].get("deletionTimestamp").is_none() {
        collect_ownerless(state, resource, object);
        return;
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    if has_finalizer(object, ORPHAN) {
        for (dependent, object_key) in dependents(state, uid) {
            disown(state, &dependent, &object_key, uid);
        }
        drop_finalizer(state, resource, object, ORPHAN);
    } else if has_finalizer(object, FOREGROUND) {
        for (dependent, object_key) in dependents(state, uid) {
            let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
            // If it is gone already, so much the better.
            let _ = delete_object(state, &dependent, &object_key, &options);
        }
        finish_foreground(state, resource, object);
    }
}

/// Looks after the dependents and the owners of an object that is gone.
pub(super) fn after_remove(state: &Arc<State>, object: &Value) {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    for (dependent, object_key) in dependents(state, uid) {
        let others = owners_of(state, &dependent, &object_key).iter().any(|owner| owner["uid"] != uid);
        match others {
            true => disown(state, &dependent, &object_key, uid),
            false => {
                let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
                let _ = delete_object(state, &dependent, &object_key, &options);
            }
        }
    }
    // The owners may wait for this very object.
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        if let Some((resource, owner)) = find_owner(state, owner, object["metadata"]["namespace"].as_str())
            && owner["metadata"].get("deletionTimestamp").is_some()
            && has_finalizer(&owner, FOREGROUND)
        {
            finish_foreground(state, &resource, &owner);
        }
    }
}

/// Deletes all objects of a CRD that is going away.
pub(super) fn empty_crd(state: &Arc<State>, crd: &Value) {
    let catalog = state.catalog();
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let found = catalog.by_storage().into_values().find(|resource| resource.is(group, plural)).cloned();
    match found {
        None => release_crd(state, crd["metadata"]["name"].as_str().unwrap_or_default()),
        Some(resource) => {
            let places: Vec<ObjectKey> = state
                .store()
                .list(&resource.storage, None, None)
                .iter()
                .map(|stored| stored.object_key.clone())
                .collect();
            for object_key in places {
                let _ = delete_object(state, &resource, &object_key, &DeleteOptions::default());
            }
            finish_crd_if_empty(state, &resource);
        }
    }
}

/// Lets a CRD go if it is deleted and no object of it is left.
pub(super) fn finish_crd_if_empty(state: &Arc<State>, resource: &ResourceType) {
    let terminating = resource.custom().is_some_and(|custom| custom.terminating)
        || state
            .catalog()
            .get(&resource.group, &resource.version, &resource.plural)
            .is_some_and(|current| current.custom().is_some_and(|custom| custom.terminating));
    if terminating && state.store().is_empty(&resource.storage) {
        release_crd(state, resource.qualified());
    }
}

fn release_crd(state: &Arc<State>, name: &str) {
    let Some(crds) = state.built_in(CRDS.0, "v1", CRDS.1) else { return };
    let object_key = ObjectKey::new("", name);
    if let Some(stored) = state.get(&crds, &object_key) {
        drop_finalizer(state, &crds, &decode(&crds, &stored), CLEANUP_FINALIZER);
    }
}

/// Lets an owner go if no dependent blocks it any more.
fn finish_foreground(state: &Arc<State>, resource: &Arc<ResourceType>, owner: &Value) {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    let blocked = dependents(state, uid).iter().any(|(dependent, object_key)| {
        let owners = owners_of(state, dependent, object_key);
        owners.iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
    });
    if !blocked {
        drop_finalizer(state, resource, owner, FOREGROUND);
    }
}

/// The dependents of an owner, with their resources.
fn dependents(state: &State, uid: &str) -> Vec<(Arc<ResourceType>, ObjectKey)> {
    let found = state.store().dependents(uid);
    if found.is_empty() {
        return Vec::new();
    }
    let catalog = state.catalog();
    let by_storage = catalog.by_storage();
    found
        .into_iter()
        .filter_map(|(storage, object_key)| Some((Arc::clone(by_storage.get(&*storage)?), object_key)))
        .collect()
}

fn owners_of(state: &State, resource: &ResourceType, object_key: &ObjectKey) -> Vec<Value> {
    let object = state.get(resource, object_key).map(|stored| stored.decode()).unwrap_or_default();
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// The object that a reference names, if it is there.
pub(super) fn find_owner(
    state: &State,
    reference: &Value,
    namespace: Option<&str>,
) -> Option<(Arc<ResourceType>, Value)> {
    let resource = &kind_of(state, reference)?;
    let namespace = if resource.namespaced { namespace.unwrap_or_default() } else { "" };
    let stored = state.get(resource, &ObjectKey::new(namespace, reference["name"].as_str()?))?;
    let owner = decode(resource, &stored);
    (owner["metadata"]["uid"] == reference["uid"]).then(|| (Arc::clone(resource), owner))
}

/// The resource of the kind that a reference names.
fn kind_of(state: &State, reference: &Value) -> Option<Arc<ResourceType>> {
    let api_version = reference["apiVersion"].as_str()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = reference["kind"].as_str()?;
    let catalog = state.catalog();
    catalog.of_kind(group, version, kind).cloned()
}

/// Deletes an object whose owners are all gone. Owners of unknown kinds count as existing.
fn collect_ownerless(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str();
    let is_gone = |owner: &Value| kind_of(state, owner).is_some() && find_owner(state, owner, namespace).is_none();
    if !owners.is_empty() && owners.iter().all(is_gone) {
        let object_key =
            ObjectKey::new(namespace.unwrap_or_default(), object["metadata"]["name"].as_str().unwrap_or_default());
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        // If it is gone already, so much the better.
        let _ = delete_object(state, resource, &object_key, &options);
    }
}

/// Removes the reference to an owner from a dependent.
fn disown(state: &Arc<State>, resource: &Arc<ResourceType>, object_key: &ObjectKey, uid: &str) {
    // The dependent may be gone in the meantime.
    let _ = write_if_unchanged(state, resource, object_key, false, |old| {
        let mut next = old.clone();
        if let Some(owners) = next.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| owner["uid"] != uid);
        }
        drop_if_empty(&mut next, "ownerReferences");
        // The object is gone already.
        ownership::record(state, resource, &Writer::system("kube-controller-manager", ""), Some(old), &mut next)?;
        Ok(next)
    });
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|finalizer| finalizer == name))
}

/// Removes a finalizer from an object, and the object if it was the last thing that held it.
pub(super) fn drop_finalizer(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value, name: &str) {
    if !has_finalizer(object, name) {
        return;
    }
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let object_key = ObjectKey::new(text("namespace"), text("name"));
    // If the object is gone in the meantime, so is its finalizer.
    let _ = write_if_unchanged(state, resource, &object_key, false, |old| {
        let mut next = old.clone();
        if let Some(finalizers) = next.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != name);
        }
        drop_if_empty(&mut next, "finalizers");
        Ok(next)
    });
}

fn drop_if_empty(object: &mut Value, field: &str) {
    if object["metadata"].get(field) == Some(&json!([]))
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.shift_remove(field);
    }
}
