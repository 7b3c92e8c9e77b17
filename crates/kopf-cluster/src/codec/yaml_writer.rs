//! YAML as Go writes it.
//!
//! `http/service.rs` converts JSON responses by [`to_yaml`], which writes as `yaml.v2`: sorted keys, lists
//! without indentation, long strings folded at 80 columns. OpenAPI in protobuf embeds the output of
//! [`to_node_yaml`], which writes as `yaml.v3`: original order, four columns of indentation, no folding.
//!
//! Hand-written because clients compare these bytes: the emitter of serde-saphyr neither folds nor indents
//! like either library, and sorts no keys.

use serde_json::{Map, Value};

/// Strings are folded at the first space after this column.
const WIDTH: usize = 80;

/// The library whose output to reproduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `yaml.v2`, writing data.
    Data,
    /// `yaml.v3`, writing parsed documents.
    Nodes,
}

/// A value as a YAML document.
pub(crate) fn to_yaml(value: &Value) -> String {
    Layout::Data.document(value)
}

/// A part of a parsed document as a separate YAML document.
pub(crate) fn to_node_yaml(value: &Value) -> String {
    Layout::Nodes.document(value)
}

impl Layout {
    fn document(self, value: &Value) -> String {
        let mut text = String::new();
        match value {
            Value::Object(fields) if !fields.is_empty() => self.write_fields(&mut text, fields, 0, false),
            Value::Array(items) if !items.is_empty() => self.write_items(&mut text, items, 0, false),
            other => {
                self.write_scalar(&mut text, other, self.below(0));
                text.push('\n');
            }
        }
        text
    }

    /// The column of the fields below a field.
    fn below(self, indent: usize) -> usize {
        match self {
            Self::Data => indent + 2,
            Self::Nodes => (indent + 4) / 4 * 4,
        }
    }

    fn sorted(self, fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
        let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
        if self == Self::Data {
            sorted.sort_by(|(one, _), (other, _)| natural_order(one, other));
        }
        sorted
    }

    fn write_fields(self, text: &mut String, fields: &Map<String, Value>, indent: usize, inline_first: bool) {
        for (position, (key, value)) in self.sorted(fields).into_iter().enumerate() {
            if position > 0 || !inline_first {
                text.extend(std::iter::repeat_n(' ', indent));
            }
            self.write_text(text, key, self.below(indent), true);
            text.push(':');
            match value {
                Value::Object(fields) if !fields.is_empty() => {
                    text.push('\n');
                    self.write_fields(text, fields, self.below(indent), false);
                }
                Value::Array(items) if !items.is_empty() => {
                    text.push('\n');
                    let indent = if self == Self::Data { indent } else { self.below(indent) };
                    self.write_items(text, items, indent, false);
                }
                scalar => {
                    text.push(' ');
                    self.write_scalar(text, scalar, self.below(indent));
                    text.push('\n');
                }
            }
        }
    }

    fn write_items(self, text: &mut String, items: &[Value], indent: usize, inline_first: bool) {
        for (position, item) in items.iter().enumerate() {
            if position > 0 || !inline_first {
                text.extend(std::iter::repeat_n(' ', indent));
            }
            text.push_str("- ");
            match item {
                Value::Object(fields) if !fields.is_empty() => self.write_fields(text, fields, indent + 2, true),
                Value::Array(items) if !items.is_empty() => self.write_items(text, items, indent + 2, true),
                scalar => {
                    self.write_scalar(text, scalar, indent + 2);
                    text.push('\n');
                }
            }
        }
    }

    fn write_scalar(self, text: &mut String, value: &Value, below: usize) {
        match value {
            Value::Null => text.push_str("null"),
            Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => text.push_str(&number.to_string()),
            Value::String(string) => self.write_text(text, string, below, false),
            Value::Array(_) => text.push_str("[]"),
            Value::Object(_) => text.push_str("{}"),
        }
    }

    /// A string whose continuation lines start at a column.
    fn write_text(self, text: &mut String, string: &str, below: usize, is_key: bool) {
        let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
        if string.contains('\n') && !is_key && is_printable(string) {
            return self.write_literal(text, string, below);
        }
        let fold = |text: &str| match self {
            Self::Data => folded(text, column, below),
            Self::Nodes => text.to_owned(),
        };
        match self.style(string) {
            Style::Plain => text.push_str(&fold(string)),
            Style::Single => text.push_str(&fold(&format!("'{}'", string.replace('\'', "''")))),
            Style::Double => text.push_str(&double_quoted(string)),
        }
    }

    fn style(self, string: &str) -> Style {
        if !is_printable(string) || string.contains('\n') || self.looks_like_another_type(string) {
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

    /// Whether a parser would read the string as null, a boolean, a number or a time.
    fn looks_like_another_type(self, string: &str) -> bool {
        const WORDS: [&str; 11] = ["", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"];
        const OLD_WORDS: [&str; 17] =
            ["<<", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"];
        const MORE: [&str; 12] =
            [".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"];
        let is_old = self == Self::Data && (OLD_WORDS.contains(&string) || looks_like_minutes(string));
        is_old
            || WORDS.contains(&string)
            || MORE.contains(&string)
            || looks_like_number(string)
            || looks_like_time(string)
    }

    /// A literal block: the lines below a bar that says how they end.
    fn write_literal(self, text: &mut String, string: &str, below: usize) {
        let trimmed = string.trim_end_matches('\n');
        text.push('|');
        if string.starts_with([' ', '\n']) {
            text.push(if self == Self::Data { '2' } else { '4' });
        }
        let body = match string.len() - trimmed.len() {
            0 => {
                text.push('-');
                string
            }
            1 if !trimmed.is_empty() => trimmed,
            _ => {
                text.push('+');
                &string[..string.len() - 1]
            }
        };
        for line in body.split('\n') {
            text.push('\n');
            if !line.is_empty() {
                text.extend(std::iter::repeat_n(' ', below));
                text.push_str(line);
            }
        }
    }
}

/// How to write a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Without quotes.
    Plain,
    /// In single quotes, because it would mean something else without them.
    Single,
    /// In double quotes with escapes, because it has unprintable characters or would be read as
    /// another type.
    Double,
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
    unsigned != "." && unsigned.parse::<f64>().is_ok()
}

/// Whether a string is a number to the base of 60, such as `1:30`.
fn looks_like_minutes(string: &str) -> bool {
    let plain = string.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(':')
        && unsigned.split(':').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn looks_like_time(string: &str) -> bool {
    let is_number = |part: &str, longest: usize| {
        (1..=longest).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_clock = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        whole.split(':').count() == 3 && whole.split(':').all(|part| is_number(part, 2)) && is_number(fraction, 9)
    };
    let is_zone = |zone: &str| zone.len() == 5 && zone.split(':').all(|part| is_number(part, 2) && part.len() == 2);
    let (day, clock) = match string.find(['T', 't', ' ']) {
        Some(end) => (&string[..end], Some(&string[end..])),
        None => (string, None),
    };
    let mut parts = day.split('-');
    let is_day = parts.next().is_some_and(|year| year.len() == 4 && is_number(year, 4))
        && day.split('-').count() == 3
        && parts.all(|part| is_number(part, 2));
    is_day
        && clock.is_none_or(|clock| match clock.strip_prefix(' ') {
            Some(clock) => is_clock(clock),
            None => match clock[1..].strip_suffix('Z') {
                Some(clock) => is_clock(clock),
                None => {
                    clock[1..].rsplit_once(['+', '-']).is_some_and(|(clock, zone)| is_clock(clock) && is_zone(zone))
                }
            },
        })
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

/// The string, folded at the first spaces after the last column.
fn folded(string: &str, column: usize, below: usize) -> String {
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
                made.extend(std::iter::repeat_n(' ', below));
                column = below;
            }
            false => {
                made.push(*character);
                column += 1;
            }
        }
    }
    made
}

/// Compares digits inside of keys as numbers; letters come last.
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
    fn parts_of_documents_look_as_newer_go_writes_them() {
        for (value, expected) in [
            (json!("atomic"), "atomic\n"),
            (json!(""), "\"\"\n"),
            (json!(true), "true\n"),
            (json!("true"), "\"true\"\n"),
            (json!(["name", "on", "1:30", "<<", "1"]), "- name\n- on\n- 1:30\n- <<\n- \"1\"\n"),
            (json!([{"kind": "Pod", "group": "", "version": "v1"}]), "- kind: Pod\n  group: \"\"\n  version: v1\n"),
            (
                json!([{"a": {"b": "c"}, "d": ["e"]}, ["f", {"g": {}}]]),
                "- a:\n    b: c\n  d:\n    - e\n- - f\n  - g: {}\n",
            ),
            (
                json!({"a": {"b": ["c", {"d": {"e": []}}]}}),
                "a:\n    b:\n        - c\n        - d:\n            e: []\n",
            ),
            (json!("a\nb"), "|-\n    a\n    b\n"),
            (json!(["\na"]), "- |4-\n\n  a\n"),
            (json!("\n"), "|4+\n\n"),
            (json!("2024-1-1 10:00:00"), "\"2024-1-1 10:00:00\"\n"),
            (json!("2024-1-1 10:00:00Z"), "2024-1-1 10:00:00Z\n"),
            (json!("2001-12-14t21:59:43.10-05:00"), "\"2001-12-14t21:59:43.10-05:00\"\n"),
        ] {
            assert_eq!(to_node_yaml(&value), expected);
        }
        let long = "word ".repeat(40);
        assert_eq!(to_node_yaml(&json!(long.trim())), format!("{}\n", long.trim()));
    }

    #[test]
    fn long_texts_are_folded() {
        let long = "word ".repeat(20);
        let text = to_yaml(&json!({"k": long.trim()}));
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("  word")), "{text}");
    }
}
