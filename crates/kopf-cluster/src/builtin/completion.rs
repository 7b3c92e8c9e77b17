//! What is filled in and dropped when an object is decoded: defaults, unknown fields, the form of structs.

use serde_json::Value;

use super::{defaults, kinds};
use crate::catalog::{CRDS, ResourceType};
use crate::codec::{go_types, json};
use crate::go::go_form::Structure;

/// Defaults, and what is not known is dropped.
pub fn complete(resource: &ResourceType, value: &mut Value) {
    match resource.custom() {
        Some(_) => {
            json::settle_numbers(value);
            if let Some(schema) = resource.schema() {
                schema.default(value);
                schema.prune(value);
            }
        }
        None => {
            if let Some(schema) = resource.schema() {
                schema.prune(value);
            }
            go_types::settle_quantities(resource, value);
            // Structs within structs are always there, so that their defaults are, too.
            settle_form(resource, value, Structure::settle_read);
            defaults::fill_in(resource, value);
            kinds::complete(resource, value);
            settle_form(resource, value, Structure::settle_read);
        }
    }
}

/// Built-in kinds show some fields even if nobody has set them, and drop others if they are empty.
pub fn settle_form(resource: &ResourceType, value: &mut Value, settle: fn(Structure, &mut Value)) {
    // CRDs are kept in another way, and know by themselves what they show.
    if let Some(structure) = resource.structure().filter(|_| !resource.is(CRDS.0, CRDS.1)) {
        settle(structure, value);
    }
}
