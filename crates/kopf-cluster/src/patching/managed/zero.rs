//! The zero object of a kind: the state before the first write.
//!
//! Built-in kinds are structures, and structures have their inner structures from the start:
//! creating a Deployment sets fields of its `spec`, but not the `spec` itself. Custom
//! resources start empty.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde_json::{Map, Value};

use crate::go::structure;
use crate::schema::Schema;

/// Empty objects by version and kind.
type Zeros = HashMap<String, HashMap<String, Arc<Value>>>;

/// Those of built-in kinds, once they were needed.
static ZEROS: LazyLock<RwLock<Zeros>> = LazyLock::new(RwLock::default);

/// The empty object of the kind of `object`.
pub(crate) fn zero_object(schema: &Schema, object: &Value) -> Arc<Value> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if schema.node(schema.root_id()).definition.is_none() {
        return Arc::new(typed(Map::new(), object));
    }
    let zeros = ZEROS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(zero) = zeros.get(api_version).and_then(|kinds| kinds.get(kind)) {
        return Arc::clone(zero);
    }
    drop(zeros);
    let Some(fields) = structure::empty(api_version, kind) else { return Arc::new(typed(Map::new(), object)) };
    let zero = Arc::new(typed(fields, object));
    let mut zeros = ZEROS.write().unwrap_or_else(PoisonError::into_inner);
    zeros.entry(api_version.to_owned()).or_default().insert(kind.to_owned(), Arc::clone(&zero));
    zero
}

fn typed(mut zero: Map<String, Value>, object: &Value) -> Value {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            zero.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(zero)
}
