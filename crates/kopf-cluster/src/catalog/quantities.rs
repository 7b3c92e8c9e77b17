//! Which OpenAPI definitions contain quantities, so that objects without any are not searched for them.

use serde_json::{Map, Value};

/// Whether a definition contains quantities, directly or through references.
pub(super) fn mentions_quantities(known: &Map<String, Value>, name: &str) -> bool {
    let mut seen = vec![name];
    let mut position = 0;
    while let Some(name) = seen.get(position) {
        let mut pending: Vec<&Value> = known.get(*name).into_iter().collect();
        while let Some(schema) = pending.pop() {
            match reference(schema) {
                Some(name) if is_quantity(name) => return true,
                Some(name) if !seen.contains(&name) => seen.push(name),
                Some(_) => {}
                None => {
                    pending
                        .extend(schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values));
                    pending.extend(schema.get("items"));
                    pending.extend(schema.get("additionalProperties"));
                }
            }
        }
        position += 1;
    }
    false
}

pub(crate) fn is_quantity(definition: &str) -> bool {
    definition.ends_with(".resource.Quantity")
}

pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    let wrapped = || schema.get("allOf")?.get(0)?.get("$ref")?.as_str();
    direct.or_else(wrapped)?.rsplit('/').next()
}
