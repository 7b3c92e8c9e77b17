//! Embedded objects (`x-kubernetes-embedded-resource`): they need a kind and an API version.

use serde_json::{Map, Value};

use crate::go::field_error::{self, FieldError};
use crate::schema::Schema;
use crate::schema::node::{Additional, NodeId};

/// Complaints about embedded objects anywhere in a value.
pub(super) fn check(schema: &Schema, id: NodeId, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let node = schema.node(id);
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                check_embedded(fields, path, errors);
            }
            for (name, field) in fields {
                if let Some(property) = node.properties.get(name) {
                    check(schema, *property, field, &field_error::child(path, name), errors);
                } else if let Additional::Values(values) = node.additional {
                    check(schema, values, field, &field_error::key(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = node.items else { return };
            for (position, item) in items.iter().enumerate() {
                check(schema, below, item, &field_error::index(path, position), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_embedded(fields: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = field_error::child(path, name);
        match fields.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "".into(), "must not be empty"));
            }
            Some(Value::String(text)) => {
                let flaw = if name == "kind" { flaw_of_kind(text) } else { flaw_of_version(text) };
                errors.extend(flaw.map(|flaw| FieldError::invalid(field, text.as_str().into(), flaw)));
            }
            Some(other) => errors.push(FieldError::invalid(field, other.clone(), "must be a string")),
        }
    }
}

fn flaw_of_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn flaw_of_kind(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let mut flaws = Vec::new();
    if lower.len() > 63 {
        flaws.push("must be no more than 63 bytes".to_owned());
    }
    let is_label = lower.starts_with(|first: char| first.is_ascii_lowercase())
        && lower
            .chars()
            .all(|character| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-')
        && !lower.ends_with('-');
    if !is_label {
        flaws.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    (!flaws.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", flaws.join(",")))
}
