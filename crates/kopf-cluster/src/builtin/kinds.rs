//! The special cases of a few built-in kinds; everything else is generic.
//!
//! `admit.rs` and `verbs/` call these hooks at fixed places: when an object is made, changed,
//! checked, marked as deleted, and gone. A kind that is not named here has nothing special.

mod pods;
mod services;
mod batch;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{convert, crd, namespaces, rules};
use crate::catalog::{CRDS, ResourceType};
use crate::go::FieldError;
use crate::request::User;
use crate::request::status::StatusError;
use crate::state::State;
use crate::support::clock::timestamp;

/// What keeps claims and volumes while they are used.
pub(crate) const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
pub(crate) const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
pub(crate) const VAC_PROTECTION: &str = "kubernetes.io/vac-protection";

/// Whether a status that was sent with a new object is dropped.
pub(crate) fn starts_without_status(resource: &ResourceType) -> bool {
    !resource.is("", "nodes")
}

/// Completes an object as its decoding does, before anybody owns its fields.
pub(crate) fn complete(resource: &ResourceType, object: &mut Value) {
    match resource.qualified() {
        "namespaces" => namespaces::label(object),
        "secrets" => encode_string_data(object),
        "customresourcedefinitions.apiextensions.k8s.io" => crd::complete(object),
        "statefulsets.apps" => batch::complete_claims(object),
        "replicationcontrollers" | "jobs.batch" => batch::label_as_template(object),
        "daemonsets.apps" if object["metadata"]["annotations"].get(batch::TEMPLATE_GENERATION).is_none() => {
            batch::put_template_generation(object, 1);
        }
        "nodes" => batch::complete_node(object),
        _ => convert::complete(resource, object),
    }
}

/// Completes the object of a bookmark.
pub(crate) fn prepare_bookmark(resource: &ResourceType, object: &mut Value) {
    match resource.qualified() {
        "daemonsets.apps" => batch::put_template_generation(object, 0),
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" => object["spec"]["replicas"] = json!(0),
        _ => {}
    }
}

/// Completes a new object.
pub(crate) fn prepare_new(
    state: &State,
    resource: &ResourceType,
    object: &mut Value,
    dry_run: bool,
) -> Result<(), StatusError> {
    match resource.qualified() {
        "namespaces" => namespaces::prepare_new(object),
        "customresourcedefinitions.apiextensions.k8s.io" => {
            if let Value::Object(fields) = object {
                fields.shift_remove("status");
            }
            crd::prepare(object);
        }
        "pods" => pods::prepare_new(state, resource, object)?,
        "jobs.batch" => batch::prepare_new(object),
        "daemonsets.apps" => batch::count_templates(object, None),
        // Limit ranges without a name are named after their uid, for backward compatibility.
        "limitranges" if object["metadata"].get("name").is_none() => {
            object["metadata"]["name"] = object["metadata"]["uid"].clone();
        }
        "nodes" => prepare_node(object),
        "persistentvolumeclaims" => {
            protect(object, PVC_PROTECTION);
            object["status"]["phase"] = json!("Pending");
            complete_claim(state, object);
        }
        "persistentvolumes" => {
            protect(object, PV_PROTECTION);
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": timestamp(state.now())});
        }
        "volumeattributesclasses.storage.k8s.io" => protect(object, VAC_PROTECTION),
        "services" => services::prepare_new(state, resource, object, dry_run)?,
        _ => {}
    }
    Ok(())
}

/// Some objects record their author, regardless of what the client sent.
pub(crate) fn note_author(resource: &ResourceType, object: &mut Value, author: Option<&User>) {
    let Some(author) = author.filter(|_| resource.is("certificates.k8s.io", "certificatesigningrequests")) else {
        return;
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("extra");
        spec.insert("username".into(), json!(author.name));
        spec.insert("uid".into(), json!(author.name));
        spec.insert("groups".into(), json!(author.groups));
    }
}

/// Completes a changed object.
pub(crate) fn prepare_change(resource: &ResourceType, old: &Value, object: &mut Value) {
    match resource.qualified() {
        "namespaces" => object["spec"] = old["spec"].clone(),
        "customresourcedefinitions.apiextensions.k8s.io" => crd::prepare(object),
        "services" => services::prepare_change(old, object),
        "daemonsets.apps" => batch::count_templates(object, Some(old)),
        // Requests for certificates are what they were when they were made.
        "certificatesigningrequests.certificates.k8s.io" => object["spec"] = old["spec"].clone(),
        _ => {}
    }
}

/// Volumes record when their phase changed.
pub(crate) fn note_phase(resource: &ResourceType, old: &Value, object: &mut Value, now: Timestamp) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let (before, after) = (&old["status"], &object["status"]);
    if resource.is("", "persistentvolumes") && before["phase"] != after["phase"] && before[SINCE] == after[SINCE] {
        object["status"][SINCE] = json!(timestamp(now));
    }
}

/// The errors in an object besides its metadata.
pub(crate) fn check(resource: &ResourceType, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match resource.qualified() {
        "customresourcedefinitions.apiextensions.k8s.io" => crd::checks::check(object, old),
        _ if resource.custom().is_some() => Vec::new(),
        _ => match convert::kept_form(resource, object) {
            Some(form) => {
                let old = old.and_then(|old| convert::kept_form(resource, old));
                rules::check(resource, &form, old.as_ref())
            }
            None => rules::check(resource, object, old),
        },
    }
}

/// Whether something other than finalizers and grace keeps a deleted object.
pub(crate) fn is_held(resource: &ResourceType, object: &Value) -> bool {
    resource.is("", "namespaces") && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Completes an object that is to be marked as deleted.
pub(crate) fn prepare_deletion(resource: &ResourceType, object: &mut Value, now: Timestamp) {
    if resource.is("", "namespaces") {
        object["status"]["phase"] = json!("Terminating");
    }
    if resource.is(CRDS.0, CRDS.1) {
        let finalizers = &mut object["metadata"]["finalizers"];
        let mut list = finalizers.as_array().cloned().unwrap_or_default();
        if !list.iter().any(|finalizer| finalizer == crd::CLEANUP_FINALIZER) {
            list.push(json!(crd::CLEANUP_FINALIZER));
        }
        *finalizers = Value::Array(list);
        crd::terminate(object, now);
    }
}

/// How long an object may take to go. Only pods on nodes take any time.
pub(crate) fn grace_period(resource: &ResourceType, object: &Value, asked: Option<i64>) -> i64 {
    if !resource.is("", "pods") {
        return 0;
    }
    let scheduled = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    match scheduled && !over {
        true => asked.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0),
        false => 0,
    }
}

/// Whether a deletion is answered with the last state of the object, not with a mere success.
pub(crate) fn shows_deleted(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "pods"
                | "podtemplates"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ) | (
            "storage.k8s.io",
            "storageclasses" | "csinodes" | "csidrivers" | "volumeattachments" | "volumeattributesclasses"
        ) | ("resource.k8s.io", _)
    )
}

/// Secrets can be written as text, but are read only in base64.
fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|fields| fields.shift_remove("stringData")) else {
        return;
    };
    for (key, text) in texts {
        if let Some(text) = text.as_str() {
            if !secret["data"].is_object() {
                secret["data"] = json!({});
            }
            secret["data"][key] = json!(STANDARD.encode(text));
        }
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(json!(finalizer));
    }
    object["metadata"]["finalizers"] = Value::Array(finalizers);
}

/// New nodes take no pods until a controller declares them ready.
fn prepare_node(node: &mut Value) {
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    if !taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready") {
        taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
    }
    node["spec"]["taints"] = Value::Array(taints);
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    if node["status"].get("daemonEndpoints").is_none() {
        node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 0}});
    }
    const FACTS: [&str; 10] = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ];
    for fact in FACTS {
        if node["status"]["nodeInfo"].get(fact).is_none() {
            node["status"]["nodeInfo"][fact] = json!("");
        }
    }
}

/// Gives a new claim the default class, if it names none.
fn complete_claim(state: &State, claim: &mut Value) {
    const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    if claim["spec"].get("storageClassName").is_some() || !claim["spec"].is_object() {
        return;
    }
    let Some(resource) = state.built_in("storage.k8s.io", "v1", "storageclasses") else { return };
    let classes = state.store().list(&resource.storage, None, None);
    let default =
        classes.iter().map(|class| class.decode()).find(|class| class["metadata"]["annotations"][IS_DEFAULT] == "true");
    if let Some(class) = default {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}
