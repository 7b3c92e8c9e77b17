//! Removing what the schema does not know, and naming it for strict field validation.
//!
//! The server keeps only what the schema describes. The same code finds the paths of unknown fields, for
//! clients that ask for warnings or strict validation.

use serde_json::Value;

use super::Schema;
use super::node::{Additional, NodeId};

/// The fields that every object has, whether or not its schema mentions them.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the unknown fields of an object and returns their paths, as [`unknown_fields`] does.
pub(super) fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let found: Vec<Vec<OwnedStep>> = find(schema, value, true);
    for path in &found {
        remove(value, path);
    }
    texts(schema, &found)
}

/// The paths of the unknown fields, in the order of the server: as they come in built-in kinds;
/// sorted in custom resources, after those of the metadata.
pub(super) fn unknown_fields(schema: &Schema, value: &Value) -> Vec<String> {
    texts(schema, &find(schema, value, true))
}

/// The paths of the unknown fields of a value that is not a whole object.
pub(super) fn unknown_parts(schema: &Schema, value: &Value) -> Vec<String> {
    texts(schema, &find(schema, value, false))
}

/// A step of a path.
#[derive(Clone, Debug)]
enum OwnedStep {
    Field(String),
    Item(usize),
}

fn find(schema: &Schema, value: &Value, is_object: bool) -> Vec<Vec<OwnedStep>> {
    let mut finder = UnknownFieldFinder { schema, path: Vec::new(), unknown: Vec::new() };
    let permission = Permission { is_object, keeps: false };
    finder.visit(value, Some(schema.root_id()), permission);
    finder.unknown
}

struct UnknownFieldFinder<'a> {
    schema: &'a Schema,
    /// Where the finder is now.
    path: Vec<PathStep<'a>>,
    /// The unknown fields so far.
    unknown: Vec<Vec<OwnedStep>>,
}

/// A step of the finder itself; names are borrowed, since most of them are known.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'a str),
    Item(usize),
}

/// What a value may contain beyond its schema.
#[derive(Clone, Copy)]
struct Permission {
    /// The value is a whole object, with metadata, even if its schema does not describe it.
    is_object: bool,
    /// The value is an item of a list that keeps unknown fields.
    keeps: bool,
}

impl<'a> UnknownFieldFinder<'a> {
    /// `known` is None where the schema does not describe the value.
    fn visit(&mut self, value: &'a Value, known: Option<NodeId>, permission: Permission) {
        let node = known.map(|id| self.schema.node(id));
        let keeps = permission.keeps || node.is_some_and(|node| node.preserve_unknown_fields);
        match value {
            Value::Object(fields) => {
                let is_object = permission.is_object || node.is_some_and(|node| node.embedded_resource);
                for (name, field) in fields {
                    let mut property = node.and_then(|node| node.properties.get(name).copied());
                    if is_object && META_FIELDS.contains(&name.as_str()) {
                        // The metadata has a separate schema; a custom one can only restrict it.
                        let is_built_in = node.is_some_and(|node| node.definition.is_some());
                        property = if is_built_in { property } else { self.schema.metadata_id() };
                        if name != "metadata" || property.is_none() {
                            continue;
                        }
                    }
                    let additional = || node.and_then(|node| below_additional(node.additional));
                    self.path.push(PathStep::Field(name));
                    match property.map(Some).or_else(additional) {
                        Some(below) => self.visit(field, below, Permission { is_object: false, keeps: false }),
                        None if keeps => {}
                        None => self.unknown.push(self.path.iter().map(|place| place.to_step()).collect()),
                    }
                    self.path.pop();
                }
            }
            Value::Array(items) => {
                let below = node.and_then(|node| node.items);
                if below.is_none() && keeps {
                    return;
                }
                for (position, item) in items.iter().enumerate() {
                    self.path.push(PathStep::Item(position));
                    self.visit(item, below, Permission { is_object: false, keeps });
                    self.path.pop();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

impl PathStep<'_> {
    fn to_step(self) -> OwnedStep {
        match self {
            Self::Field(name) => OwnedStep::Field(name.to_owned()),
            Self::Item(position) => OwnedStep::Item(position),
        }
    }
}

/// What the schema says about a field that is not among the properties: nothing at all, or that
/// it exists, with or without a schema.
fn below_additional(additional: Additional) -> Option<Option<NodeId>> {
    match additional {
        Additional::Unspecified | Additional::Nothing => None,
        Additional::Anything => Some(None),
        Additional::Values(id) => Some(Some(id)),
    }
}

fn remove(value: &mut Value, path: &[OwnedStep]) {
    match (value, path) {
        (Value::Object(fields), [OwnedStep::Field(name)]) => drop(fields.shift_remove(name)),
        (Value::Object(fields), [OwnedStep::Field(name), rest @ ..]) => {
            if let Some(field) = fields.get_mut(name) {
                remove(field, rest);
            }
        }
        (Value::Array(items), [OwnedStep::Item(position), rest @ ..]) => {
            if let Some(item) = items.get_mut(*position) {
                remove(item, rest);
            }
        }
        _ => {}
    }
}

fn texts(schema: &Schema, found: &[Vec<OwnedStep>]) -> Vec<String> {
    let mut texts: Vec<String> = found.iter().map(|path| text(path)).collect();
    if schema.node(schema.root_id()).definition.is_none() {
        texts.sort_by_cached_key(|path| match path.starts_with("metadata.") {
            true => (false, String::new()),
            false => (true, path.clone()),
        });
    }
    texts
}

fn text(path: &[OwnedStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            OwnedStep::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            OwnedStep::Item(position) => text.push_str(&format!("[{position}]")),
        }
    }
    text
}
