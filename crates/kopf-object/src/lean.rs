//! Parsing of objects without their managed fields.
//!
//! Called by the body only. The text of the managed fields is checked, but nothing is built of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The object without `metadata.managedFields`, and whether there were any.
pub(crate) fn parse_lean(json: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let mut skipped = false;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Lean { level: Level::Object, skipped: &mut skipped }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, skipped))
}

/// How deep the parser is.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
}

struct Lean<'a> {
    level: Level,
    skipped: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Lean<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lean<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = match (self.level, key.as_str()) {
                (Level::Object, "metadata") => {
                    members.next_value_seed(Lean { level: Level::Metadata, skipped: &mut *self.skipped })?
                }
                (Level::Metadata, "managedFields") => {
                    members.next_value::<IgnoredAny>()?;
                    *self.skipped = true;
                    continue;
                }
                _ => members.next_value()?,
            };
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_left_out() {
        let check = |text: &str, expected: Value, skipped: bool| {
            assert_eq!(parse_lean(text.as_bytes()).unwrap(), (expected, skipped), "{text}");
        };
        check(
            r#"{"kind":"K","metadata":{"name":"n","managedFields":[{"manager":"m"}],"uid":"u"},"spec":{"managedFields":1}}"#,
            json!({"kind": "K", "metadata": {"name": "n", "uid": "u"}, "spec": {"managedFields": 1}}),
            true,
        );
        check(r#"{"managedFields":1,"metadata":null}"#, json!({"managedFields": 1, "metadata": null}), false);
        for text in ["null", "[1,\"a\"]", "7", "-7", "0.5", "true", "\"x\"", "{}"] {
            check(text, serde_json::from_str(text).unwrap(), false);
        }
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} {}", "{\"a\":1"] {
            assert!(parse_lean(text.as_bytes()).is_err(), "{text}");
        }
    }
}
