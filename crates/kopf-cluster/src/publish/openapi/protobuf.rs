//! OpenAPI documents in protobuf, for clients that read it faster than JSON.
//!
//! `openapi.rs` calls [`encode`] with a document; `messages.rs` maps its fields. Fields without a message
//! field are dropped.

use serde_json::{Map, Value, json};

use super::messages::{DEFINITIONS, DOCUMENT, FieldEncoding, Keys, Message, REFERENCE};
use crate::codec::yaml_writer::to_node_yaml;

/// A document of OpenAPI v3 as a message.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DOCUMENT, document);
    out
}

/// The definitions of a document of OpenAPI v2. Behind a whole document, they are added to its own.
pub(super) fn encode_definitions(definitions: Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DEFINITIONS, &json!({"definitions": definitions}));
    out
}

fn write_fields(out: &mut Vec<u8>, message: &Message, value: &Value) {
    let Some(fields) = value.as_object() else { return };
    for field in message.0 {
        if let Keys::Name(name) = field.keys {
            if let Some(value) = fields.get(name).filter(|value| !is_zero(&field.encoding, value)) {
                write_field(out, field.number, &field.encoding, value);
            }
            continue;
        }
        for (name, value) in fields.iter().filter(|(name, _)| field.keys.mean(name)) {
            write_bytes(out, field.number, |out| {
                if !name.is_empty() {
                    write_bytes(out, 1, |out| out.extend_from_slice(name.as_bytes()));
                }
                if !is_zero(&field.encoding, value) {
                    write_field(out, 2, &field.encoding, value);
                }
            });
        }
    }
}

impl Keys {
    fn mean(self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::All => true,
            Self::Paths => name.starts_with('/'),
            Self::Codes => name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'X'),
            Self::Extensions => name.starts_with("x-"),
        }
    }
}

/// Whether a value is as good as absent. In lists and choices, it is not.
fn is_zero(encoding: &FieldEncoding, value: &Value) -> bool {
    match encoding {
        FieldEncoding::Text => text_of(value).is_some_and(|text| text.is_empty()),
        FieldEncoding::Flag => value == &Value::Bool(false),
        FieldEncoding::Whole => value.as_i64() == Some(0),
        FieldEncoding::Number => value.as_f64() == Some(0.0),
        _ => false,
    }
}

/// One field of a message, if the value is of the right type.
fn write_field(out: &mut Vec<u8>, number: u32, encoding: &FieldEncoding, value: &Value) {
    match (encoding, value) {
        (FieldEncoding::Text, _) => {
            if let Some(text) = text_of(value) {
                write_bytes(out, number, |out| out.extend_from_slice(text.as_bytes()));
            }
        }
        (FieldEncoding::Flag, Value::Bool(flag)) => write_varint_field(out, number, u64::from(*flag)),
        (FieldEncoding::Whole, Value::Number(whole)) => {
            if let Some(whole) = whole.as_i64() {
                write_varint_field(out, number, whole.cast_unsigned());
            }
        }
        (FieldEncoding::Number, Value::Number(decimal)) => {
            if let Some(decimal) = decimal.as_f64() {
                write_key(out, number, 1);
                out.extend_from_slice(&decimal.to_le_bytes());
            }
        }
        (FieldEncoding::Any, _) => write_bytes(out, number, |out| {
            write_bytes(out, 2, |out| out.extend_from_slice(to_node_yaml(value).as_bytes()));
        }),
        (FieldEncoding::Default, _) => write_bytes(out, number, |out| match value {
            Value::Number(_) => write_field(out, 1, &FieldEncoding::Number, value),
            Value::Bool(_) => write_field(out, 2, &FieldEncoding::Flag, value),
            Value::String(_) => write_field(out, 3, &FieldEncoding::Text, value),
            _ => {}
        }),
        (FieldEncoding::SchemaOrFlag(_), Value::Bool(_)) => {
            write_bytes(out, number, |out| write_field(out, 2, &FieldEncoding::Flag, value));
        }
        (FieldEncoding::SchemaOrFlag(schema) | FieldEncoding::Items(schema), Value::Object(_)) => {
            write_bytes(out, number, |out| write_field(out, 1, schema, value));
        }
        (FieldEncoding::Types, Value::Array(_)) => {
            write_bytes(out, number, |out| write_field(out, 1, &FieldEncoding::Each(&FieldEncoding::Text), value));
        }
        (FieldEncoding::Types, _) => write_bytes(out, number, |out| write_field(out, 1, &FieldEncoding::Text, value)),
        (FieldEncoding::Message(message), Value::Object(_)) => {
            write_bytes(out, number, |out| write_fields(out, message, value));
        }
        (FieldEncoding::OrReference(_), Value::Object(fields)) if fields.contains_key("$ref") => {
            write_bytes(out, number, |out| write_bytes(out, 2, |out| write_fields(out, &REFERENCE, value)));
        }
        (FieldEncoding::OrReference(message), Value::Object(_)) => {
            write_bytes(out, number, |out| write_bytes(out, 1, |out| write_fields(out, message, value)));
        }
        (FieldEncoding::Each(encoding), Value::Array(items)) => {
            for item in items {
                write_field(out, number, encoding, item);
            }
        }
        _ => {}
    }
}

/// What counts as a string: also whole numbers and null.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        Value::Null => Some(String::new()),
        _ => None,
    }
}

/// A field with a length, whose content is written first.
fn write_bytes(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    write(&mut content);
    write_key(out, number, 2);
    write_varint(out, content.len() as u64);
    out.append(&mut content);
}

fn write_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    write_key(out, number, 0);
    write_varint(out, value);
}

fn write_key(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    write_varint(out, u64::from(number << 3 | wire_type));
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::codec::protobuf::{Wire, fields};
    use crate::publish::openapi::messages::SCHEMA;
    use crate::support::capture;

    /// The SHA-256 of what a real server of the captured version answers, by document.
    fn observed() -> BTreeMap<String, String> {
        serde_json::from_str(include_str!("observed.json")).unwrap()
    }

    #[test]
    fn documents_are_those_of_a_real_server_byte_by_byte() {
        let observed = observed();
        assert!(observed.len() > 40, "{:?}", observed.keys());
        for (path, expected) in observed {
            let document = capture::value(&format!("openapi/v3/{path}")).unwrap_or_else(|| panic!("{path} is missing"));
            let digest = ring::digest::digest(&ring::digest::SHA256, &encode(&document));
            let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected, "{path}");
        }
    }

    #[test]
    fn definitions_are_those_of_a_real_server_byte_by_byte() {
        let document = capture::value("openapi/v2").unwrap();
        let ours = encode_definitions(document["definitions"].as_object().cloned().unwrap());
        let theirs = capture::document("openapi/v2.protobuf").unwrap();
        let definitions = |bytes: &[u8]| {
            let found = fields(bytes).map(Result::unwrap).find_map(|field| match field {
                (9, Wire::Bytes(definitions)) => Some(definitions.to_vec()),
                _ => None,
            });
            found.unwrap()
        };
        let (ours, theirs) = (definitions(&ours), definitions(&theirs));
        assert!(ours.len() > 100_000, "{}", ours.len());
        assert!(ours == theirs, "{} and {} bytes", ours.len(), theirs.len());
    }

    /// A message as text: its fields, and those below of which it is known that they are messages.
    fn shown(bytes: &[u8]) -> String {
        let shown = fields(bytes).map(|field| match field.unwrap() {
            (number, Wire::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n') => format!("{number}:{text:?}"),
                _ => format!("{number}:{{{}}}", shown(bytes)),
            },
            (number, Wire::Number(value)) => format!("{number}:{value}"),
            (number, Wire::Float(value)) => format!("{number}:{value}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn schemas_keep_what_is_not_zero() {
        for (schema, expected) in [
            (json!({"type": "string", "nullable": false, "minLength": 0, "description": ""}), r#"25:"string""#),
            (json!({"maximum": 1.5, "minimum": 0, "maxLength": -1}), "11:1.5 15:18446744073709551615"),
            (json!({"default": {"a": 1}}), r#"33:"""#),
            (json!({"default": 0}), "33:{1:0}"),
            (json!({"default": false}), "33:{2:0}"),
            (json!({"default": ""}), "33:{3:\"\"}"),
            (json!({"required": ["a", ""]}), r#"23:"a" 23:"""#),
            (json!({"additionalProperties": false}), "32:{2:0}"),
            (json!({"type": ["string"], "unknown": 1, "pattern": 7}), r#"17:"7""#),
        ] {
            let mut out = Vec::new();
            write_fields(&mut out, &SCHEMA, &schema);
            assert_eq!(shown(&out), expected, "{schema}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        let keys = prop_oneof![
            prop::sample::select(vec![
                "paths",
                "components",
                "schemas",
                "properties",
                "items",
                "enum",
                "allOf",
                "$ref"
            ]),
            prop::sample::select(vec!["/a", "get", "responses", "200", "content", "schema", "default", "x-a", "type"]),
        ];
        leaf.prop_recursive(8, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys.clone(), inner, 0..6)
                    .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_can_be_read(components in values(), paths in values()) {
            let document = json!({"openapi": "3.0.0", "paths": paths, "components": components, "x-all": components});
            let bytes = encode(&document);
            let numbers: Vec<u64> = fields(&bytes).map(|field| field.unwrap().0).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&numbers, &sorted);
            prop_assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&9)));
        }
    }
}
