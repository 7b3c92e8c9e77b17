//! The few built-in kinds that are shown under two APIs with different fields.
//!
//! Custom resources with several versions need little here: without a conversion webhook, only
//! their `apiVersion` differs; with one, `webhooks/conversion.rs` does it.

use serde_json::{Value, json};

use crate::catalog::ResourceType;

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

/// Whether objects of the resource are stored in another shape than they are shown.
pub fn is_needed(resource: &ResourceType) -> bool {
    resource.is("events.k8s.io", "events")
}

/// From the shape of the store to that of the resource.
pub fn from_storage(resource: &ResourceType, value: &mut Value) {
    if is_needed(resource) {
        rename(value, |name| EVENT_FIELDS.iter().find(|(core, _)| *core == name).map(|(_, other)| *other));
    }
}

/// From the shape of the resource to that of the store.
pub fn to_storage(resource: &ResourceType, value: &mut Value) {
    match resource.custom() {
        // What a webhook converts is in the right version already, whichever that is.
        Some(custom) if custom.conversion.is_some() => {}
        Some(custom) => value["apiVersion"] = json!(format!("{}/{}", resource.group, custom.storage_version)),
        None => {
            if let Value::Object(fields) = value {
                fields.shift_remove("apiVersion");
            }
        }
    }
    if is_needed(resource) {
        rename(value, |name| EVENT_FIELDS.iter().find(|(_, other)| *other == name).map(|(core, _)| *core));
    }
}

fn rename(value: &mut Value, other: impl Fn(&str) -> Option<&'static str>) {
    if let Value::Object(fields) = value {
        let renamed = std::mem::take(fields).into_iter();
        *fields = renamed.map(|(name, field)| (other(&name).map_or(name, str::to_owned), field)).collect();
    }
}
