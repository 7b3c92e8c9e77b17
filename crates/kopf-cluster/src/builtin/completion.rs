//! What the server changes when it decodes an object: defaults, unknown fields, empty struct fields.

use serde_json::Value;

use super::{defaults, kinds};
use crate::catalog::{CRDS, ResourceType};
use crate::codec::{json, struct_types};
use crate::go::structure::Structure;

/// Sets defaults, and drops unknown fields.
pub(crate) fn complete(resource: &ResourceType, value: &mut Value) {
    match resource.custom() {
        Some(_) => {
            json::normalize_numbers(value);
            if let Some(schema) = resource.schema() {
                schema.default(value);
                schema.prune(value);
            }
        }
        None => {
            if let Some(schema) = resource.schema() {
                schema.prune(value);
            }
            struct_types::normalize_quantities(resource, value);
            // Structs within structs are always there, so that their defaults are, too.
            normalize_structure(resource, value, Structure::normalize_read);
            defaults::fill_in(resource, value);
            kinds::complete(resource, value);
            normalize_structure(resource, value, Structure::normalize_read);
        }
    }
}

/// Built-in kinds show some fields even if they are unset, and omit others if they are empty.
pub(crate) fn normalize_structure(resource: &ResourceType, value: &mut Value, normalize: fn(Structure, &mut Value)) {
    // CRDs are kept in another way, and know by themselves what they show.
    if let Some(structure) = resource.structure().filter(|_| !resource.is(CRDS.0, CRDS.1)) {
        normalize(structure, value);
    }
}
