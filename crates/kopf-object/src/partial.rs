//! Parsing of a part of an object. The rest is skipped as text: it is not checked, and nothing is built of it.
//!
//! Bodies are parsed without the managed fields; and answers to patches are only looked at for what was patched.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::text::{Members, Unsupported, members};

/// The object without `metadata.managedFields`, and whether there were any.
pub(crate) fn parse_without_managed_fields(json: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let skipped = Cell::new(false);
    if let Ok(parsed) = read_part(&mut members(json), &Lean { level: Level::Object, skipped: &skipped }) {
        return Ok((Value::Object(parsed), skipped.get()));
    }
    let mut value: Value = serde_json::from_slice(json)?;
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let is_partial = metadata.and_then(|metadata| metadata.remove("managedFields")).is_some();
    Ok((value, is_partial))
}

/// What one needs to know of an object that was patched: what the patch names, and what tells how far the object is,
/// which is its uid and version, its finalizers, and whether it is being deleted. Of unusual texts, it is everything.
///
/// ```
/// use kopf_object::parse_partial;
/// use serde_json::json;
///
/// let answer = br#"{"kind": "K", "metadata": {"name": "n", "uid": "u"}, "spec": {"x": 1}, "status": {"a": 1, "b": 2}}"#;
/// let seen = parse_partial(answer, &json!({"status": {"b": 1}}))?;
/// assert_eq!(seen, json!({"metadata": {"uid": "u"}, "status": {"b": 2}}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn parse_partial(json: &[u8], patch: &Value) -> Result<Value, serde_json::Error> {
    match read_part(&mut members(json), &Patched { level: Level::Object, patch: patch.as_object() }) {
        Ok(seen) => Ok(Value::Object(seen)),
        Err(Unsupported) => serde_json::from_slice(json),
    }
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

/// Objects and their metadata have about as many, so that they need not grow step by step.
const USUAL_MEMBERS: usize = 7;

/// The chosen members of an object, parsed.
fn read_part(members: &mut Members<'_>, selection: &impl Selection) -> Result<Map<String, Value>, Unsupported> {
    let mut object = Map::with_capacity(USUAL_MEMBERS);
    while let Some(name) = members.next_name() {
        let name = name?;
        let value = match selection.choose(name) {
            Choice::Part(selection) if members.peek() == Some(b'{') => {
                let mut inner = members.enter_members();
                let part = read_part(&mut inner, &selection)?;
                members.leave(inner.end()?);
                Value::Object(part)
            }
            Choice::Whole | Choice::Part(_) => serde_json::from_slice(members.value()?).map_err(|_| Unsupported)?,
            Choice::Nothing => {
                members.value()?;
                continue;
            }
        };
        object.insert(name.to_owned(), value);
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_left_out() {
        let check = |text: &str, expected: Value, skipped: bool| {
            assert_eq!(parse_without_managed_fields(text.as_bytes()).unwrap(), (expected, skipped), "{text}");
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
        check(r#"{"metadata":{"n\u0061me":"n","managedFields":[]}}"#, json!({"metadata": {"name": "n"}}), true);
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} {}", "{\"a\":1", r#"{"spec":{"a":}}"#] {
            assert!(parse_without_managed_fields(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn glimpses() {
        let check = |text: &str, patch: Value, expected: Value| {
            assert_eq!(parse_partial(text.as_bytes(), &patch).unwrap(), expected, "{text} {patch}");
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
        let annotated = parse_partial(object.as_bytes(), &json!({"metadata": {"annotations": {"b": null}}})).unwrap();
        assert_eq!(annotated["metadata"]["annotations"], json!({"b": "2"}));
        check("7", json!({"a": 1}), json!(7));
        check(
            r#"{"st\u0061tus":{"x":1},"spec":1}"#,
            json!({"status": {"x": 1}}),
            json!({"status": {"x": 1}, "spec": 1}),
        );
        for text in ["", "{", r#"{"status": {"a": }}"#, "{}}"] {
            assert!(parse_partial(text.as_bytes(), &json!({"status": {"a": 1}})).is_err(), "{text}");
        }
    }
}
