//! What the controllers of a real cluster do right after a write.
//!
//! The verbs call these hooks through the [`AfterWrite`] of the state.

use std::sync::Arc;

use serde_json::Value;

use super::{gc, namespaces};
use crate::admit::ownership::{self, Writer};
use crate::builtin::crd;
use crate::builtin::kinds::{PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION};
use crate::catalog::{CRDS, ResourceType};
use crate::publish::render::decode;
use crate::state::{AfterWrite, State};
use crate::store::{Event, ObjectKey, Stored};
use crate::verbs::write_if_unchanged;

/// The controllers of a cluster.
#[derive(Debug)]
pub(crate) struct Controllers;

impl AfterWrite for Controllers {
    fn created(&self, state: &Arc<State>, resource: &Arc<ResourceType>, stored: &Stored) {
        created(state, resource, stored);
    }

    fn updated(&self, state: &Arc<State>, resource: &Arc<ResourceType>, event: &Event) {
        updated(state, resource, event);
    }

    fn marked(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
        marked(state, resource, object);
    }

    fn removed(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
        removed(state, resource, object);
    }
}

/// What the controllers of a real cluster do after an object was created.
pub(super) fn created(state: &Arc<State>, resource: &Arc<ResourceType>, stored: &Stored) {
    if resource.is("", "namespaces") {
        namespaces::fill(state, &stored.object_key.name);
    }
    if resource.is(CRDS.0, CRDS.1) || stored.deleting || stored.owners().next().is_some() {
        reconcile(state, resource, &decode(resource, stored));
    }
}

/// What they do after an object was changed: nothing about most objects. Those that keep their owners were looked
/// after when they got them, and are again when these go.
fn updated(state: &Arc<State>, resource: &Arc<ResourceType>, event: &Event) {
    let stored = &event.object;
    let has_same_owners = event.previous.as_ref().is_some_and(|previous| previous.owners().eq(stored.owners()));
    if resource.is(CRDS.0, CRDS.1) || stored.deleting || !has_same_owners {
        reconcile(state, resource, &decode(resource, stored));
    }
}

fn reconcile(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
    if resource.is(CRDS.0, CRDS.1) {
        update_crd_status(state, resource, object["metadata"]["name"].as_str().unwrap_or_default());
        update_waiting_crds(state, resource);
    }
    gc::after_update(state, resource, object);
}

/// Accepts the names of a CRD, if they are free.
fn update_crd_status(state: &Arc<State>, crds: &Arc<ResourceType>, name: &str) {
    let now = state.now();
    let writer = Writer::system("kube-apiserver", "status");
    // The CRD may be gone already.
    let _ = write_if_unchanged(state, crds, &ObjectKey::new("", name), false, |crd| {
        let others: Vec<Value> =
            state.store().list(&crds.storage, None, None).iter().map(|stored| stored.decode()).collect();
        let Some(mut updated) = crd::with_conditions(crd, &others, now) else { return Ok(crd.clone()) };
        ownership::record(state, crds, &writer, Some(crd), &mut updated)?;
        Ok(updated)
    });
}

/// Released names go to the CRDs that wait for them.
fn update_waiting_crds(state: &Arc<State>, crds: &Arc<ResourceType>) {
    let stored = state.store().list(&crds.storage, None, None);
    for waiting in stored.iter().filter(|stored| crd::waits_for_names(&stored.decode())) {
        update_crd_status(state, crds, &waiting.object_key.name);
    }
}

/// What they do after an object was marked as deleted.
pub(super) fn marked(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if resource.is("", "namespaces") {
        namespaces::empty(state, name);
    } else if resource.is(CRDS.0, CRDS.1) {
        reconcile(state, resource, object);
        gc::empty_crd(state, object);
    } else {
        // Nothing uses claims, volumes and their classes here, so nothing has to wait for them; but it is a
        // workload controller that removes the finalizer.
        let protection = [PVC_PROTECTION, PV_PROTECTION, VAC_PROTECTION];
        for finalizer in protection.iter().filter(|_| state.options.workloads.is_some()) {
            gc::drop_finalizer(state, resource, object, finalizer);
        }
        gc::after_update(state, resource, object);
    }
}

/// What they do after an object is gone.
fn removed(state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value) {
    gc::after_remove(state, object);
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        namespaces::finish_if_empty(state, namespace);
    }
    if resource.custom().is_some() {
        gc::finish_crd_if_empty(state, resource);
    }
    if resource.is(CRDS.0, CRDS.1) {
        update_waiting_crds(state, resource);
    }
}
