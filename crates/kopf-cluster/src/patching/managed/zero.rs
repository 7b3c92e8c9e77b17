//! The empty object of a kind: what is there before anything is written.
//!
//! Built-in kinds are structures, and structures have their inner structures from the start:
//! creating a Deployment sets fields of its `spec`, but not the `spec` itself. The schemas tell
//! which fields these are: they have a default, or are required. Custom resources start empty.

use serde_json::{Map, Value};

use crate::schema::{NodeId, Schema};

/// Structures deeper than this are not filled in.
const MAX_DEPTH: usize = 32;

/// The empty object of the kind of `object`.
pub fn zero_object(schema: &Schema, object: &Value) -> Value {
    let mut zero = match schema.node(schema.root_id()).definition {
        Some(_) => zero_of(schema, schema.root_id(), 0),
        None => Map::new(),
    };
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            zero.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(zero)
}

fn zero_of(schema: &Schema, id: NodeId, depth: usize) -> Map<String, Value> {
    let node = schema.node(id);
    let mut fields = Map::new();
    for (name, property) in &node.properties {
        let value = match &schema.node(*property).default {
            Some(Value::Object(empty)) if empty.is_empty() && depth < MAX_DEPTH => {
                Value::Object(zero_of(schema, *property, depth + 1))
            }
            Some(default) if node.required.contains(name) => default.clone(),
            Some(_) => continue,
            None if node.required.contains(name) => Value::Null,
            None => continue,
        };
        fields.insert(name.clone(), value);
    }
    fields
}
