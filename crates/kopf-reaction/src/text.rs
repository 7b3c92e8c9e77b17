//! Values and durations in log lines, in the notation that users know from kopf 1.45: Python's.

use jiff::SignedDuration;
use kopf_object::Diff;
use serde_json::Value;

/// A value as Python's `repr()` shows it.
pub fn python_repr(value: &Value) -> String {
    let mut text = String::new();
    write_repr(&mut text, value);
    text
}

fn write_repr(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        Value::Number(_) => text.push_str(&kopf_object::python_json::dumps(value)),
        Value::String(string) => text.push_str(&repr_str(string)),
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                write_repr(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (position, (key, field)) in fields.iter().enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                text.push_str(&repr_str(key));
                text.push_str(": ");
                write_repr(text, field);
            }
            text.push('}');
        }
    }
}

/// A diff as Python shows a tuple of tuples.
pub fn diff_repr(diff: &Diff) -> String {
    let items: Vec<String> = diff
        .iter()
        .map(|item| {
            let field: Vec<String> = item.field.segments().map(repr_str).collect();
            let comma = if field.len() == 1 { "," } else { "" };
            let (old, new) = (python_repr(&item.old), python_repr(&item.new));
            format!("({}, ({}{comma}), {old}, {new})", repr_str(item.op.as_str()), field.join(", "))
        })
        .collect();
    let comma = if items.len() == 1 { "," } else { "" };
    format!("({}{comma})", items.join(", "))
}

/// A string as Python's `repr()` shows it: double quotes only where that saves escaping.
pub(crate) fn repr_str(string: &str) -> String {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    let mut text = String::with_capacity(string.len() + 2);
    text.push(quote);
    for character in string.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other if other == quote => {
                text.push('\\');
                text.push(other);
            }
            other if (other as u32) < 0x20 || other as u32 == 0x7f => {
                text.push_str(&format!("\\x{:02x}", other as u32));
            }
            other => text.push(other),
        }
    }
    text.push(quote);
    text
}

/// A duration as Python's `str(timedelta)` shows it: `0:00:01.500000`.
pub(crate) fn duration_str(duration: SignedDuration) -> String {
    let microseconds = duration.as_micros().max(0);
    let (seconds, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let mut text = match days {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        days => format!("{days} days, "),
    };
    text.push_str(&format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60));
    if fraction > 0 {
        text.push_str(&format!(".{fraction:06}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn representations() {
        let table = [
            (json!(null), "None"),
            (json!([true, false, 1, 1.5]), "[True, False, 1, 1.5]"),
            (json!({"a": {"b": []}, "c": "x"}), "{'a': {'b': []}, 'c': 'x'}"),
            (json!("it's"), "\"it's\""),
            (json!("both ' and \""), "'both \\' and \"'"),
            (json!("line\nbreak\u{1}é"), "'line\\nbreak\\x01é'"),
        ];
        for (value, expected) in table {
            assert_eq!(python_repr(&value), expected, "{value}");
        }
    }

    #[test]
    fn durations() {
        let table = [
            (0, "0:00:00"),
            (1_500_000, "0:00:01.500000"),
            (3_661_000_001, "1:01:01.000001"),
            (90_000_000_000, "1 day, 1:00:00"),
            (180_000_000_000, "2 days, 2:00:00"),
        ];
        for (microseconds, expected) in table {
            assert_eq!(duration_str(SignedDuration::from_micros(microseconds)), expected);
        }
    }
}
