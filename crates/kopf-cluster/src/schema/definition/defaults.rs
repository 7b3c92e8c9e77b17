//! Whether the defaults of a schema are valid by the schema itself.

use serde_json::{Map, Value};

use super::{properties, property_path};
use crate::go::field_error::{FieldError, child};
use crate::schema::{Schema, validate};

/// The complaints about all defaults in a schema.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, path, &mut errors);
    errors
}

fn visit(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        errors.extend(check_default(schema, default, &child(path, "default")));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        visit(items, &child(path, "items"), errors);
    }
    for (name, property) in properties(schema) {
        visit(property, &property_path(path, name), errors);
    }
}

fn check_default(schema: &Value, default: &Value, path: &str) -> Vec<FieldError> {
    let Ok(compiled) = Schema::of_custom_resource(schema, &Map::new()) else { return Vec::new() };
    let mut errors = Vec::new();
    if !compiled.unknown_parts(default).is_empty() {
        errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
    }
    errors.extend(validate::validate_part(&compiled, default, path));
    errors
}
