//! Requests in protobuf, as newer Go clients send them for built-in kinds.
//!
//! `admit/decode.rs` converts them to JSON here. Responses are always JSON, which these clients accept,
//! too. `scripts/capture_protobuf.py` captured the numbers and types of the fields from the Kubernetes
//! sources, and explains the notation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::support::capture;
use crate::support::clock::timestamp;

/// What every message starts with.
const MAGIC: &[u8] = b"k8s\0";

/// The nesting limit for messages.
const DEPTH_LIMIT: usize = 100;

/// Why a body is unreadable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// It is not protobuf.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// It is truncated, or a length is wrong.
    #[error("unexpected EOF")]
    Truncated,
    /// It has an unknown wire type.
    #[error("proto: illegal wireType {0}")]
    WireType(u8),
    /// The capture has no protobuf encoding for the kind.
    #[error("no protobuf encoding is known for {0}")]
    UnknownKind(String),
    /// It exceeds the nesting limit.
    #[error("the message is nested too deeply")]
    TooDeep,
}

/// Converts a message to an object, and returns it with its kind.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        match field? {
            (1, Wire::Bytes(types)) => {
                for field in fields(types) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = text_of(text),
                        (2, Wire::Bytes(text)) => kind = text_of(text),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    let table = capture::value("protobuf").unwrap_or_default();
    if table.get(&name).is_none() {
        return Err(ProtobufError::UnknownKind(format!("{api_version}, Kind={kind}")));
    }
    let mut object = Map::new();
    object.insert("kind".into(), json!(kind));
    object.insert("apiVersion".into(), json!(api_version));
    object.extend(Decoder { table: &table }.message(&name, raw, 0)?);
    Ok(Value::Object(object))
}

/// `core/v1.Pod` for `v1` and `Pod`.
pub(crate) fn message_name(api_version: &str, kind: &str) -> String {
    if matches!(kind, "DeleteOptions" | "Status") {
        return format!("meta.{kind}");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    format!("{}/{version}.{kind}", group.split('.').next().unwrap_or_default())
}

struct Decoder<'a> {
    /// All messages, by their names.
    table: &'a Value,
}

/// What the captured table says about a field.
struct FieldType<'a> {
    name: &'a str,
    /// Whether an absent value differs from an empty one.
    pointer: bool,
    inline: bool,
    omit_empty: bool,
    kind: &'a str,
}

impl Decoder<'_> {
    fn message(&self, name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
        if depth > DEPTH_LIMIT {
            return Err(ProtobufError::TooDeep);
        }
        let mut object = Map::new();
        for field in fields(bytes) {
            let (number, wire) = field?;
            let Some(field) = self.field(name, number) else { continue };
            if field.inline {
                if let (Wire::Bytes(bytes), Some(inner)) = (&wire, field.kind.strip_prefix('@')) {
                    object.extend(self.message(inner, bytes, depth + 1)?);
                }
                continue;
            }
            match field.kind.as_bytes() {
                [b'[', ..] => {
                    let item = self.value(&field.kind[1..], &wire, depth)?;
                    if let Value::Array(items) = object.entry(field.name).or_insert_with(|| json!([])) {
                        items.push(item);
                    }
                }
                [b'{', ..] => {
                    if let (Wire::Bytes(entry), Value::Object(entries)) =
                        (&wire, object.entry(field.name).or_insert_with(|| json!({})))
                    {
                        let (key, value) = self.entry(&field.kind[1..], entry, depth)?;
                        entries.insert(key, value);
                    }
                }
                _ => {
                    let value = self.value(field.kind, &wire, depth)?;
                    // Go writes all fields that are not pointers, whether set or not.
                    if field.pointer || !(is_empty(&value) && (field.omit_empty || !value.is_string())) {
                        object.insert(field.name.to_owned(), value);
                    }
                }
            }
        }
        Ok(object)
    }

    fn field(&self, message: &str, number: u64) -> Option<FieldType<'_>> {
        let fields = self.table.get(message)?.as_array()?;
        let field = fields.iter().find(|field| field[0] == number)?;
        let flags = field[2].as_str()?;
        Some(FieldType {
            name: field[1].as_str()?,
            pointer: flags.contains('p'),
            inline: flags.contains('i'),
            omit_empty: flags.contains('o'),
            kind: field[3].as_str()?,
        })
    }

    fn entry(&self, kind: &str, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), self.value(kind, &Wire::Bytes(&[]), depth)?);
        for field in fields(bytes) {
            match field? {
                (1, Wire::Bytes(text)) => key = text_of(text),
                (2, wire) => value = self.value(kind, &wire, depth)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&self, kind: &str, wire: &Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
        Ok(match (kind, wire) {
            ("b", Wire::Number(number)) => json!(*number != 0),
            ("i", Wire::Number(number)) => json!(*number as i64),
            ("d", Wire::Float(float)) => json!(float),
            ("s", Wire::Bytes(bytes)) => json!(text_of(bytes)),
            ("B", Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
            ("T", Wire::Bytes(bytes)) => time(bytes, false)?,
            ("U", Wire::Bytes(bytes)) => time(bytes, true)?,
            ("Q", Wire::Bytes(bytes)) => json!(first_text(bytes)?),
            ("I", Wire::Bytes(bytes)) => int_or_string(bytes)?,
            ("R", Wire::Bytes(bytes)) => raw_json(bytes)?,
            ("V", Wire::Bytes(bytes)) => {
                let mut items = Vec::new();
                for field in fields(bytes) {
                    if let (1, Wire::Bytes(text)) = field? {
                        items.push(json!(text_of(text)));
                    }
                }
                Value::Array(items)
            }
            (message, Wire::Bytes(bytes)) if message.starts_with('@') => {
                let object = self.message(&message[1..], bytes, depth + 1)?;
                union(&message[1..], object)
            }
            _ => Value::Null,
        })
    }
}

/// Three types in the schemas of CRDs have alternative JSON types.
fn union(name: &str, mut object: Map<String, Value>) -> Value {
    let other = match name {
        "apiextensions/v1.JSONSchemaPropsOrBool" => object.shift_remove("allows").unwrap_or(Value::Bool(false)),
        "apiextensions/v1.JSONSchemaPropsOrArray" => object.shift_remove("jSONSchemas").unwrap_or_default(),
        "apiextensions/v1.JSONSchemaPropsOrStringArray" => object.shift_remove("property").unwrap_or_default(),
        _ => return Value::Object(object),
    };
    object.shift_remove("schema").unwrap_or(other)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// An unset time is null.
fn time(bytes: &[u8], with_microseconds: bool) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, Wire::Number(number)) => seconds = number as i64,
            (2, Wire::Number(number)) => nanoseconds = number as i32,
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(match (bytes.is_empty(), with_microseconds) {
        (true, _) => Value::Null,
        (false, false) => json!(timestamp(time)),
        (false, true) => json!(format!("{time:.6}")),
    })
}

fn first_text(bytes: &[u8]) -> Result<String, ProtobufError> {
    for field in fields(bytes) {
        if let (1, Wire::Bytes(text)) = field? {
            return Ok(text_of(text));
        }
    }
    Ok(String::new())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes) {
        match field? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value as i32,
            (3, Wire::Bytes(value)) => text = text_of(value),
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in fields(bytes) {
        if let (1, Wire::Bytes(raw)) = field? {
            return Ok(serde_json::from_slice(raw).unwrap_or_default());
        }
    }
    Ok(Value::Null)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A value on the wire.
pub(crate) enum Wire<'a> {
    Number(u64),
    Float(f64),
    Bytes(&'a [u8]),
}

/// The fields of a message, one after another.
pub(crate) struct WireFields<'a> {
    rest: &'a [u8],
}

/// Reads the fields of a message, which are not nested by themselves.
pub(crate) fn fields(bytes: &[u8]) -> WireFields<'_> {
    WireFields { rest: bytes }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u64, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> WireFields<'a> {
    fn read(&mut self) -> Result<(u64, Wire<'a>), ProtobufError> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Wire::Float(bytes.try_into().map(f64::from_le_bytes).unwrap_or_default())
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Wire::Float(f64::from(bytes.try_into().map(f32::from_le_bytes).unwrap_or_default()))
            }
            other => return Err(ProtobufError::WireType(other as u8)),
        };
        Ok((key >> 3, wire))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Truncated)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes, as a client writes it.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &types), bytes(2, raw)].concat()
    }

    #[test]
    fn messages_become_objects() {
        let metadata = [bytes(1, b"x"), bytes(2, b""), number(7, 0), bytes(8, b"")].concat();
        let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
        let map = [bytes(1, &metadata), bytes(2, &entry)].concat();
        assert_eq!(
            decode(&envelope("v1", "ConfigMap", &map)),
            Ok(json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {"k": "v"}}))
        );
        let container = [bytes(1, b"c"), bytes(2, b"nginx")].concat();
        let volume = [bytes(1, b"v"), bytes(2, &bytes(2, b""))].concat();
        let pod = [bytes(1, &volume), bytes(2, &container)].concat();
        let template = bytes(2, &pod);
        let spec = [number(1, 0), bytes(3, &template), number(5, 0)].concat();
        assert_eq!(
            decode(&envelope("apps/v1", "Deployment", &bytes(2, &spec))).map(|object| object["spec"].clone()),
            Ok(json!({"replicas": 0, "template": {"spec": {
                "volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "c", "image": "nginx"}]}}}))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for (body, expected) in [
            (b"{}".to_vec(), ProtobufError::NoMagic),
            (b"k8s\0\x0a\x7f".to_vec(), ProtobufError::Truncated),
            (b"k8s\0\x0b".to_vec(), ProtobufError::WireType(3)),
            (envelope("v1", "Nope", b""), ProtobufError::UnknownKind("v1, Kind=Nope".into())),
        ] {
            assert_eq!(decode(&body), Err(expected), "{body:?}");
        }
    }
}
