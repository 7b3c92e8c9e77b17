//! Parsing of a part of an object. The text of the rest is checked, but nothing is built of it.
//!
//! Bodies are parsed without the managed fields; and answers to patches are only looked at for what was patched.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The object without `metadata.managedFields`, and whether there were any.
pub(crate) fn parse_lean(json: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let skipped = Cell::new(false);
    let value = parse_part(json, Lean { level: Level::Object, skipped: &skipped })?;
    Ok((value, skipped.get()))
}

/// What one needs to know of an object that was patched: what the patch names, and what tells how far the object is,
/// which is its uid and version, its finalizers, and whether it is being deleted.
///
/// ```
/// use kopf_object::glimpse;
/// use serde_json::json;
///
/// let answer = br#"{"kind": "K", "metadata": {"name": "n", "uid": "u"}, "spec": {"x": 1}, "status": {"a": 1, "b": 2}}"#;
/// let seen = glimpse(answer, &json!({"status": {"b": 1}}))?;
/// assert_eq!(seen, json!({"metadata": {"uid": "u"}, "status": {"b": 2}}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn glimpse(json: &[u8], patch: &Value) -> Result<Value, serde_json::Error> {
    parse_part(json, Patched { level: Level::Object, patch: patch.as_object() })
}

/// Which parts are wanted.
trait Selection: Sized {
    fn choose(&self, key: &str) -> Choice<Self>;
}

enum Choice<S> {
    Whole,
    Part(S),
    Nothing,
}

/// How deep the parser is.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    Deeper,
}

struct Lean<'a> {
    level: Level,
    skipped: &'a Cell<bool>,
}

impl Selection for Lean<'_> {
    fn choose(&self, key: &str) -> Choice<Self> {
        match (self.level, key) {
            (Level::Object, "metadata") => Choice::Part(Self { level: Level::Metadata, skipped: self.skipped }),
            (Level::Metadata, "managedFields") => {
                self.skipped.set(true);
                Choice::Nothing
            }
            _ => Choice::Whole,
        }
    }
}

struct Patched<'a> {
    level: Level,
    /// None where only the level tells what is wanted.
    patch: Option<&'a Map<String, Value>>,
}

impl Selection for Patched<'_> {
    fn choose(&self, key: &str) -> Choice<Self> {
        match (self.level, key, self.patch.and_then(|patch| patch.get(key))) {
            (Level::Object, "metadata", None) => Choice::Part(Self { level: Level::Metadata, patch: None }),
            (Level::Object, "metadata", Some(Value::Object(patch))) => {
                Choice::Part(Self { level: Level::Metadata, patch: Some(patch) })
            }
            (Level::Metadata, "uid" | "resourceVersion" | "deletionTimestamp" | "finalizers", _) => Choice::Whole,
            (_, _, Some(Value::Object(patch))) => Choice::Part(Self { level: Level::Deeper, patch: Some(patch) }),
            (_, _, Some(_)) => Choice::Whole,
            (_, _, None) => Choice::Nothing,
        }
    }
}

fn parse_part(json: &[u8], selection: impl Selection) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Part(selection).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

struct Part<S>(S);

impl<'de, S: Selection> DeserializeSeed<'de> for Part<S> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Selection> Visitor<'de> for Part<S> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(Key(key)) = members.next_key()? {
            let value = match self.0.choose(&key) {
                Choice::Whole => members.next_value()?,
                Choice::Part(selection) => members.next_value_seed(Part(selection))?,
                Choice::Nothing => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            object.insert(key.into_owned(), value);
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

/// The name of a member, borrowed where possible.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

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

    #[test]
    fn glimpses() {
        let check = |text: &str, patch: Value, expected: Value| {
            assert_eq!(glimpse(text.as_bytes(), &patch).unwrap(), expected, "{text} {patch}");
        };
        let object = r#"{"kind":"K","metadata":{"name":"n","uid":"u","resourceVersion":"7","finalizers":["f"],
            "deletionTimestamp":"t","annotations":{"a":"1","b":"2"},"managedFields":[{}]},
            "spec":{"a":{"b":{"c":1}}},"status":{"x":[1,2],"y":{"z":null}}}"#;
        let state = json!({"uid": "u", "resourceVersion": "7", "finalizers": ["f"], "deletionTimestamp": "t"});
        check(object, json!({}), json!({"metadata": state}));
        check(object, json!([]), json!({"metadata": state}));
        check(object, json!({"spec": null, "absent": 1}), json!({"metadata": state, "spec": {"a": {"b": {"c": 1}}}}));
        check(
            object,
            json!({"status": {"x": {"0": 1}, "y": {}}, "spec": {"a": {"b": 1}}}),
            json!({"metadata": state, "spec": {"a": {"b": {"c": 1}}}, "status": {"x": [1, 2], "y": {}}}),
        );
        let annotated = glimpse(object.as_bytes(), &json!({"metadata": {"annotations": {"b": null}}})).unwrap();
        assert_eq!(annotated["metadata"]["annotations"], json!({"b": "2"}));
        check("7", json!({"a": 1}), json!(7));
        assert!(glimpse(br#"{"spec": {"a": }}"#, &json!({})).is_err(), "what is not wanted is checked, too");
    }
}
