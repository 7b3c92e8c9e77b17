//! Values in the words of the API: quoting, numbers and JSON as the server prints them.
//!
//! Error messages quote the offending value. The server prints it by its own rules (`%q`, `%v`
//! and a JSON with sorted keys), and clients compare the whole message, so these rules are
//! kept here, once, for all messages of the schema and of the patches.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A string in double quotes, with control characters escaped (`%q`).
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            hidden if is_unprintable(hidden) => {
                let code = hidden as u32;
                let _ = if code > 0xffff { write!(quoted, "\\U{code:08x}") } else { write!(quoted, "\\u{code:04x}") };
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// Characters beyond ASCII that take no ink: they are shown by their code.
fn is_unprintable(character: char) -> bool {
    matches!(character as u32,
        0x80..=0xa0 | 0xad | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x3000
        | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xfffe | 0xffff | 0xe0000..=0x10ffff)
}

/// A number as in messages (`%v`): the shortest text, with an exponent when it is long.
pub(crate) fn number(value: &Number) -> String {
    match value.as_i64() {
        Some(integer) => integer.to_string(),
        None => float(value.as_f64().unwrap_or_default(), -5, 21),
    }
}

/// A float as in messages (`%v`).
pub(crate) fn float_in_message(value: f64) -> String {
    float(value, -5, 21)
}

/// A float in plain digits, however long it gets.
pub(crate) fn float_in_digits(value: f64) -> String {
    float(value, i32::MIN, i32::MAX)
}

/// The shortest digits of a float; with an exponent beyond the two limits.
fn float(value: f64, small: i32, large: i32) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent > small && exponent < large {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A value as in messages (`%v`): bare strings, `[a b]` for lists and `map[a:1 b:2]` for objects.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut entries: Vec<(&String, &Value)> = fields.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            let texts: Vec<String> = entries.iter().map(|(name, field)| format!("{name}:{}", plain(field))).collect();
            format!("map[{}]", texts.join(" "))
        }
    }
}

/// Turns whole floats into integers, as it happens when the server encodes them: `1.0` is stored
/// as `1`. The front does this to custom resources after validation.
#[cfg(test)]
pub(crate) fn encode_whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15)
            {
                *value = Value::from(integer as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(encode_whole_floats),
        Value::Object(fields) => fields.values_mut().for_each(encode_whole_floats),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A value as the server's JSON encoder prints it: keys sorted, `<`, `>` and `&` escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&json_number(number)),
        Value::String(string) => write_json_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            text.push('{');
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json_string(name, text);
                text.push(':');
                write_json(fields.get(name).unwrap_or(&Value::Null), text);
            }
            text.push('}');
        }
    }
}

fn json_number(number: &Number) -> String {
    match number.as_i64() {
        Some(integer) => integer.to_string(),
        None => {
            let text = float(number.as_f64().unwrap_or_default(), -7, 21);
            // The encoder shortens e-09 to e-9, and only that sign of it.
            match text.split_once("e-0") {
                Some((digits, exponent)) => format!("{digits}e-{exponent}"),
                None => text,
            }
        }
    }
}

fn write_json_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", character as u32);
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
}

/// The JSON type of a value, as the messages of `encoding/json` name it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_are_quoted_as_the_server_quotes_them() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("line\nbreak\u{1}", r#""line\nbreak\x01""#),
            ("größe ☃", "\"größe ☃\""),
            ("\u{200b}", r#""\u200b""#),
        ] {
            assert_eq!(quote(text), expected);
        }
    }

    #[test]
    fn floats_turn_to_exponents_where_the_server_does() {
        for (value, message, encoded) in [
            (0.5, "0.5", "0.5"),
            (1.0, "1", "1"),
            (1e21, "1e+21", "1e+21"),
            (123456789.0, "123456789", "123456789"),
            (1e20, "100000000000000000000", "100000000000000000000"),
            (0.00001, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-7"),
            (-2.5, "-2.5", "-2.5"),
        ] {
            assert_eq!(float_in_message(value), message);
            assert_eq!(json(&json!(value)), encoded);
        }
    }

    #[test]
    fn json_has_sorted_keys_and_no_markup() {
        assert_eq!(json(&json!({"b": [1, null], "a": "<&>"})), r#"{"a":"\u003c\u0026\u003e","b":[1,null]}"#);
    }
}
