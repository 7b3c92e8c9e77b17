//! Whether a value can be decoded as a built-in kind, and the server's error if not.
//!
//! Built-in kinds are structures of the server's language: before anything is validated, a value
//! of a wrong type fails to decode, with a text that names the structure and the field. Schemas
//! know the structures, but not the aliases of texts: errors name those as plain strings.

use serde_json::{Map, Value};

use super::Schema;
use super::node::{Additional, Node, NodeId, ValueType};
use crate::go::text::{number, quote};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// Why a value cannot be decoded; the first reason in the order of the document.
pub(super) fn decoding_error(schema: &Schema, value: &Value) -> Option<String> {
    let field_at = DecodedField { structure: String::new(), path: String::new() };
    decode(schema, schema.root_id(), value, &field_at).err()
}

/// Where a value is, in the words of the decoder: lists and mappings do not count.
struct DecodedField {
    /// The structure that the field belongs to; empty for the whole object.
    structure: String,
    /// The names of the fields from the top.
    path: String,
}

fn decode(schema: &Schema, id: NodeId, value: &Value, field_at: &DecodedField) -> Result<(), String> {
    let node = schema.node(id);
    if value.is_null() || (node.preserve_unknown_fields && node.properties.is_empty()) {
        return Ok(());
    }
    if node.definition.as_deref() == Some(QUANTITY) {
        return decode_quantity(value);
    }
    if node.int_or_string {
        return match value {
            Value::String(_) => Ok(()),
            Value::Number(number) if number.as_i64().is_some_and(|integer| i32::try_from(integer).is_ok()) => Ok(()),
            _ => Err(mismatch(value, "int32", field_at)),
        };
    }
    match (node.value_type, value) {
        (Some(ValueType::Object), Value::Object(fields)) => decode_fields(schema, node, fields, field_at),
        (Some(ValueType::Array), Value::Array(items)) => match node.items {
            Some(below) => items.iter().try_for_each(|item| decode(schema, below, item, field_at)),
            None => Ok(()),
        },
        (Some(ValueType::String), Value::String(text)) => decode_text(node, text),
        (Some(ValueType::Boolean), Value::Bool(_)) | (Some(ValueType::Number), Value::Number(_)) | (None, _) => Ok(()),
        (Some(ValueType::Integer), Value::Number(number)) => {
            let is_small = node.format.as_deref() == Some("int32");
            let fits = number.as_i64().is_some_and(|integer| !is_small || i32::try_from(integer).is_ok());
            if fits { Ok(()) } else { Err(mismatch(value, &go_type(schema, id), field_at)) }
        }
        (Some(_), _) => Err(mismatch(value, &go_type(schema, id), field_at)),
    }
}

fn decode_fields(
    schema: &Schema,
    node: &Node,
    fields: &Map<String, Value>,
    field_at: &DecodedField,
) -> Result<(), String> {
    for (name, field) in fields {
        if let Some(property) = node.properties.get(name) {
            let structure = structure_of(node);
            let steps = [field_at.path.as_str(), inlined_structure(structure, name), name];
            let path: Vec<&str> = steps.into_iter().filter(|step| !step.is_empty()).collect();
            decode(schema, *property, field, &DecodedField { structure: structure.to_owned(), path: path.join(".") })?;
        } else if let Additional::Values(values) = node.additional {
            decode(schema, values, field, field_at)?;
        }
    }
    Ok(())
}

fn decode_quantity(value: &Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value),
        _ => "?".to_owned(),
    };
    let digits = text
        .trim_start_matches(['+', '-'])
        .trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let has_digits = digits.len() < text.trim_start_matches(['+', '-']).len();
    let is_suffix = matches!(
        digits,
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    );
    let is_exponent = digits.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.parse::<i32>().is_ok());
    match has_digits && (is_suffix || is_exponent) {
        true => Ok(()),
        false => {
            Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned())
        }
    }
}

fn decode_text(node: &Node, text: &str) -> Result<(), String> {
    match node.format.as_deref() {
        Some("date-time") if !text.is_empty() && !super::formats::matches("date-time", text) => {
            Err(format!("parsing time {0} as \"2006-01-02T15:04:05Z07:00\": cannot parse {0} as \"2006\"", quote(text)))
        }
        Some("byte") => match first_bad_base64(text) {
            Some(position) => Err(format!("illegal base64 data at input byte {position}")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Where a text stops being base64, if it does.
pub(crate) fn first_bad_base64(text: &str) -> Option<usize> {
    let body = text.trim_end_matches('=');
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    // Missing padding is reported at the start of the last group.
    let bad_length = || (!text.len().is_multiple_of(4) || text.len() - body.len() > 2).then_some(text.len() / 4 * 4);
    body.bytes().position(|byte| !is_letter(byte)).or_else(bad_length)
}

fn mismatch(value: &Value, expected: &str, field_at: &DecodedField) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(value) if expected.starts_with("int") => format!("number {}", number(value)),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    match field_at.path.is_empty() {
        true => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
        false => format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {expected}",
            field_at.structure, field_at.path
        ),
    }
}

/// The type of a node in the server's language.
fn go_type(schema: &Schema, id: NodeId) -> String {
    let node = schema.node(id);
    match (node.value_type, node.additional, node.items) {
        (Some(ValueType::Object), Additional::Values(values), _) => format!("map[string]{}", go_type(schema, values)),
        (Some(ValueType::Array), _, Some(items)) => format!("[]{}", go_type(schema, items)),
        (Some(ValueType::Integer), ..) => node.format.as_deref().unwrap_or("int64").to_owned(),
        (Some(ValueType::Number), ..) => "float64".to_owned(),
        (Some(ValueType::Boolean), ..) => "bool".to_owned(),
        (Some(ValueType::String), ..) if node.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        (Some(ValueType::String), ..) => "string".to_owned(),
        _ => {
            let mut words = node.definition.as_deref().unwrap_or_default().rsplit('.');
            let (name, package) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            format!("{package}.{name}")
        }
    }
}

/// The structure inside of another that a field really belongs to. The decoder names it, though
/// there is nothing of it in the document.
fn inlined_structure(structure: &str, field: &str) -> &'static str {
    match (structure, field) {
        ("Volume", field) if field != "name" => "VolumeSource",
        ("Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => "ProbeHandler",
        ("EphemeralContainer", field) if field != "targetContainerName" => "EphemeralContainerCommon",
        (
            "ConfigMapKeySelector"
            | "SecretKeySelector"
            | "ConfigMapEnvSource"
            | "SecretEnvSource"
            | "ConfigMapProjection"
            | "SecretProjection"
            | "ConfigMapVolumeSource",
            "name",
        ) => "LocalObjectReference",
        _ => "",
    }
}

fn structure_of(node: &Node) -> &str {
    node.definition.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default()
}
