//! Checking a value and everything below it against the nodes of a schema.

use serde_json::{Map, Value};

use super::outcome::Outcome;
use super::{scalars, unchanged};
use crate::go::field_error::{FieldError, FieldErrorKind};
use crate::go::text as go_text;
use crate::schema::Schema;
use crate::schema::defaulting::field_node;
use crate::schema::node::{Additional, Checks, Node, NodeId, ValueType};

/// All complaints about a value; `prefix` is where it is in the object as clients see it.
pub(super) fn check(schema: &Schema, id: NodeId, new: &Value, old: Option<&Value>, prefix: &str) -> Vec<FieldError> {
    let validator = Validator { schema, prefix };
    validator.changed(id, new, old, "").errors
}

/// One validator through an object.
pub(super) struct Validator<'a> {
    schema: &'a Schema,
    /// A prefix for the paths of errors, but not for their texts.
    prefix: &'a str,
}

impl Validator<'_> {
    /// Checks a value that has an old state: complaints are dropped if it is still the same.
    fn changed(&self, id: NodeId, new: &Value, old: Option<&Value>, path: &str) -> Outcome {
        let mut outcome = self.value(id, new, old, path);
        if !outcome.is_valid() && old.is_some_and(|old| unchanged::is_unchanged(self.schema, id, new, old)) {
            outcome.errors.clear();
        }
        outcome
    }

    /// Checks a value against a node.
    fn value(&self, id: NodeId, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
        let node = self.schema.node(id);
        let checks = node.checks.as_deref();
        let mut outcome = Outcome::default();
        if value.is_null() {
            outcome.merge(self.value_type(node, value, path));
            self.allowed(checks, value, path, &mut outcome);
            return outcome;
        }
        if node.value_type.is_some() || node.int_or_string || checks.is_some_and(|checks| checks.format.is_some()) {
            outcome.merge(self.value_type(node, value, path));
            outcome.matches += 1;
        }
        if let Some(checks) = checks {
            outcome.merge(self.alternatives(checks, value, path));
        }
        outcome.matches += if checks.is_some() { 1 } else { 2 };
        match value {
            Value::String(text) => {
                outcome.matches += 1;
                if let Some(checks) = checks {
                    self.string(checks, text, path, &mut outcome);
                }
            }
            Value::Number(number) => {
                outcome.matches += 2;
                for error in scalars::check_number(node, number, path) {
                    outcome.add(self.place(error));
                }
            }
            Value::Array(items) => {
                outcome.matches += 1;
                outcome.merge(self.array(node, items, old, path));
            }
            _ => {}
        }
        self.allowed(checks, value, path, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(fields) = value {
            outcome.merge(self.object(id, fields, old, path));
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn value_type(&self, node: &Node, value: &Value, path: &str) -> Outcome {
        match scalars::check_type(node, value, path) {
            None => Outcome::passed(),
            Some(error) => Outcome::failed(self.place(error)),
        }
    }

    fn allowed(&self, checks: Option<&Checks>, value: &Value, path: &str, outcome: &mut Outcome) {
        if let Some(error) = checks.and_then(|checks| scalars::check_allowed(checks, value, path)) {
            outcome.add(self.place(error));
        }
    }

    fn string(&self, checks: &Checks, text: &str, path: &str, outcome: &mut Outcome) {
        if let Some(error) = scalars::check_string(checks, text, path) {
            outcome.add(self.place(error));
        }
        if let Some(format) = checks.format.as_deref().filter(|format| crate::schema::formats::is_known(format)) {
            outcome.matches += 1;
            if !crate::schema::formats::matches(format, text) {
                let detail = format!("{path} in body must be of type {format}: {}", go_text::quote(text));
                outcome.add(self.place(FieldError::new(FieldErrorKind::TypeInvalid, path, text.into(), detail)));
            }
        }
    }

    fn array(&self, node: &Node, items: &[Value], old: Option<&Value>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(below) = node.items {
            for (position, item) in items.iter().enumerate() {
                let old_item = old.and_then(|old| unchanged::old_item(self.schema, node, old, item));
                outcome.merge(self.changed(below, item, old_item, &format!("{path}[{position}]")));
            }
        }
        if let Some(checks) = node.checks.as_deref() {
            for error in scalars::check_array(checks, items, path) {
                outcome.add(self.place(error));
            }
        }
        outcome.matches += 1;
        outcome
    }

    fn object(&self, id: NodeId, fields: &Map<String, Value>, old: Option<&Value>, path: &str) -> Outcome {
        let node = self.schema.node(id);
        let mut outcome = Outcome::default();
        if let Some(checks) = node.checks.as_deref() {
            for error in scalars::check_object(checks, fields, path) {
                outcome.add(self.place(error));
            }
        }
        let is_root = path.is_empty();
        let old_field = |name: &str| {
            let is_meta = is_root && matches!(name, "kind" | "apiVersion");
            old.and_then(|old| old.get(name)).filter(|_| !is_meta && field_node(node, name).is_some())
        };
        match node.additional {
            Additional::Nothing => {
                for name in sorted(fields).filter(|name| !node.properties.contains_key(*name)) {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(self.place(FieldError::invalid(path, name.into(), detail)));
                }
            }
            Additional::Values(values) => {
                for name in sorted(fields).filter(|name| !node.properties.contains_key(*name)) {
                    let value = fields.get(name).unwrap_or(&Value::Null);
                    outcome.merge(self.changed(values, value, old_field(name), &format!("{path}.{name}")));
                }
            }
            Additional::Unspecified | Additional::Anything => {}
        }
        for (name, property) in &node.properties {
            if let Some(value) = fields.get(name) {
                let below = if is_root { name.clone() } else { format!("{path}.{name}") };
                outcome.merge(self.changed(*property, value, old_field(name), &below));
            }
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
            outcome.add(self.place(FieldError::required(format!("{path}.{name}"), "")));
        }
        outcome
    }

    /// The alternatives and combinations: `anyOf`, `oneOf`, `allOf` and `not`. What was wrong
    /// before is not tolerated inside of them.
    fn alternatives(&self, checks: &Checks, value: &Value, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let quoted = go_text::quote(path);
        if !checks.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for id in &checks.any_of {
                let tried = self.value(*id, value, None, path);
                let is_valid = tried.is_valid();
                if is_valid || best.as_ref().is_none_or(|best| tried.matches > best.matches) {
                    best = Some(tried);
                }
                if is_valid {
                    break;
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                outcome.add(self.general(format!("{quoted} must validate at least one schema (anyOf)")));
            }
            outcome.merge(best.unwrap_or_default());
        }
        if !checks.one_of.is_empty() {
            self.exactly_one(checks, value, path, &mut outcome);
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for id in &checks.all_of {
                let tried = self.value(*id, value, None, path);
                valid += usize::from(tried.is_valid());
                outcome.merge(tried);
            }
            if valid != checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.general(format!("{quoted} must validate all the schemas (allOf){none}")));
            }
        }
        if checks.not.is_some_and(|id| self.value(id, value, None, path).is_valid()) {
            outcome.add(self.general(format!("{quoted} must not validate the schema (not)")));
        }
        outcome.matches += 1;
        outcome
    }

    fn exactly_one(&self, checks: &Checks, value: &Value, path: &str, outcome: &mut Outcome) {
        let mut valid = 0;
        let mut first_valid: Option<Outcome> = None;
        let mut best_failure: Option<Outcome> = None;
        for id in &checks.one_of {
            let tried = self.value(*id, value, None, path);
            if tried.is_valid() {
                valid += 1;
                first_valid.get_or_insert(tried);
            } else if valid == 0 && best_failure.as_ref().is_none_or(|best| tried.matches > best.matches) {
                best_failure = Some(tried);
            }
        }
        let quoted = go_text::quote(path);
        match valid {
            1 => outcome.merge(first_valid.unwrap_or_default()),
            0 => {
                outcome.add(
                    self.general(format!("{quoted} must validate one and only one schema (oneOf). Found none valid")),
                );
                outcome.merge(best_failure.unwrap_or_default());
            }
            many => outcome.add(self.general(format!(
                "{quoted} must validate one and only one schema (oneOf). Found {many} valid alternatives"
            ))),
        }
    }

    /// A complaint that belongs to no field: its text names the place.
    fn general(&self, detail: String) -> FieldError {
        FieldError::invalid(self.prefix, "".into(), detail)
    }

    /// Moves a complaint to where its field is in the whole object.
    fn place(&self, mut error: FieldError) -> FieldError {
        let name = error.field.strip_prefix('.').unwrap_or(&error.field);
        let is_whole = name.is_empty() || name == "<nil>";
        error.field = match (self.prefix.is_empty(), is_whole) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => name.to_owned(),
            (false, true) => self.prefix.to_owned(),
            (false, false) => format!("{}.{name}", self.prefix),
        };
        error
    }
}

fn sorted(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.into_iter()
}

/// The types of a node by name, as messages list them.
pub(super) fn type_names(node: &Node) -> Option<&'static str> {
    match (node.int_or_string, node.value_type) {
        (true, _) => Some("integer,string"),
        (false, value_type) => value_type.map(ValueType::name),
    }
}
