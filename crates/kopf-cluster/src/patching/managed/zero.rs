//! The empty object of a kind: what is there before anything is written.
//!
//! Built-in kinds are structures, and structures have their inner structures from the start:
//! creating a Deployment sets fields of its `spec`, but not the `spec` itself. Custom
//! resources start empty.

use serde_json::{Map, Value};

use crate::go_form;
use crate::schema::Schema;

/// The empty object of the kind of `object`.
pub fn zero_object(schema: &Schema, object: &Value) -> Value {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut zero = match schema.node(schema.root_id()).definition {
        Some(_) => go_form::empty(text("apiVersion"), text("kind")).unwrap_or_default(),
        None => Map::new(),
    };
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            zero.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(zero)
}
