//! The few built-in kinds that are shown in another form than they are stored in: most of them under two APIs
//! with different fields.
//!
//! Custom resources with several versions need little here: without a conversion webhook, only
//! their `apiVersion` differs; with one, `webhooks/conversion.rs` does it.

mod autoscalers;

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::store::Stored;

/// How the fields of events are called in `v1` and in `events.k8s.io/v1`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The annotation that counts the template changes of a daemon set.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Whether objects of the resource are stored in another shape than they are shown.
pub(crate) fn is_needed(resource: &ResourceType) -> bool {
    is_newer_event(resource)
        || is_first_autoscaler(resource)
        || is_other_version(resource)
        || starts_without_phase(resource)
}

/// Whether new objects are stored without the phase that they are shown with.
fn starts_without_phase(resource: &ResourceType) -> bool {
    resource.is("", "persistentvolumeclaims")
}

/// Drops what a new object is shown with, but is not stored with before it is written again.
pub(crate) fn to_first_storage(resource: &ResourceType, value: &mut Value) {
    if starts_without_phase(resource)
        && let Some(Value::Object(status)) = value.get_mut("status")
    {
        status.shift_remove("phase");
    }
}

/// Whether a stored object lacks what it is shown with, so that even a write that changes nothing is one.
pub(crate) fn must_be_rewritten(resource: &ResourceType, stored: &Stored) -> bool {
    starts_without_phase(resource) && stored.decode()["status"].get("phase").is_none()
}

/// Whether it is a custom resource in another version than that of the store, and nobody converts it:
/// all that happens is that fields that a version does not know are dropped.
fn is_other_version(resource: &ResourceType) -> bool {
    resource.custom().is_some_and(|custom| custom.conversion.is_none() && custom.storage_version != resource.version)
}

fn is_newer_event(resource: &ResourceType) -> bool {
    resource.is("events.k8s.io", "events")
}

fn is_first_autoscaler(resource: &ResourceType) -> bool {
    resource.is("autoscaling", "horizontalpodautoscalers") && resource.version == "v1"
}

/// The same object in the form in which the server keeps it and checks it, if that is another one.
/// It omits what only old clients need.
pub(crate) fn kept_form(resource: &ResourceType, value: &Value) -> Option<Value> {
    let convert: fn(&mut Value) = match () {
        () if is_first_autoscaler(resource) => autoscalers::to_second,
        () if resource.is("apps", "daemonsets") => |daemon_set| drop_annotation(daemon_set, TEMPLATE_GENERATION),
        () => return None,
    };
    let mut other = value.clone();
    convert(&mut other);
    Some(other)
}

fn drop_annotation(object: &mut Value, name: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.shift_remove(name);
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
}

/// Completes an object by what it gets on its way into the store and back.
pub(crate) fn complete(resource: &ResourceType, value: &mut Value) {
    if is_first_autoscaler(resource) {
        autoscalers::to_second(value);
        autoscalers::to_first(value);
    }
}

/// From the shape of the store to that of the resource.
pub(crate) fn from_storage(resource: &ResourceType, value: &mut Value) {
    if is_newer_event(resource) {
        rename(value, |name| EVENT_FIELDS.iter().find(|(core, _)| *core == name).map(|(_, other)| *other));
        if let Value::Object(fields) = value {
            // Only the old API shows these when they are empty.
            for field in ["reportingController", "reportingInstance"] {
                if fields.get(field).is_some_and(|text| text == "") {
                    fields.shift_remove(field);
                }
            }
        }
    }
    if is_first_autoscaler(resource) {
        autoscalers::to_first(value);
    }
    if starts_without_phase(resource) && value["status"].get("phase").is_none() {
        value["status"]["phase"] = json!("Pending");
    }
    if let Some(schema) = resource.schema().filter(|_| is_other_version(resource)) {
        schema.prune(value);
    }
}

/// From the shape of the resource to that of the store.
pub(crate) fn to_storage(resource: &ResourceType, value: &mut Value) {
    match resource.custom() {
        // What a webhook converts is in the right version already, whichever that is.
        Some(custom) if custom.conversion.is_some() => {}
        Some(custom) => {
            value["apiVersion"] = json!(format!("{}/{}", resource.group, custom.storage_version));
            if let Some(schema) = custom.storage_schema().filter(|_| is_other_version(resource)) {
                schema.prune(value);
            }
        }
        None => {
            if let Value::Object(fields) = value {
                fields.shift_remove("apiVersion");
            }
        }
    }
    if is_newer_event(resource) {
        rename(value, |name| EVENT_FIELDS.iter().find(|(_, other)| *other == name).map(|(core, _)| *core));
    }
    if is_first_autoscaler(resource) {
        autoscalers::to_second(value);
    }
}

fn rename(value: &mut Value, other: impl Fn(&str) -> Option<&'static str>) {
    if let Value::Object(fields) = value {
        let renamed = std::mem::take(fields).into_iter();
        *fields = renamed.map(|(name, field)| (other(&name).map_or(name, str::to_owned), field)).collect();
    }
}
