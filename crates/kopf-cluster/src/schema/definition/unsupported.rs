//! What the API does not support in schemas, and extensions that contradict each other.

use serde_json::{Value, json};

use super::{flag, nested, properties, property_path, text};
use crate::go::crd_text;
use crate::go::field_error::{FieldError, FieldErrorKind, child, index};
use crate::schema::validation_rule::ValidationRule;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The complaints about a schema and all schemas in it.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut checker = DefinitionChecker { errors: Vec::new() };
    checker.visit(schema, path, &ParentContext { is_root: true, ..ParentContext::default() });
    checker.errors
}

/// What the enclosing schemas determine for a schema.
#[derive(Clone, Default)]
struct ParentContext {
    /// The schema is of the whole object.
    is_root: bool,
    /// Why there may be no default here.
    no_defaults: Option<String>,
    /// The path of the enclosing schema below which old and new values cannot be correlated.
    uncorrelatable: Option<String>,
}

struct DefinitionChecker {
    errors: Vec<FieldError>,
}

impl DefinitionChecker {
    fn visit(&mut self, schema: &Value, path: &str, context: &ParentContext) {
        self.forbidden(schema, path, context);
        let below = ParentContext { is_root: false, ..context.clone() };
        if let Some(additional) = schema.get("additionalProperties") {
            let is_open = matches!(additional, Value::Bool(true) | Value::Null);
            if !is_open && !properties(schema).is_empty() {
                self.errors.push(FieldError::forbidden(
                    child(path, "additionalProperties"),
                    "additionalProperties and properties are mutual exclusive",
                ));
            }
            if additional.is_object() {
                self.visit(additional, &child(path, "additionalProperties"), &below);
            }
        }
        for (name, property) in properties(schema) {
            let mut below = below.clone();
            if text(schema, "x-kubernetes-map-type") == "atomic" {
                below.uncorrelatable.get_or_insert_with(|| path.to_owned());
            }
            if context.is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
            self.visit(property, &property_path(path, name), &below);
        }
        for (step, nested) in ["not", "allOf", "oneOf", "anyOf"].iter().flat_map(|name| nested(schema, name)) {
            self.visit(nested, &child(path, &step), &below);
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let mut below = below;
            if text(schema, "x-kubernetes-list-type") != "map" {
                below.uncorrelatable.get_or_insert_with(|| path.to_owned());
            }
            self.visit(items, &child(path, "items"), &below);
        }
        self.extensions(schema, path);
        self.rules(schema, path, context);
    }

    fn forbidden(&mut self, schema: &Value, path: &str, context: &ParentContext) {
        let mut forbid =
            |name: &str, detail: String| self.errors.push(FieldError::forbidden(child(path, name), detail));
        let has = |name: &str| schema.get(name).is_some_and(|value| !value.is_null());
        let has_entries =
            |name: &str| schema.get(name).and_then(Value::as_object).is_some_and(|entries| !entries.is_empty());
        if let (true, Some(reason)) = (has("default"), &context.no_defaults) {
            forbid("default", format!("must not be set {reason}"));
        }
        for (name, is_used) in [
            ("id", !text(schema, "id").is_empty()),
            ("additionalItems", has("additionalItems")),
            ("patternProperties", has_entries("patternProperties")),
            ("definitions", has_entries("definitions")),
            ("dependencies", has("dependencies")),
            ("$ref", has("$ref")),
        ] {
            if is_used {
                forbid(name, format!("{name} is not supported"));
            }
        }
        if text(schema, "type") == "null" {
            forbid("type", "type cannot be set to null, use nullable as an alternative".to_owned());
        }
        if schema.get("items").is_some_and(Value::is_array) {
            forbid("items", "items must be a schema object and not an array".to_owned());
        }
        if flag(schema, "uniqueItems") {
            forbid(
                "uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic".to_owned(),
            );
        }
        let value_type = text(schema, "type");
        if !value_type.is_empty() && !TYPES.contains(&value_type) {
            self.errors.push(FieldError::not_supported(
                child(path, "type"),
                value_type.into(),
                &TYPES.map(str::to_owned),
            ));
        }
    }

    fn extensions(&mut self, schema: &Value, path: &str) {
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let field = child(path, "x-kubernetes-preserve-unknown-fields");
            self.errors.push(FieldError::invalid(field, json!(false), "must be true or undefined"));
        }
        let value_type = text(schema, "type");
        for (name, needed, allowed) in [
            ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
            ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
        ] {
            let Some(chosen) = schema.get(name).and_then(Value::as_str) else { continue };
            let detail = format!("must be {needed} if {name} is specified");
            if value_type.is_empty() {
                self.errors.push(FieldError::required(child(path, "type"), detail));
            } else if value_type != needed {
                self.errors.push(FieldError::invalid(child(path, "type"), value_type.into(), detail));
            }
            if !allowed.contains(&chosen) {
                let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
                self.errors.push(FieldError::not_supported(child(path, name), chosen.into(), &allowed));
            }
        }
        let list_type = text(schema, "x-kubernetes-list-type");
        if value_type == "array" && list_type == "set" {
            self.set_items(schema, path);
        }
        self.map_keys(schema, path, list_type);
    }

    fn set_items(&mut self, schema: &Value, path: &str) {
        let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
        let (name, is_wrong) = match text(items, "type") {
            "array" => ("x-kubernetes-list-type", !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic")),
            "object" => ("x-kubernetes-map-type", text(items, "x-kubernetes-map-type") != "atomic"),
            _ => return,
        };
        if is_wrong {
            // The server shows the list type of the items in both cases.
            let shown = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            self.errors.push(FieldError::invalid(format!("{path}.items.{name}"), shown, detail));
        }
    }

    fn map_keys(&mut self, schema: &Value, path: &str, list_type: &str) {
        let keys_path = child(path, "x-kubernetes-list-map-keys");
        let declared = schema.get("x-kubernetes-list-map-keys").cloned().unwrap_or_default();
        let keys: Vec<&str> = declared.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let items = schema.get("items").filter(|items| items.is_object());
        if !keys.is_empty() && list_type != "map" {
            let field = child(path, "x-kubernetes-list-type");
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.errors.push(match list_type.is_empty() {
                true => FieldError::required(field, detail),
                false => FieldError::invalid(field, list_type.into(), detail),
            });
        }
        if list_type == "map" {
            if keys.is_empty() {
                self.errors
                    .push(FieldError::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
            }
            let Some(items) = items else {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                return self.errors.push(FieldError::required(child(path, "items"), detail));
            };
            self.map_items(items, path, &keys, &declared);
        }
        if let (Some(items), "set" | "map") = (items, list_type)
            && flag(items, "nullable")
        {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
        }
        if let (Some(items), "map") = (items, list_type) {
            let required = items.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            for key in keys {
                let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
                    continue;
                };
                let field = format!("{path}.items.properties[{key}]");
                if !required.iter().any(|name| name == key) && property.get("default").is_none_or(Value::is_null) {
                    let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    self.errors.push(FieldError::required(format!("{field}.default"), detail));
                }
                if flag(property, "nullable") {
                    let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    self.errors.push(FieldError::forbidden(format!("{field}.nullable"), detail));
                }
            }
        }
    }

    fn map_items(&mut self, items: &Value, path: &str, keys: &[&str], declared: &Value) {
        let keys_path = child(path, "x-kubernetes-list-map-keys");
        let items_type = text(items, "type");
        if items_type != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            return self.errors.push(FieldError::invalid(format!("{path}.items.type"), items_type.into(), detail));
        }
        for (position, key) in keys.iter().enumerate() {
            match items.get("properties").and_then(|properties| properties.get(key)) {
                Some(property) if matches!(text(property, "type"), "array" | "object") => {
                    let field = format!("{path}.items.properties[{key}].type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid(field, items_type.into(), detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(&keys_path, declared.clone(), detail));
                }
            }
            if keys[..position].contains(key) {
                self.errors.push(FieldError::invalid(
                    &keys_path,
                    declared.clone(),
                    "must not contain duplicate entries",
                ));
            }
        }
    }

    fn rules(&mut self, schema: &Value, path: &str, context: &ParentContext) {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        for (position, declared) in rules.into_iter().flatten().enumerate() {
            let path = index(&child(path, "x-kubernetes-validations"), position);
            let (rule, message) = (text(declared, "rule"), text(declared, "message"));
            let field = |name: &str| child(&path, name);
            if rule.trim().is_empty() {
                self.errors.push(FieldError::required(field("rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                self.errors.push(FieldError::invalid(
                    field("message"),
                    message.into(),
                    "must be non-empty if specified",
                ));
            } else if message.trim().contains(['\n', '\r']) {
                self.errors.push(FieldError::invalid(field("message"), message.into(), "must not contain line breaks"));
            } else if rule.trim().contains(['\n', '\r']) && message.is_empty() {
                self.errors.push(FieldError::required(
                    field("message"),
                    "message must be specified if rule contains line breaks",
                ));
            }
            if let Some(reason) =
                declared.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason))
            {
                self.errors.push(FieldError::not_supported(
                    field("reason"),
                    reason.into(),
                    &REASONS.map(str::to_owned),
                ));
            }
            let field_path = text(declared, "fieldPath");
            if !field_path.is_empty() && !is_path(schema, field_path) {
                self.errors.push(FieldError::invalid(field("fieldPath"), field_path.into(), "must be a valid path"));
            }
            let Some(compiled) = ValidationRule::parse(declared) else { continue };
            if let Err(reason) = &compiled.program {
                self.errors.push(FieldError::quoting(
                    FieldErrorKind::Invalid,
                    field("rule"),
                    &crd_text::rule(declared),
                    // The lines of the expression are set off a little.
                    &format!("compilation failed: {}", reason.replace("\n|", "\n |")),
                ));
            } else if let (true, Some(place)) = (compiled.uses_old_self, &context.uncorrelatable) {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
                self.errors.push(FieldError::invalid(field("rule"), rule.into(), detail));
            } else if !compiled.uses_old_self && declared.get("optionalOldSelf").is_some_and(Value::is_boolean) {
                let shown = declared.get("optionalOldSelf").cloned().unwrap_or_default();
                self.errors.push(FieldError::invalid(
                    field("optionalOldSelf"),
                    shown,
                    "may not be set if oldSelf is not used in rule",
                ));
            }
        }
    }
}

/// Whether a path such as `.a['b']` leads through the schema.
fn is_path(schema: &Value, path: &str) -> bool {
    let mut place = schema;
    let plain = path.replace("['", ".").replace("']", "");
    let Some(steps) = plain.strip_prefix('.') else { return false };
    for step in steps.split('.') {
        let named = place.get("properties").and_then(|properties| properties.get(step));
        let additional = || {
            place.get("additionalProperties").filter(|values| values.is_object() && place.get("properties").is_none())
        };
        match named.or_else(additional) {
            Some(below) => place = below,
            None => return false,
        }
    }
    true
}
