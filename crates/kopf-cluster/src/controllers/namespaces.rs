//! The namespace controllers: they fill new namespaces, and empty deleted ones.
//!
//! A real cluster does this in controllers, some seconds later; here it happens right after the
//! request that causes it, in the same order of events.

use std::sync::Arc;

use serde_json::json;

use crate::admit::ownership::Writer;
use crate::catalog::ResourceType;
use crate::publish::render::decode;
use crate::state::State;
use crate::store::ObjectKey;
use crate::verbs::{DeleteOptions, create_object, delete_object, finish_if_released, write_if_unchanged};

/// The namespaces that every cluster has.
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes the namespaces that every cluster has, and the service of the API itself.
pub(crate) fn create_initial(state: &Arc<State>) {
    let writer = Writer::system("kube-apiserver", "");
    if let Some(namespaces) = namespaces(state) {
        for name in INITIAL {
            // It is the first object in a new store, so nothing can reject it.
            let _ = create_object(state, &namespaces, None, json!({"metadata": {"name": name}}), false, Some(&writer));
        }
    }
    if let Some(services) = state.built_in("", "v1", "services") {
        let service = json!({
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
        });
        let _ = create_object(state, &services, Some("default"), service, false, Some(&writer));
    }
}

/// Puts into a namespace what every namespace has.
pub(crate) fn fill(state: &Arc<State>, namespace: &str) {
    let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                       endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                       guaranteed across distributions of Kubernetes clusters.";
    let certificate = json!({
        "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": description}},
        "data": {"ca.crt": state.certificate_authority},
    });
    let contents = [("serviceaccounts", json!({"metadata": {"name": "default"}})), ("configmaps", certificate)];
    let writer = Writer::system("kube-controller-manager", "");
    for (plural, object) in contents {
        if let Some(resource) = state.built_in("", "v1", plural) {
            // A client may have created it in the meantime, or the namespace may be gone.
            let _ = create_object(state, &resource, Some(namespace), object, false, Some(&writer));
        }
    }
}

/// Deletes everything in a namespace, and then the namespace itself if nothing is left.
pub(crate) fn empty(state: &Arc<State>, namespace: &str) {
    let catalog = state.catalog();
    for resource in catalog.by_storage().into_values().filter(|resource| resource.namespaced) {
        let places: Vec<ObjectKey> = state
            .store()
            .list(&resource.storage, Some(namespace), None)
            .iter()
            .map(|stored| stored.object_key.clone())
            .collect();
        for object_key in places {
            // Pods on nodes get no grace period here: no kubelet would end it.
            let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            // If it is gone already, so much the better.
            let _ = delete_object(state, resource, &object_key, &options);
        }
    }
    finish_if_empty(state, namespace);
}

/// Lets a terminating namespace go if nothing is left in it.
pub(crate) fn finish_if_empty(state: &Arc<State>, namespace: &str) {
    let Some(namespaces) = namespaces(state) else { return };
    let object_key = ObjectKey::new("", namespace);
    let Some(stored) = state.get(&namespaces, &object_key) else { return };
    if decode(&namespaces, &stored)["metadata"].get("deletionTimestamp").is_none() || !is_empty(state, namespace) {
        return;
    }
    // If it is gone in the meantime, so much the better.
    let _ = write_if_unchanged(state, &namespaces, &object_key, false, |old| {
        let mut next = old.clone();
        next["spec"] = json!({});
        Ok(next)
    });
    finish_if_released(state, &namespaces, &object_key);
}

fn is_empty(state: &State, namespace: &str) -> bool {
    let catalog = state.catalog();
    let store = state.store();
    catalog
        .by_storage()
        .into_values()
        .filter(|resource| resource.namespaced)
        .all(|resource| store.list(&resource.storage, Some(namespace), None).is_empty())
}

fn namespaces(state: &State) -> Option<Arc<ResourceType>> {
    state.built_in("", "v1", "namespaces")
}
