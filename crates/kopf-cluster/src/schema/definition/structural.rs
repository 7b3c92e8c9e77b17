//! What makes a schema structural: types everywhere, and nothing but constraints inside of
//! `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::{Value, json};

use super::{flag, nested, properties, property_path, text};
use crate::go::field_error::{FieldError, child};
use crate::schema::pattern::Pattern;

/// The complaints about a schema, sorted as the server sorts them.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_level(schema, Level::Root, path, &mut errors);
    check_completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(FieldError::to_string);
    errors
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    /// The whole object.
    Root,
    /// The items of a list.
    Item,
    /// A field.
    Field,
}

fn check_level(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let type_path = child(path, "type");
    match schema.get("items").filter(|items| items.is_object()) {
        Some(items) => check_level(items, Level::Item, &child(path, "items"), errors),
        None if value_type == "array" && !schema.get("items").is_some_and(Value::is_array) => {
            errors.push(FieldError::required(child(path, "items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in properties(schema) {
        check_level(property, Level::Field, &property_path(path, name), errors);
    }
    let additional = schema.get("additionalProperties").filter(|additional| !additional.is_null());
    if additional.is_some() && level == Level::Root {
        errors.push(FieldError::forbidden(child(path, "additionalProperties"), "must not be used at the root"));
    }
    if let Some(values) = additional.filter(|values| values.is_object()) {
        check_level(values, Level::Field, &child(path, "additionalProperties"), errors);
    }
    check_constraints(schema, path, has_either_type(schema), errors);
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let is_open = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(schema, name) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(child(path, name), json!(true), detail));
            }
        }
    }
    if is_embedded && value_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match value_type.is_empty() {
            true => FieldError::required(&type_path, detail),
            false => FieldError::invalid(&type_path, value_type.into(), detail),
        });
    } else if value_type.is_empty() && !flag(schema, "x-kubernetes-int-or-string") && !is_open {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    if is_embedded && additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(child(path, "additionalProperties"), detail));
    }
    if level == Level::Root && !value_type.is_empty() && value_type != "object" {
        errors.push(FieldError::invalid(&type_path, value_type.into(), "must be object at the root"));
    }
    check_metadata(schema, level, path, errors);
    if is_embedded && !is_open && properties(schema).is_empty() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(child(path, "properties"), detail));
    }
}

fn check_metadata(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_object = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    for (name, needed) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(declared) = property(name).filter(|_| is_object) else { continue };
        if text(declared, "type") != needed {
            let field = child(&property_path(path, name), "type");
            errors.push(FieldError::invalid(field, text(declared, "type").into(), format!("must be {needed}")));
        }
    }
    let Some(metadata) = property("metadata").filter(|_| level == Level::Root) else { return };
    let only_names = properties(metadata).iter().all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let only_plain = metadata
        .as_object()
        .into_iter()
        .flatten()
        .all(|(name, _)| matches!(name.as_str(), "type" | "properties" | "default"));
    if !only_names || !only_plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(property_path(path, "metadata"), detail));
    }
}

/// Constraints of a schema: its pattern, and everything that is nested in its alternatives.
fn check_constraints(schema: &Value, path: &str, skips_any_of: bool, errors: &mut Vec<FieldError>) {
    for name in ["anyOf", "allOf", "oneOf", "not"] {
        if name == "anyOf" && skips_any_of {
            continue;
        }
        for (position, (step, constraint)) in nested(schema, name).into_iter().enumerate() {
            let skips = name == "allOf" && position == 0 && has_either_type(constraint);
            check_constraint(constraint, &child(path, &step), skips, errors);
        }
    }
    let pattern = text(schema, "pattern");
    if let Err(reason) = Pattern::new(pattern).is_match("") {
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}");
        errors.push(FieldError::invalid(child(path, "pattern"), pattern.into(), detail));
    }
}

fn check_constraint(schema: &Value, path: &str, skips_any_of: bool, errors: &mut Vec<FieldError>) {
    check_constraints(schema, path, skips_any_of, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_constraint(items, &child(path, "items"), false, errors);
    }
    for (name, property) in properties(schema) {
        check_constraint(property, &property_path(path, name), false, errors);
    }
    for (name, demand) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let is_set = schema.get(name).is_some_and(|value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        });
        if is_set {
            errors.push(FieldError::forbidden(child(path, name), demand));
        }
    }
    if schema.get("properties").is_some_and(|properties| properties.get("metadata").is_some()) {
        errors
            .push(FieldError::forbidden(property_path(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// The two notations for "integer or string" that are exempt.
fn has_either_type(schema: &Value) -> bool {
    schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
        && text(schema, "type").is_empty()
        && {
            flag(schema, "x-kubernetes-int-or-string")
                || !schema.as_object().is_some_and(|fields| fields.contains_key("type"))
        }
}

/// Fields in alternatives must be declared outside of them, too.
fn check_completeness(
    constraint: &Value,
    schema: Option<&Value>,
    path: &str,
    constraint_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        return errors.push(FieldError::required(path, format!("because it is defined in {constraint_path}")));
    };
    for (step, nested) in ["not", "allOf", "anyOf", "oneOf"].iter().flat_map(|name| nested(constraint, name)) {
        let nested_path = child(constraint_path, &step);
        check_completeness(nested, Some(schema), path, &nested_path, errors);
        if let Some(items) = nested.get("items").filter(|items| items.is_object()) {
            check_completeness(
                items,
                schema.get("items"),
                &child(path, "items"),
                &child(&nested_path, "items"),
                errors,
            );
        }
        for (name, property) in properties(nested) {
            let declared = schema.get("properties").and_then(|properties| properties.get(name));
            check_completeness(
                property,
                declared,
                &property_path(path, name),
                &property_path(&nested_path, name),
                errors,
            );
        }
    }
}
