//! The marks of a deletion: the deletion timestamp, the grace period, the finalizers of propagation.

use jiff::ToSpan;
use serde_json::{Value, json};

use super::options::{DeleteOptions, Propagation};
use crate::builtin::kinds;
use crate::catalog::{CRDS, ResourceType};
use crate::state::State;
use crate::support::clock::timestamp;

/// The finalizer that keeps an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents have lost their reference to it.
pub(crate) const ORPHAN: &str = "orphan";

/// The object with its deletion timestamp, grace period and finalizers.
pub(super) fn mark(state: &State, resource: &ResourceType, old: &Value, options: &DeleteOptions) -> Value {
    let mut object = old.clone();
    add_finalizers(resource, &mut object, options);
    kinds::prepare_deletion(resource, &mut object, state.now());
    let grace = kinds::grace_period(resource, old, options.grace_period_seconds);
    let already = old["metadata"].get("deletionTimestamp").is_some();
    let shorter = old["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|current| grace < current);
    if already && !shorter {
        return object;
    }
    let time = state.now().checked_add(grace.seconds()).unwrap_or_else(|_| state.now());
    // Pods are marked even if they are removed at once.
    let held = is_held(resource, &object) || grace > 0 || resource.is("", "pods");
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = json!(timestamp(time));
    // Namespaces and CRDs have no grace period.
    let graceless = resource.is("", "namespaces") || resource.is(CRDS.0, CRDS.1);
    if !graceless {
        metadata["deletionGracePeriodSeconds"] = json!(grace);
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|_| held && !already && !graceless) {
        metadata["generation"] = json!(generation + 1);
    }
    if !held {
        // An object that is removed at once stays unmarked.
        return old.clone();
    }
    object
}

/// Whether finalizers, the grace period or the rules of its kind keep a deleted object for now.
pub(super) fn is_held(resource: &ResourceType, object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let in_grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    finalizers || in_grace || kinds::is_held(resource, object)
}

/// Replaces the finalizers of propagation by the one that the options ask for.
fn add_finalizers(resource: &ResourceType, object: &mut Value, options: &DeleteOptions) {
    let propagation = options.propagation.or_else(|| default_propagation(resource));
    let wanted = match propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Background) | None => None,
    };
    if propagation.is_none() && wanted.is_none() {
        return;
    }
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
    finalizers.extend(wanted.map(|wanted| json!(wanted)));
    match finalizers.is_empty() {
        false => object["metadata"]["finalizers"] = Value::Array(finalizers),
        true => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove("finalizers");
            }
        }
    }
}

/// The propagation of a kind if the client names none.
fn default_propagation(resource: &ResourceType) -> Option<Propagation> {
    let orphans = resource.is("batch", "jobs") || resource.is("", "replicationcontrollers");
    orphans.then_some(Propagation::Orphan)
}
