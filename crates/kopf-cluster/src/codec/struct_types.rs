//! Type errors in objects of built-in kinds, in the words of the server.
//!
//! A real server decodes built-in kinds into Go structs, and reports the field and the type that did
//! not match. `admit.rs` checks every object here first.

use serde_json::{Map, Value};

use crate::catalog::{Definition, ResourceType, is_quantity, reference};
use crate::go::go_quote;
use crate::go::quantity::{PATTERN_PROBLEM, Quantity};
use crate::schema::{Additional, NodeId, Schema, ValueType};

/// The first type error, if any: `json: cannot unmarshal string into Go struct field …`.
pub(crate) fn type_error(resource: &ResourceType, object: &Value) -> Option<String> {
    if resource.schema().is_some_and(|schema| surely_fits(schema, schema.root_id(), object)) {
        return None;
    }
    type_error_by_definition(resource, object)
}

fn type_error_by_definition(resource: &ResourceType, object: &Value) -> Option<String> {
    let definition = resource.definition()?;
    let known = definition.all()?;
    TypeChecker { known }.fields(&definition.name, known.get(&definition.name)?, None, object)
}

/// Whether all values have the right types, by a quick look at the compiled schema. Only objects that fail this
/// check take the slow path, which finds the message.
fn surely_fits(schema: &Schema, id: NodeId, value: &Value) -> bool {
    let node = schema.node(id);
    if value.is_null() {
        return true;
    }
    if let Some(definition) = node.definition.as_deref().filter(|_| node.properties.is_empty()) {
        let short = definition.rsplit('.').next().unwrap_or_default();
        return match short {
            "Quantity" => matches!(value, Value::String(_) | Value::Number(_)) && Quantity::of(value).is_some(),
            "Time" => time_error(short, value).is_none(),
            "MicroTime" => value.is_string() && time_error(short, value).is_none(),
            other => ANYTHING.contains(&other),
        };
    }
    match (node.value_type, value) {
        (Some(ValueType::Object), Value::Object(fields)) => fields.iter().all(|(name, field)| {
            match (node.properties.get(name), node.additional) {
                (Some(property), _) => surely_fits(schema, *property, field),
                (None, Additional::Values(values)) => surely_fits(schema, values, field),
                // The schema does not constrain it.
                (None, _) => true,
            }
        }),
        (Some(ValueType::Array), Value::Array(items)) => {
            node.items.is_some_and(|below| items.iter().all(|item| surely_fits(schema, below, item)))
        }
        (Some(ValueType::Integer), Value::Number(number)) => {
            let is_small = node.format.as_deref() == Some("int32");
            number.as_i64().is_some_and(|number| !is_small || i32::try_from(number).is_ok())
        }
        (Some(ValueType::String), Value::String(_))
        | (Some(ValueType::Boolean), Value::Bool(_))
        | (Some(ValueType::Number), Value::Number(_)) => true,
        _ => false,
    }
}

/// Types that accept any value.
const ANYTHING: [&str; 7] = [
    "IntOrString",
    "RawExtension",
    "FieldsV1",
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
];

/// The same for a `Scale`, which only occurs as a subresource.
pub(crate) fn scale_type_error(scale: &Value) -> Option<String> {
    const NAME: &str = "io.k8s.api.autoscaling.v1.Scale";
    let document = crate::catalog::definitions("", "v1")?;
    let known = document["components"]["schemas"].as_object()?;
    TypeChecker { known }.fields(NAME, known.get(NAME)?, None, scale)
}

/// The same for the metadata of custom resources.
pub(crate) fn metadata_type_error(object: &Value) -> Option<String> {
    const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let document = crate::catalog::definitions("", "v1")?;
    let known = document["components"]["schemas"].as_object()?;
    TypeChecker { known }.fields(NAME, known.get(NAME)?, None, object.get("metadata")?)
}

/// Writes all quantities of an object in canonical form: `1024Ki` becomes `1Mi`.
pub(crate) fn normalize_quantities(resource: &ResourceType, object: &mut Value) {
    let has_some = resource.definition().is_some_and(Definition::has_quantities);
    if let Some(schema) = resource.schema().filter(|_| has_some) {
        normalize(schema, schema.root_id(), object);
    }
}

fn normalize(schema: &Schema, id: NodeId, value: &mut Value) {
    let node = schema.node(id);
    match value {
        Value::String(_) | Value::Number(_) if node.definition.as_deref().is_some_and(is_quantity) => {
            if let Some(quantity) = Quantity::of(value) {
                *value = Value::String(quantity.to_string());
            }
        }
        Value::Array(items) => {
            if let Some(below) = node.items {
                items.iter_mut().for_each(|item| normalize(schema, below, item));
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if let Some(below) = schema.field(node, name) {
                    normalize(schema, below, field);
                }
            }
        }
        _ => {}
    }
}

struct TypeChecker<'a> {
    /// The definitions of the document.
    known: &'a Map<String, Value>,
}

/// A field of an object, and the struct that it belongs to.
struct TypedField<'a> {
    owner: &'a str,
    /// The enclosing field; None at the top level.
    parent: Option<&'a TypedField<'a>>,
    name: &'a str,
}

impl TypedField<'_> {
    fn path(&self) -> String {
        match self.parent {
            Some(parent) => format!("{}.{}", parent.path(), self.name),
            None => self.name.to_owned(),
        }
    }
}

impl TypeChecker<'_> {
    /// The fields of a struct.
    fn fields(
        &self,
        definition: &str,
        schema: &Value,
        parent: Option<&TypedField<'_>>,
        value: &Value,
    ) -> Option<String> {
        let owner = definition.rsplit('.').next().unwrap_or_default();
        let properties = schema.get("properties")?.as_object()?;
        value
            .as_object()?
            .iter()
            .find_map(|(name, field)| self.value(properties.get(name)?, &TypedField { owner, parent, name }, field))
    }

    fn value(&self, schema: &Value, typed_field: &TypedField<'_>, value: &Value) -> Option<String> {
        if value.is_null() {
            return None;
        }
        if let Some(name) = reference(schema) {
            return self.referred(name, typed_field, value);
        }
        let fits = match (text(schema, "type"), value) {
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => true,
            ("integer", Value::Number(number)) => {
                number.as_i64().is_some_and(|number| text(schema, "format") != "int32" || i32::try_from(number).is_ok())
            }
            ("array", Value::Array(items)) => {
                return items.iter().find_map(|item| self.value(&schema["items"], typed_field, item));
            }
            ("object", Value::Object(entries)) => {
                let values = schema.get("additionalProperties")?;
                return entries.values().find_map(|entry| self.value(values, typed_field, entry));
            }
            ("string" | "boolean" | "number" | "integer" | "array" | "object", _) => false,
            // Any value is valid.
            _ => true,
        };
        (!fits).then(|| message(value, typed_field, &self.go_type(schema)))
    }

    /// A value of a named type.
    fn referred(&self, name: &str, typed_field: &TypedField<'_>, value: &Value) -> Option<String> {
        let schema = self.known.get(name)?;
        let short = name.rsplit('.').next().unwrap_or_default();
        match short {
            "Quantity" => match value {
                Value::String(_) | Value::Number(_) if Quantity::of(value).is_some() => None,
                _ => Some(PATTERN_PROBLEM.to_owned()),
            },
            "MicroTime" if !value.is_string() => Some(message(value, typed_field, "string")),
            "Time" | "MicroTime" => time_error(short, value),
            short if ANYTHING.contains(&short) => None,
            _ if schema.get("properties").is_some() => match value {
                Value::Object(_) => self.fields(name, schema, Some(typed_field), value),
                _ => Some(message(value, typed_field, &go_name(name))),
            },
            _ => self.value(schema, typed_field, value),
        }
    }

    fn go_type(&self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            return match self.known.get(name) {
                Some(known) if known.get("properties").is_none() && text(known, "type") != "object" => {
                    self.go_type(known)
                }
                _ => go_name(name),
            };
        }
        match (text(schema, "type"), text(schema, "format")) {
            ("string", "byte") => "[]uint8".to_owned(),
            ("boolean", _) => "bool".to_owned(),
            ("integer", "") => "int64".to_owned(),
            ("integer", format) => format.to_owned(),
            ("number", _) => "float64".to_owned(),
            ("array", _) => format!("[]{}", self.go_type(&schema["items"])),
            ("object", _) => format!("map[string]{}", self.go_type(&schema["additionalProperties"])),
            (other, _) => other.to_owned(),
        }
    }
}

/// What is wrong with a timestamp, if anything.
pub(crate) fn time_error(kind: &str, value: &Value) -> Option<String> {
    let Value::String(text) = value else {
        return Some(format!("json: cannot unmarshal {} into Go value of type string", json_type(value)));
    };
    let layout = if kind == "Time" { "2006-01-02T15:04:05Z07:00" } else { "2006-01-02T15:04:05.000000Z07:00" };
    let is_time = text.parse::<jiff::Timestamp>().is_ok() && text.contains('T');
    // Go names the part where the text stops matching the layout: nearly always the first one.
    let quoted = go_quote(text);
    (!is_time).then(|| format!("parsing time {quoted} as {}: cannot parse {quoted} as \"2006\"", go_quote(layout)))
}

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
    }
}

/// `io.k8s.api.core.v1.PodSpec` is `v1.PodSpec` in Go.
fn go_name(definition: &str) -> String {
    let mut parts = definition.rsplit('.');
    let name = parts.next().unwrap_or_default();
    format!("{}.{name}", parts.next().unwrap_or_default())
}

/// Top-level string fields with named Go types.
const NAMED_TEXTS: [(&str, &str, &str); 4] = [
    ("EndpointSlice", "addressType", "v1.AddressType"),
    ("Secret", "type", "v1.SecretType"),
    ("StorageClass", "reclaimPolicy", "v1.PersistentVolumeReclaimPolicy"),
    ("StorageClass", "volumeBindingMode", "v1.VolumeBindingMode"),
];

fn message(value: &Value, typed_field: &TypedField<'_>, expected: &str) -> String {
    let path = typed_field.path();
    let named = NAMED_TEXTS.iter().find(|(owner, named, _)| *owner == typed_field.owner && *named == path);
    let expected = named.map_or(expected, |(_, _, name)| name);
    let found = match value {
        Value::Number(number) if matches!(expected, "int32" | "int64") => format!("number {number}"),
        other => json_type(other).to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {expected}", typed_field.owner)
}

pub(crate) fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn type_errors_match_the_server() {
        let catalog = Catalog::built_in();
        for (group, plural, object, expected) in [
            (
                "",
                "configmaps",
                json!({"data": 5}),
                Some("number into Go struct field ConfigMap.data of type map[string]string"),
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"replicas": "x"}}),
                Some("string into Go struct field DeploymentSpec.spec.replicas of type int32"),
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "1%"}}}}),
                None,
            ),
            ("", "pods", json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}}), None),
            (
                "",
                "pods",
                json!({"spec": {"containers": [{"name": 7}]}}),
                Some("number into Go struct field Container.spec.containers.name of type string"),
            ),
            (
                "",
                "services",
                json!({"metadata": {"labels": null}, "spec": []}),
                Some("array into Go struct field Service.spec of type v1.ServiceSpec"),
            ),
            (
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                json!({"spec": {"versions": [
                {"schema": {"openAPIV3Schema": {"properties": {"a": {"items": {}, "default": 7}}}}}]}}),
                None,
            ),
        ] {
            let found = type_error(catalog.get(group, "v1", plural).unwrap(), &object);
            let expected = expected.map(|expected| format!("json: cannot unmarshal {expected}"));
            assert_eq!(found, expected, "{object}");
        }
    }

    #[test]
    fn what_fits_at_a_quick_look_fits() {
        let samples = [
            json!(null),
            json!(true),
            json!(7),
            json!(7_000_000_000_i64),
            json!(7.5),
            json!("x"),
            json!("1Gi"),
            json!("2026-01-31T23:59:59Z"),
            json!([]),
            json!([7]),
            json!(["x"]),
            json!([{"name": "x", "value": 7}]),
            json!({}),
            json!({"a": 7}),
            json!({"a": "x"}),
            json!({"metadata": {"name": "x", "creationTimestamp": "x"}}),
        ];
        let (mut fitting, mut others) = (0, 0);
        for resource in Catalog::built_in().all() {
            let schema = resource.schema().unwrap();
            let mut check = |object: Value| match surely_fits(schema, schema.root_id(), &object) {
                true => {
                    assert_eq!(type_error_by_definition(resource, &object), None, "{} {object}", resource.qualified());
                    fitting += 1;
                }
                false => others += 1,
            };
            for (name, id) in &schema.node(schema.root_id()).properties {
                for value in &samples {
                    check(json!({name: value}));
                    for below in schema.node(*id).properties.keys() {
                        check(json!({name: {below: value}}));
                    }
                }
            }
        }
        assert!(fitting > 1000 && others > 1000, "{fitting} {others}");
    }
}
