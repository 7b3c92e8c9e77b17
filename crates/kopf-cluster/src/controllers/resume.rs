//! Finishes after a restart what was begun before it.
//!
//! The hooks of `builtin/kinds.rs` run right after the write that causes them. If the process ends between
//! the two, they are caught up on when the cluster is opened again: `Cluster::open` calls this.
//! The controllers of a real cluster look at everything when they start, too.

use std::sync::Arc;

use serde_json::Value;

use super::{gc, hooks};
use crate::catalog::{CRDS, ResourceType};
use crate::publish::render::decode;
use crate::state::State;
use crate::store::ObjectKey;
use crate::verbs::{DeleteOptions, Propagation, delete_object, finish_if_released};

pub(crate) fn resume(state: &Arc<State>) {
    let catalog = state.catalog();
    for resource in catalog.by_storage().into_values() {
        let always = resource.is("", "namespaces") || resource.is(CRDS.0, CRDS.1);
        let objects = state.store().list(&resource.storage, None, None);
        for stored in objects.iter().filter(|stored| always || is_deleted_or_owned(&stored.raw)) {
            let object = decode(resource, stored);
            if object["metadata"].get("deletionTimestamp").is_some() {
                hooks::marked(state, resource, &object);
                finish_if_released(state, resource, &stored.object_key);
            } else if always {
                hooks::created(state, resource, stored);
            } else {
                collect_orphan(state, resource, &stored.object_key, &object);
            }
        }
    }
}

/// Most objects are neither deleted nor owned; those need not be decoded.
fn is_deleted_or_owned(raw: &[u8]) -> bool {
    let has = |text: &[u8]| raw.windows(text.len()).any(|window| window == text);
    has(b"\"deletionTimestamp\"") || has(b"\"ownerReferences\"")
}

/// Deletes an object if all of its owners are gone.
fn collect_orphan(state: &Arc<State>, resource: &Arc<ResourceType>, object_key: &ObjectKey, object: &Value) {
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str();
    if !owners.is_empty() && owners.iter().all(|owner| gc::find_owner(state, owner, namespace).is_none()) {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        // If it is gone already, so much the better.
        let _ = delete_object(state, resource, object_key, &options);
    }
}
