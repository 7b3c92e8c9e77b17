//! The rules in CEL, evaluated on an object and on everything in it.
//!
//! A rule sees its value as `self` and the stored one as `oldSelf`. Complaints about parts that
//! did not change are dropped, unless the rule is about the change itself.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use super::{cel_values, unchanged};
use crate::go::field_error::{self, FieldError, FieldErrorKind};
use crate::schema::Schema;
use crate::schema::node::{Additional, MapType, Node, NodeId, ValueType};
use crate::schema::validation_rule::ValidationRule;

/// Messages longer than this are not taken from expressions.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// All complaints of the rules of a schema.
pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let functions = functions();
    let mut evaluator = RuleEvaluator { schema, functions: &functions, errors: Vec::new() };
    let root = schema.root_id();
    let before = OldState { same_place: old, parent: None };
    evaluator.visit(root, VisitedValue { new, old, before, path: "", is_object: true });
    evaluator.errors
}

/// All that rules may call: the language, its extensions for this API, and the names of types,
/// which are texts here and compare as well.
fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("type", |value: CelValue| Arc::new(type_of(&value).to_owned()));
    for name in ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"] {
        context.add_variable_from_value(name, name.to_owned());
    }
    context
}

fn type_of(value: &CelValue) -> &'static str {
    match value {
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::Bool(_) => "bool",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        _ => "dyn",
    }
}

/// The old state, as far as it can be correlated.
#[derive(Clone, Copy)]
struct OldState<'a> {
    /// The value at the same place, if there is a way to find it.
    same_place: Option<&'a Value>,
    /// The nearest place above where there is one: its node, the new and the old value.
    parent: Option<(NodeId, &'a Value, &'a Value)>,
}

/// A value on the way through an object, with all that is known about it.
#[derive(Clone, Copy)]
struct VisitedValue<'a> {
    new: &'a Value,
    /// The old value that transition rules compare with; None where the server cannot correlate the two.
    old: Option<&'a Value>,
    before: OldState<'a>,
    path: &'a str,
    /// The value is a whole object, with its own metadata.
    is_object: bool,
}

struct RuleEvaluator<'a> {
    schema: &'a Schema,
    functions: &'a Context<'a>,
    errors: Vec<FieldError>,
}

impl RuleEvaluator<'_> {
    fn visit(&mut self, id: NodeId, value: VisitedValue<'_>) {
        let VisitedValue { new, old, before, path, .. } = value;
        if new.is_null() {
            return;
        }
        let schema = self.schema;
        let node = schema.node(id);
        if !node.rules.is_empty() {
            self.rules(id, node, VisitedValue { old: old.filter(|old| !old.is_null()), ..value });
        }
        let parent = before.same_place.map(|old| (id, new, old)).or(before.parent);
        for nested in node.checks.iter().flat_map(|checks| &checks.all_of) {
            let nested_before = OldState { same_place: None, parent: before.parent };
            self.visit(*nested, VisitedValue { before: nested_before, is_object: false, ..value });
        }
        match new {
            Value::Array(items) => {
                let Some(below) = node.items else { return };
                for (position, item) in items.iter().enumerate() {
                    let old_item = old.and_then(|old| unchanged::old_item(schema, node, old, item));
                    let same_place = before.same_place.and_then(|old| unchanged::old_item(schema, node, old, item));
                    let below_path = field_error::index(path, position);
                    let item = VisitedValue {
                        new: item,
                        old: old_item,
                        before: OldState { same_place, parent },
                        path: &below_path,
                        is_object: schema.node(below).embedded_resource,
                    };
                    self.visit(below, item);
                }
            }
            Value::Object(fields) => {
                let is_correlatable = node.map_type != Some(MapType::Atomic);
                for (name, field) in fields {
                    let (below, below_path) = match (node.properties.get(name), node.additional) {
                        (Some(property), _) => (*property, field_error::child(path, name)),
                        (None, Additional::Values(values)) => (values, field_error::key(path, name)),
                        _ => continue,
                    };
                    let old_field = old.filter(|_| is_correlatable).and_then(|old| old.get(name));
                    let same_place = before.same_place.and_then(|old| old.get(name));
                    let field = VisitedValue {
                        new: field,
                        old: old_field,
                        before: OldState { same_place, parent },
                        path: &below_path,
                        is_object: schema.node(below).embedded_resource,
                    };
                    self.visit(below, field);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, id: NodeId, node: &Node, value: VisitedValue<'_>) {
        let VisitedValue { new, old, before, path, is_object } = value;
        let convert = |value: &Value| cel_values::convert(self.schema, self.functions, Some(id), value, is_object);
        let (this, that) = (convert(new), old.map(convert));
        for rule in &node.rules {
            let program = match &rule.program {
                Ok(program) => program,
                Err(reason) => {
                    let detail = format!("rule compile error: {reason}");
                    self.errors.push(FieldError::invalid(path, type_name(node).into(), detail));
                    continue;
                }
            };
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let mut context = self.functions.new_inner_scope();
            context.add_variable_from_value("self", this.clone());
            if rule.optional_old_self {
                let optional = that.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(optional)));
            } else if let Some(that) = &that {
                context.add_variable_from_value("oldSelf", that.clone());
            }
            match crate::values::cel::execute(program, &context) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    let error = self.complaint(rule, node, &context, new, path);
                    if rule.uses_old_self || !self.is_unchanged(id, new, before) {
                        self.errors.push(error);
                    }
                }
                Err(reason) => {
                    self.errors.push(FieldError::invalid(path, type_name(node).into(), failure(&reason, rule)));
                }
            }
        }
    }

    fn complaint(
        &self,
        rule: &ValidationRule,
        node: &Node,
        context: &Context<'_>,
        new: &Value,
        path: &str,
    ) -> FieldError {
        let evaluated =
            rule.message_program.as_ref().and_then(|program| match crate::values::cel::execute(program, context) {
                Ok(CelValue::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            });
        let usable =
            evaluated.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE_BYTES);
        let detail =
            usable.or_else(|| rule.message.clone()).unwrap_or_else(|| format!("failed rule: {}", rule.source.trim()));
        let field = match rule.field_path.as_deref().map(|field| normalised(field, node)) {
            Some(below) => field_error::child(path, &below),
            None => path.to_owned(),
        };
        let is_scalar = !matches!(node.value_type, Some(ValueType::Object | ValueType::Array));
        let detail = if rule.kind == FieldErrorKind::Duplicate { String::new() } else { detail };
        let mut error = FieldError::new(rule.kind, field, new.clone(), detail);
        error.bad_value = error.bad_value.filter(|_| is_scalar);
        error
    }

    fn is_unchanged(&self, id: NodeId, new: &Value, before: OldState<'_>) -> bool {
        match (before.same_place, before.parent) {
            (Some(old), _) => unchanged::is_unchanged(self.schema, id, new, old),
            (None, Some((id, new, old))) => unchanged::is_unchanged(self.schema, id, new, old),
            (None, None) => false,
        }
    }
}

fn type_name(node: &Node) -> &'static str {
    node.value_type.map_or("", ValueType::name)
}

/// Why the evaluation of a rule failed, in the words of the server.
fn failure(reason: &ExecutionError, rule: &ValidationRule) -> String {
    let rule = rule.description();
    let text = match reason {
        ExecutionError::NoSuchOverload => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            );
        }
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    format!("{text} evaluating rule: {rule}")
}

/// Normalizes a path such as `.spec['size']` for errors.
fn normalised(field: &str, node: &Node) -> String {
    let key = |text: &str| if node.properties.contains_key(text) { format!(".{text}") } else { format!("[{text}]") };
    let mut path = String::new();
    for (position, part) in field.split("['").enumerate() {
        match part.split_once("']") {
            Some((name, rest)) if position > 0 => path.push_str(&(key(name) + rest)),
            _ => path.push_str(part),
        }
    }
    path.strip_prefix('.').map(str::to_owned).unwrap_or(path)
}
