//! JSON text as Python's `json.dumps` writes it, byte by byte.
//!
//! The essence and the progress of handlers are stored on objects as text. An operator can be
//! switched between Kopf 1.45 and this one in a live cluster only if both write the same text:
//! ASCII only, lower-case escapes, and floats in Python's notation.
//!
//! Two sorts of numbers cannot be kept as Python keeps them, because a JSON value here has
//! 64 bits: integers beyond the range of `u64` become floats when parsed, and `-0` becomes
//! `-0.0`. Kubernetes itself has only 64-bit integers, so its objects never carry the former.

use std::fmt::Write;

use serde_json::{Number, Value};

/// The same text as `json.dumps(value, separators=(',', ':'))`.
///
/// ```
/// use serde_json::json;
/// assert_eq!(
///     kopf_object::python_json::dumps(&json!({"é": [1, 2.0, 1e16]})),
///     r#"{"\u00e9":[1,2.0,1e+16]}"#,
/// );
/// ```
pub fn dumps(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, &COMPACT);
    text
}

/// The same text as `json.dumps(value)`, i.e. with spaces after commas and colons.
pub fn dumps_spaced(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, &SPACED);
    text
}

/// What stands between the items of lists and objects.
struct Separators {
    /// Between two items.
    item: &'static str,
    /// Between a key and its value.
    key: &'static str,
}

const COMPACT: Separators = Separators { item: ",", key: ":" };

const SPACED: Separators = Separators { item: ", ", key: ": " };

fn write_value(text: &mut String, value: &Value, separators: &Separators) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(separators.item);
                }
                write_value(text, item, separators);
            }
            text.push(']');
        }
        Value::Object(items) => {
            text.push('{');
            for (index, (key, item)) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(separators.item);
                }
                write_string(text, key);
                text.push_str(separators.key);
                write_value(text, item, separators);
            }
            text.push('}');
        }
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    // Most strings need few escapes or none: copy the part before the first escape as a whole.
    let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    let plain = string.bytes().take_while(is_plain).count();
    text.push_str(&string[..plain]);
    for character in string[plain..].chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    push_formatted(text, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    text.push('"');
}

fn write_number(text: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => write_float(text, float),
        _ => push_formatted(text, format_args!("{number}")),
    }
}

/// Python writes the shortest digits that read back the same, as Rust does, but switches to the
/// scientific notation outside of 1e-4 to 1e16, with a sign and two digits in the exponent.
fn write_float(text: &mut String, float: f64) {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            let exponent = exponent.unsigned_abs();
            push_formatted(text, format_args!("{digits}e{sign}{exponent:02}"));
        }
        _ => push_formatted(text, format_args!("{float:?}")),
    }
}

/// Writing to a string never fails, so there is no error to pass on.
fn push_formatted(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}
