//! Values together with their shape: which fields they have, whether they fit, and what is left
//! of them without some fields.

use serde_json::{Map, Value};

use crate::go::go_plain;

use super::field_set::{Branch, FieldSet};
use super::path::PathElement;
use super::shape::{List, Scalar, SchemaPosition, Shape, Sort};

/// Every leaf and every item of a value.
pub(super) fn fields_of(shape: &Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(shape, shape.root(), value, &mut Vec::new(), &mut set);
    set
}

fn collect(
    shape: &Shape<'_>,
    position: SchemaPosition,
    value: &Value,
    path: &mut Vec<PathElement>,
    set: &mut FieldSet,
) {
    let atom = shape.atom(position);
    match (atom.sort_of(Some(value)), value) {
        (Some(Sort::Map), _) if atom.map == Some(true) => set.insert(path),
        (Some(Sort::Map), Value::Object(fields)) => {
            for (name, field) in fields {
                let (below, is_named) = shape.field(position, name);
                path.push(PathElement::Field(name.clone()));
                collect(shape, below, field, path, set);
                let is_hollow = field.is_null() || field.as_object().is_some_and(Map::is_empty);
                if is_hollow || !is_named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Some(Sort::List), _) if atom.list == Some(List::Atomic) => set.insert(path),
        (Some(Sort::List), Value::Array(items)) => {
            let Some(list) = &atom.list else { return };
            let elements: Vec<PathElement> =
                items.iter().filter_map(|item| shape.element(position, list, item).ok()).collect();
            for (item, element) in items.iter().zip(&elements) {
                let is_repeated = elements.iter().filter(|other| *other == element).count() > 1;
                path.push(element.clone());
                if !is_repeated {
                    collect(shape, shape.item(position), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        (Some(Sort::Scalar), _) => set.insert(path),
        _ => {}
    }
}

/// All type errors of a value, in the words of the server.
pub(super) fn misfits(shape: &Shape<'_>, value: &Value, allows_repetitions: bool) -> Vec<String> {
    let mut found = Vec::new();
    check(shape, shape.root(), value, allows_repetitions, "", &mut found);
    found
}

fn check(
    shape: &Shape<'_>,
    position: SchemaPosition,
    value: &Value,
    allows_repetitions: bool,
    path: &str,
    found: &mut Vec<String>,
) {
    let atom = shape.atom(position);
    let complaint = |text: String| if path.is_empty() { text } else { format!("{path}: {text}") };
    match (atom.sort_of(Some(value)), value) {
        (_, Value::Null) => {}
        (Some(Sort::Map), Value::Object(fields)) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            for (name, field) in sorted {
                let below = format!("{path}.{name}");
                match shape.field(position, name).0 {
                    // The rest of an object with an undeclared field is not looked at.
                    SchemaPosition::Forbidden => return found.push(format!("{below}: field not declared in schema")),
                    position => check(shape, position, field, allows_repetitions, &below, found),
                }
            }
        }
        (Some(Sort::Map), other) => found.push(complaint(format!("expected map, got &{{{}}}", go_plain(other)))),
        (Some(Sort::List), Value::Array(items)) => {
            let list = atom.list.unwrap_or(List::Atomic);
            let mut seen = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let element = match list {
                    List::Atomic => PathElement::Index(index as i64),
                    _ => match shape.element(position, &list, item) {
                        Ok(element) => element,
                        Err(reason) => return found.push(complaint(format!("element {index}: {reason}"))),
                    },
                };
                if seen.contains(&element) && !allows_repetitions {
                    found.push(complaint(format!("duplicate entries for key {element}")));
                }
                let below = format!("{path}{element}");
                seen.push(element);
                check(shape, shape.item(position), item, allows_repetitions, &below, found);
            }
        }
        (Some(Sort::List), other) => found.push(complaint(format!("expected list, got &{{{}}}", go_plain(other)))),
        (Some(Sort::Scalar), value) => {
            if let Some(text) = atom.scalar.and_then(|scalar| misfit_of_scalar(scalar, value)) {
                found.push(complaint(text));
            }
        }
        (None, _) => found.push(complaint("schema error: invalid atom: inlined".to_owned())),
    }
}

fn misfit_of_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Numeric, Value::Number(_)) | (Scalar::Text, Value::String(_)) | (Scalar::Boolean, Value::Bool(_)) => {
            None
        }
        (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::Text, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_plain(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", go_plain(other))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as source code of the server's language (`%#v`).
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => crate::go::go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let mut entries: Vec<String> = fields
                .iter()
                .map(|(name, field)| format!("{}:{}", crate::go::go_quote(name), go_syntax(field)))
                .collect();
            entries.sort_unstable();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        other => go_plain(other),
    }
}

/// A value without some of its fields and items.
pub(super) fn without(shape: &Shape<'_>, value: &Value, removed: &FieldSet) -> Value {
    remove(shape, shape.root(), value, removed)
}

fn remove(shape: &Shape<'_>, position: SchemaPosition, value: &Value, removed: &FieldSet) -> Value {
    let atom = shape.atom(position);
    match (atom.sort_of(Some(value)), value) {
        (Some(Sort::Map), Value::Object(fields)) if atom.map == Some(false) => {
            let mut kept = Map::new();
            for (name, field) in fields {
                let rest = match removed.branch(&PathElement::Field(name.clone())) {
                    Some(branch) if branch.is_member => continue,
                    Some(branch) => remove(shape, shape.field(position, name).0, field, &branch.below),
                    None => field.clone(),
                };
                kept.insert(name.clone(), rest);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Some(Sort::List), Value::Array(items)) if atom.list != Some(List::Atomic) => {
            let list = atom.list.unwrap_or(List::Atomic);
            let mut kept = Vec::new();
            for item in items {
                let element = shape.element(position, &list, item).ok();
                kept.push(match element.and_then(|element| removed.branch(&element)) {
                    Some(branch) if branch.is_member => continue,
                    Some(branch) => remove(shape, shape.item(position), item, &branch.below),
                    None => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Some(Sort::Scalar), value) => value.clone(),
        _ => Value::Null,
    }
}

/// The set with the named fields above its members: `a.b` makes `a` a member, if it is a field
/// of a structure and not a key of a mapping.
pub(super) fn with_named_parents(shape: &Shape<'_>, set: &FieldSet) -> FieldSet {
    add_named_parents(shape, shape.root(), set)
}

fn add_named_parents(shape: &Shape<'_>, position: SchemaPosition, set: &FieldSet) -> FieldSet {
    let atom = shape.atom(position);
    FieldSet::of_branches(set.branches().iter().map(|(element, branch)| {
        if branch.below.is_empty() {
            return (element.clone(), branch.clone());
        }
        let (below, is_named) = match element {
            PathElement::Field(name) if atom.map.is_some() => shape.field(position, name),
            PathElement::Key(_) if atom.list.is_some() => (shape.item(position), false),
            _ => (SchemaPosition::Forbidden, false),
        };
        let is_member = branch.is_member || is_named;
        (element.clone(), Branch { is_member, below: add_named_parents(shape, below, &branch.below) })
    }))
}
