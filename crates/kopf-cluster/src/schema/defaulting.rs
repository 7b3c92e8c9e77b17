//! Filling in what the schema has a default for.
//!
//! Null counts as absent where the schema does not allow it; nulls that nothing replaces are
//! dropped by [`drop_nulls`], which the server does in this place only for defaults themselves.

use serde_json::{Map, Value};

use super::Schema;
use super::node::{Additional, Node, NodeId};

/// Fills in the defaults, also inside of the values that were just filled in.
pub(super) fn default(schema: &Schema, value: &mut Value) {
    visit(schema, schema.root_id(), value);
}

fn visit(schema: &Schema, id: NodeId, value: &mut Value) {
    let node = schema.node(id);
    match value {
        Value::Object(fields) => {
            fill_in(schema, node, fields);
            for (name, field) in fields.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    visit(schema, *property, field);
                } else if let Additional::Values(values) = node.additional {
                    replace_null(schema.node(values), field);
                    visit(schema, values, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = node.items else { return };
            for item in items {
                replace_null(schema.node(below), item);
                visit(schema, below, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fill_in(schema: &Schema, node: &Node, fields: &mut Map<String, Value>) {
    for (name, property) in &node.properties {
        let property = schema.node(*property);
        let Some(default) = &property.default else { continue };
        let is_absent = match fields.get(name) {
            None => true,
            Some(Value::Null) => !property.nullable,
            Some(_) => false,
        };
        if is_absent {
            fields.insert(name.clone(), default.clone());
        }
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null() && !node.nullable {
        *value = node.default.clone().unwrap_or_default();
    }
}

/// Drops the nulls that the schema neither allows nor has a default for.
pub(super) fn drop_nulls(schema: &Schema, value: &mut Value) {
    drop_nulls_below(schema, Some(schema.root_id()), value);
}

fn drop_nulls_below(schema: &Schema, id: Option<NodeId>, value: &mut Value) {
    let node = id.map(|id| schema.node(id));
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let below = node.and_then(|node| field_node(node, name));
            let is_dropped = field.is_null()
                && below.map(|id| schema.node(id)).is_some_and(|node| !node.nullable && node.default.is_none());
            if !is_dropped {
                drop_nulls_below(schema, below, field);
            }
            !is_dropped
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items);
            items.iter_mut().for_each(|item| drop_nulls_below(schema, below, item));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The node of a field, known by its name or as a value of a mapping.
pub(super) fn field_node(node: &Node, name: &str) -> Option<NodeId> {
    node.properties.get(name).copied().or(match node.additional {
        Additional::Values(values) => Some(values),
        Additional::Unspecified | Additional::Anything | Additional::Nothing => None,
    })
}
