//! Whether the schema of a CRD is one that the API accepts.
//!
//! The front calls [`check_definition`] when a CRD is created or changed, before the schema is
//! compiled. The complaints are those of the server: what it never supports, what makes a schema
//! not structural, and defaults that the schema itself would reject.

mod unsupported;
mod structural;
mod defaults;

use serde_json::Value;

use crate::go::field_error::{self, FieldError};

/// All complaints about a schema; `path` is where it is in the CRD, such as
/// `spec.validation.openAPIV3Schema`.
///
/// The server reports the schema at that path if all versions share it, and at
/// `spec.versions[0].schema.openAPIV3Schema` otherwise.
pub(crate) fn check_definition(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = unsupported::check(schema, path);
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(field_error::child(path, "nullable"), "nullable cannot be true at the root"));
    }
    let unstructural = structural::check(schema, path);
    match unstructural.is_empty() && !errors.iter().any(|error| error.field.ends_with(".items")) {
        true => errors.extend(defaults::check(schema, path)),
        false => errors.extend(unstructural),
    }
    errors
}

/// The schemas right below another: the words of the path to each, and the schema.
fn nested<'a>(schema: &'a Value, name: &str) -> Vec<(String, &'a Value)> {
    match schema.get(name) {
        Some(Value::Array(schemas)) => {
            schemas.iter().enumerate().map(|(index, nested)| (format!("{name}[{index}]"), nested)).collect()
        }
        Some(nested @ Value::Object(_)) => vec![(name.to_owned(), nested)],
        _ => Vec::new(),
    }
}

/// The properties of a schema, by name.
fn properties(schema: &Value) -> Vec<(&String, &Value)> {
    let mut found: Vec<(&String, &Value)> =
        schema.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
    found.sort_unstable_by_key(|(name, _)| *name);
    found
}

fn property_path(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}
