//! Lists that must not repeat themselves: sets by their values, maps by their keys.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::go::field_error::{self, FieldError};
use crate::go::text as go_text;
use crate::schema::Schema;
use crate::schema::node::{Additional, ListType, NodeId};

/// The repetitions in the lists of an object; each repeated value is reported once.
pub(super) fn check(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if value.is_object() {
        visit(schema, schema.root_id(), value, "", &mut errors);
    }
    errors
}

fn visit(schema: &Schema, id: NodeId, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let node = schema.node(id);
    match value {
        Value::Object(fields) => {
            if let Additional::Values(values) = node.additional {
                for (name, field) in fields {
                    visit(schema, values, field, &field_error::key(path, name), errors);
                }
            }
            for (name, property) in &node.properties {
                if let Some(field) = fields.get(name) {
                    visit(schema, *property, field, &field_error::child(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list_type {
                Some(ListType::Set) => {
                    for position in repetitions(items.iter().map(go_text::json)) {
                        errors.push(FieldError::duplicate(field_error::index(path, position), items[position].clone()));
                    }
                }
                Some(ListType::Map(keys)) => check_map(keys, items, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(below) = node.items {
                for (position, item) in items.iter().enumerate() {
                    visit(schema, below, item, &field_error::index(path, position), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_map(keys: &[String], items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if let Some(position) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(field_error::index(path, position), items[position].clone(), detail));
        return;
    }
    let identities: Vec<Value> = items.iter().map(|item| identity(keys, item)).collect();
    for position in repetitions(identities.iter().map(go_text::json)) {
        errors.push(FieldError::duplicate(field_error::index(path, position), identities[position].clone()));
    }
}

/// The keys of an item, those that it has.
fn identity(keys: &[String], item: &Value) -> Value {
    let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(present.collect::<Map<String, Value>>())
}

/// The positions of the second occurrences.
fn repetitions(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (position, text) in texts.enumerate() {
        let count = times.entry(text).or_default();
        *count += 1;
        if *count == 2 {
            repeated.push(position);
        }
    }
    repeated
}
