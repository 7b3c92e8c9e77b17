//! Removing what the schema does not know, and naming it for strict field validation.
//!
//! The server keeps only what the schema describes. The same walk tells which fields were
//! unknown: a client that asked for warnings or for strictness is told their paths.

use serde_json::Value;

use super::Schema;
use super::node::{Additional, NodeId};

/// The fields that every object has, whether or not its schema mentions them.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the unknown fields of an object and returns their paths, in the order of the server:
/// as they come in built-in kinds; sorted in custom resources, after those of the metadata.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut walk = Walk { schema, path: String::new(), unknown: Vec::new(), keeps: false };
    walk.visit(value, Some(schema.root_id()), true);
    let mut unknown = walk.unknown;
    if schema.node(schema.root_id()).definition.is_none() {
        unknown.sort_by_cached_key(|path| match path.starts_with("metadata.") {
            true => (false, String::new()),
            false => (true, path.clone()),
        });
    }
    unknown
}

/// The paths of the unknown fields, without touching the object.
pub fn unknown_fields(schema: &Schema, value: &Value) -> Vec<String> {
    // Unknown fields are rare: the copy is cheaper than a second walk to keep in step.
    prune(schema, &mut value.clone())
}

/// The same for a value that is no object of its own.
pub fn unknown_parts(schema: &Schema, value: &Value) -> Vec<String> {
    let mut walk = Walk { schema, path: String::new(), unknown: Vec::new(), keeps: false };
    walk.visit(&mut value.clone(), Some(schema.root_id()), false);
    walk.unknown
}

struct Walk<'a> {
    schema: &'a Schema,
    /// Where the walk is now.
    path: String,
    /// The unknown fields so far.
    unknown: Vec<String>,
    /// Inside of a part that is kept whether it is known or not.
    keeps: bool,
}

impl Walk<'_> {
    /// `known` is absent where the schema has nothing to say about the value.
    fn visit(&mut self, value: &mut Value, known: Option<NodeId>, is_root: bool) {
        let node = known.map(|id| self.schema.node(id));
        let keeps = std::mem::replace(&mut self.keeps, false);
        let keeps_here = node.map_or(keeps, |node| node.preserve_unknown_fields || keeps);
        let depth = self.path.len();
        match value {
            Value::Object(fields) => {
                let embedded = is_root || node.is_some_and(|node| node.embedded_resource);
                let names: Vec<String> = fields.keys().cloned().collect();
                let mut removed = Vec::new();
                for name in names {
                    let is_meta = embedded && META_FIELDS.contains(&name.as_str());
                    let mut property = node.and_then(|node| node.properties.get(&name).copied());
                    if is_meta {
                        // The metadata has a schema of its own; a custom one can only restrict it.
                        let is_built_in = node.is_some_and(|node| node.definition.is_some());
                        property = if is_built_in { property } else { self.schema.metadata_id() };
                        if name != "metadata" || property.is_none() {
                            continue;
                        }
                    }
                    let below = property.map(Some).or_else(|| node.and_then(|node| below_additional(node.additional)));
                    match below {
                        Some(child) => {
                            self.enter_field(&name);
                            if let Some(field) = fields.get_mut(&name) {
                                self.visit(field, child, false);
                            }
                            self.path.truncate(depth);
                        }
                        None if keeps_here => {}
                        None => {
                            self.enter_field(&name);
                            self.unknown.push(self.path.clone());
                            self.path.truncate(depth);
                            removed.push(name);
                        }
                    }
                }
                for name in removed {
                    fields.shift_remove(&name);
                }
            }
            Value::Array(items) => {
                let below = node.and_then(|node| node.items);
                if below.is_none() && keeps_here {
                    return;
                }
                for (position, item) in items.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{position}]"));
                    // Lists pass their permission on: fields inside are kept as the list itself is.
                    self.keeps = keeps_here;
                    self.visit(item, below, false);
                    self.keeps = false;
                    self.path.truncate(depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn enter_field(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

/// What the schema says about a field that is not among the properties: nothing at all, or that
/// it exists, with or without a schema of its own.
fn below_additional(additional: Additional) -> Option<Option<NodeId>> {
    match additional {
        Additional::Unspecified | Additional::Nothing => None,
        Additional::Anything => Some(None),
        Additional::Values(id) => Some(Some(id)),
    }
}
