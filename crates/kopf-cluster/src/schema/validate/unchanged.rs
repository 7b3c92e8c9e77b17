//! Whether a value is the same as before, so that old flaws of it are tolerated.
//!
//! A schema may become stricter while objects exist. The server then complains only about the
//! parts that a write changes. Parts are compared field by field, and item by item in lists with
//! keys; fields that the schema does not describe count as changed.

use serde_json::Value;

use crate::schema::Schema;
use crate::schema::defaulting::field_node;
use crate::schema::node::{ListType, Node, NodeId};

/// Whether the new value equals the old one, as the server compares for this purpose.
pub(super) fn is_unchanged(schema: &Schema, id: NodeId, new: &Value, old: &Value) -> bool {
    let node = schema.node(id);
    match (new, old) {
        (Value::Array(items), Value::Array(old_items)) if items.len() == old_items.len() => match node.list_type {
            Some(ListType::Map(_)) if !items.is_empty() => items.iter().all(|item| {
                let below = node.items.zip(old_item(schema, node, old, item));
                below.is_some_and(|(below, old_item)| is_unchanged(schema, below, item, old_item))
            }),
            _ => new == old,
        },
        (Value::Array(_), _) => false,
        (Value::Object(fields), Value::Object(old_fields)) if fields.len() == old_fields.len() => {
            fields.iter().all(|(name, value)| {
                let below = field_node(node, name).zip(old_fields.get(name));
                below.is_some_and(|(below, old_value)| is_unchanged(schema, below, value, old_value))
            })
        }
        (Value::Object(_), _) => false,
        _ => new == old,
    }
}

/// The old state of an item of a list with keys; lists without keys have none.
pub(super) fn old_item<'a>(_schema: &Schema, node: &Node, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let Some(ListType::Map(keys)) = &node.list_type else { return None };
    let has_same_keys = |candidate: &&Value| keys.iter().all(|key| candidate.get(key) == item.get(key));
    let is_object = item.is_object();
    old.as_array().filter(|_| is_object)?.iter().filter(|candidate| candidate.is_object()).find(has_same_keys)
}
