//! Answers as YAML, for clients that ask for it: the way in which Go writes it.
//!
//! `http.rs` turns finished JSON answers into it. Keys are sorted, lists are not indented, texts are
//! quoted where they would be taken for something else, and long ones are folded at 80 columns.

use serde_json::{Map, Value};

/// Texts are folded at the first space after this column.
const WIDTH: usize = 80;

/// A value as a YAML document.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => write_fields(&mut text, fields, 0, false),
        Value::Array(items) if !items.is_empty() => write_items(&mut text, items, 0),
        other => {
            write_scalar(&mut text, other, 0);
            text.push('\n');
        }
    }
    text
}

fn write_fields(text: &mut String, fields: &Map<String, Value>, indent: usize, inline_first: bool) {
    let mut keys: Vec<&String> = fields.keys().collect();
    keys.sort_by(|one, other| natural_order(one, other));
    for (position, key) in keys.into_iter().enumerate() {
        if position > 0 || !inline_first {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        write_text(text, key, indent, true);
        text.push(':');
        let Some(value) = fields.get(key) else { continue };
        match value {
            Value::Object(below) if !below.is_empty() => {
                text.push('\n');
                write_fields(text, below, indent + 2, false);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                write_items(text, items, indent);
            }
            scalar => {
                text.push(' ');
                write_scalar(text, scalar, indent);
                text.push('\n');
            }
        }
    }
}

fn write_items(text: &mut String, items: &[Value], indent: usize) {
    for item in items {
        text.extend(std::iter::repeat_n(' ', indent));
        text.push('-');
        text.push(' ');
        match item {
            Value::Object(fields) if !fields.is_empty() => write_fields(text, fields, indent + 2, true),
            Value::Array(below) if !below.is_empty() => {
                let mut inner = String::new();
                write_items(&mut inner, below, indent + 2);
                text.push_str(inner.trim_start());
            }
            scalar => {
                write_scalar(text, scalar, indent);
                text.push('\n');
            }
        }
    }
}

fn write_scalar(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) => write_text(text, string, indent, false),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

fn write_text(text: &mut String, string: &str, indent: usize, is_key: bool) {
    let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
    if string.contains('\n') && !is_key && is_printable(string) {
        return write_literal(text, string, indent);
    }
    match style(string) {
        Style::Plain => text.push_str(&folded(string, column, indent)),
        Style::Single => {
            let quoted = format!("'{}'", string.replace('\'', "''"));
            text.push_str(&folded(&quoted, column, indent));
        }
        Style::Double => text.push_str(&double_quoted(string)),
    }
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// As it is.
    Plain,
    /// In quotes, since it would mean something else without them.
    Single,
    /// In quotes and with escapes, since it has characters that cannot be shown, or would be taken
    /// for another type.
    Double,
}

fn style(string: &str) -> Style {
    if !is_printable(string) || string.contains('\n') || looks_like_another_type(string) {
        return Style::Double;
    }
    let first = string.chars().next();
    let spaces = string.starts_with(' ') || string.ends_with(' ');
    let indicator = first.is_some_and(|first| ",[]{}#&*!|>'\"%@`".contains(first))
        || (first.is_some_and(|first| "-?:".contains(first))
            && string.chars().nth(1).is_none_or(|second| second == ' '));
    let inside = string.contains(": ") || string.contains(" #") || string.ends_with(':');
    match spaces || indicator || inside || string.starts_with("---") || string.starts_with("...") {
        true => Style::Single,
        false => Style::Plain,
    }
}

/// Whether a reader would take the text for null, a flag, a number or a time.
fn looks_like_another_type(string: &str) -> bool {
    const WORDS: [&str; 27] = [
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO",
        "off", "Off", "OFF", "true", "True", "TRUE", "false", "False", "FALSE",
    ];
    const MORE: [&str; 13] =
        [".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", "<<"];
    WORDS.contains(&string) || MORE.contains(&string) || looks_like_number(string) || looks_like_time(string)
}

fn looks_like_number(string: &str) -> bool {
    let plain = string.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return false;
    }
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(digits) = unsigned.strip_prefix(prefix) {
            return !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        }
    }
    let sexagesimal = unsigned.contains(':')
        && unsigned.split(':').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == '.'));
    sexagesimal || (unsigned != "." && unsigned.parse::<f64>().is_ok())
}

fn looks_like_time(string: &str) -> bool {
    let bytes = string.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    if !(digits(0..4) && bytes.get(4) == Some(&b'-')) {
        return false;
    }
    let rest = string.get(5..).unwrap_or_default();
    let day = rest.split(['T', 't', ' ']).next().unwrap_or_default();
    let is_day = day.split_once('-').is_some_and(|(month, day)| {
        [month, day].iter().all(|part| matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit()))
    });
    is_day && (day.len() == rest.len() || rest.contains(':'))
}

fn is_printable(string: &str) -> bool {
    string.chars().all(|character| {
        matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
    })
}

fn double_quoted(string: &str) -> String {
    let mut quoted = String::from("\"");
    for character in string.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            other if is_printable(other.encode_utf8(&mut [0; 4])) => quoted.push(other),
            other if u32::from(other) <= 0xff => quoted.push_str(&format!("\\x{:02X}", u32::from(other))),
            other if u32::from(other) <= 0xffff => quoted.push_str(&format!("\\u{:04X}", u32::from(other))),
            other => quoted.push_str(&format!("\\U{:08X}", u32::from(other))),
        }
    }
    quoted.push('"');
    quoted
}

/// Lines as they are, below a bar that tells how they end.
fn write_literal(text: &mut String, string: &str, indent: usize) {
    let trimmed = string.trim_end_matches('\n');
    text.push('|');
    if string.starts_with([' ', '\n']) {
        text.push('2');
    }
    match string.len() - trimmed.len() {
        0 => text.push('-'),
        1 => {}
        _ => text.push('+'),
    }
    let body = if string.len() - trimmed.len() > 1 { &string[..string.len() - 1] } else { trimmed };
    for line in body.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            text.extend(std::iter::repeat_n(' ', indent + 2));
            text.push_str(line);
        }
    }
}

/// The text with line breaks at spaces after the last column.
fn folded(string: &str, column: usize, indent: usize) -> String {
    let characters: Vec<char> = string.chars().collect();
    let mut made = String::with_capacity(string.len());
    let mut column = column;
    for (position, character) in characters.iter().enumerate() {
        let next = characters.get(position + 1);
        let previous = position.checked_sub(1).and_then(|before| characters.get(before));
        let is_break = *character == ' ' && column > WIDTH && previous != Some(&' ') && next.is_some_and(|n| *n != ' ');
        match is_break {
            true => {
                made.push('\n');
                made.extend(std::iter::repeat_n(' ', indent + 2));
                column = indent + 2;
            }
            false => {
                made.push(*character);
                column += 1;
            }
        }
    }
    made
}

/// Numbers inside of keys are compared as numbers; letters come after everything else.
fn natural_order(one: &str, other: &str) -> std::cmp::Ordering {
    let (one_characters, other_characters): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let differing = one_characters.iter().zip(&other_characters).position(|(a, b)| a != b);
    let Some(position) = differing else { return one_characters.len().cmp(&other_characters.len()) };
    let (Some(a), Some(b)) = (one_characters.get(position), other_characters.get(position)) else {
        return std::cmp::Ordering::Equal;
    };
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(b),
        (false, false) => {}
        (is_letter, _) => {
            let digits_before = position > 0 && one_characters.get(position - 1).is_some_and(char::is_ascii_digit);
            return match (is_letter, digits_before && !(a.is_ascii_digit() || b.is_ascii_digit())) {
                (true, false) => std::cmp::Ordering::Greater,
                (false, false) => std::cmp::Ordering::Less,
                (_, true) => a.cmp(b),
            };
        }
    }
    let number = |characters: &[char]| -> u64 {
        let digits: String = characters.iter().take_while(|c| c.is_ascii_digit()).collect();
        digits.parse().unwrap_or_default()
    };
    match (number(&one_characters[position..]), number(&other_characters[position..])) {
        (x, y) if x != y => x.cmp(&y),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_look_as_go_writes_them() {
        for (value, expected) in [
            (json!({"b": 1, "a": {"x": [], "y": {}}}), "a:\n  x: []\n  \"y\": {}\nb: 1\n"),
            (json!({"l": [{"b": 1, "a": 2}, "x", [1, 2]]}), "l:\n- a: 2\n  b: 1\n- x\n- - 1\n  - 2\n"),
            (json!({"t": "2024-01-01T00:00:00Z"}), "t: \"2024-01-01T00:00:00Z\"\n"),
            (json!({"v": "1", "w": "yes", "n": null, "e": ""}), "e: \"\"\n\"n\": null\nv: \"1\"\nw: \"yes\"\n"),
            (json!({"m": "a: b", "k": "k:{\"x\":1}"}), "k: k:{\"x\":1}\nm: 'a: b'\n"),
            (json!({"l": "a\nb\n", "s": "a\nb"}), "l: |\n  a\n  b\ns: |-\n  a\n  b\n"),
            (json!({".": {}, "f:a": {}, "f:10": 1, "f:9": 1}), ".: {}\nf:9: 1\nf:10: 1\nf:a: {}\n"),
            (json!({"*": "*", "i": "[x]"}), "'*': '*'\ni: '[x]'\n"),
        ] {
            assert_eq!(to_yaml(&value), expected);
        }
    }

    #[test]
    fn long_texts_are_folded() {
        let long = "word ".repeat(20);
        let text = to_yaml(&json!({"k": long.trim()}));
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("  word")), "{text}");
    }
}
