//! Parsing a part of an object. The parser skips the rest without validating it or building anything of it.
//!
//! [`Body`](crate::Body) leaves the managed fields out this way; the engine reads only what it has patched from the
//! responses to its patches.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::text::{Members, Unsupported, members};

/// The object without `metadata.managedFields`, and whether there were any.
pub(crate) fn parse_without_managed_fields(json: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let skipped = Cell::new(false);
    if let Ok(parsed) =
        read_part(&mut members(json), &WithoutManagedFields { nesting: Nesting::Object, skipped: &skipped })
    {
        return Ok((Value::Object(parsed), skipped.get()));
    }
    let mut value: Value = serde_json::from_slice(json)?;
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let is_partial = metadata.and_then(|metadata| metadata.remove("managedFields")).is_some();
    Ok((value, is_partial))
}

/// Parses what the engine needs to know of a patched object: the fields that the patch names, the uid and version,
/// the finalizers, and whether the object is being deleted. Unusual JSON is parsed completely.
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
    match read_part(&mut members(json), &Patched { nesting: Nesting::Object, patch: patch.as_object() }) {
        Ok(seen) => Ok(Value::Object(seen)),
        Err(Unsupported) => serde_json::from_slice(json),
    }
}

/// Which members to parse.
trait MemberFilter: Sized {
    fn decide(&self, key: &str) -> Keep<Self>;
}

enum Keep<S> {
    Whole,
    Part(S),
    Nothing,
}

/// How deep the parser is.
#[derive(Clone, Copy)]
enum Nesting {
    Object,
    Metadata,
    Deeper,
}

struct WithoutManagedFields<'a> {
    nesting: Nesting,
    skipped: &'a Cell<bool>,
}

impl MemberFilter for WithoutManagedFields<'_> {
    fn decide(&self, key: &str) -> Keep<Self> {
        match (self.nesting, key) {
            (Nesting::Object, "metadata") => Keep::Part(Self { nesting: Nesting::Metadata, skipped: self.skipped }),
            (Nesting::Metadata, "managedFields") => {
                self.skipped.set(true);
                Keep::Nothing
            }
            _ => Keep::Whole,
        }
    }
}

struct Patched<'a> {
    nesting: Nesting,
    /// None where only the nesting decides what to parse.
    patch: Option<&'a Map<String, Value>>,
}

impl MemberFilter for Patched<'_> {
    fn decide(&self, key: &str) -> Keep<Self> {
        match (self.nesting, key, self.patch.and_then(|patch| patch.get(key))) {
            (Nesting::Object, "metadata", None) => Keep::Part(Self { nesting: Nesting::Metadata, patch: None }),
            (Nesting::Object, "metadata", Some(Value::Object(patch))) => {
                Keep::Part(Self { nesting: Nesting::Metadata, patch: Some(patch) })
            }
            (Nesting::Metadata, "uid" | "resourceVersion" | "deletionTimestamp" | "finalizers", _) => Keep::Whole,
            (_, _, Some(Value::Object(patch))) => Keep::Part(Self { nesting: Nesting::Deeper, patch: Some(patch) }),
            (_, _, Some(_)) => Keep::Whole,
            (_, _, None) => Keep::Nothing,
        }
    }
}

/// Objects and their metadata have about this many members: the maps need not grow step by step.
const USUAL_MEMBERS: usize = 7;

/// Parses the wanted members of an object.
fn read_part(members: &mut Members<'_>, filter: &impl MemberFilter) -> Result<Map<String, Value>, Unsupported> {
    let mut object = Map::with_capacity(USUAL_MEMBERS);
    while let Some(name) = members.next_name() {
        let name = name?;
        let value = match filter.decide(name) {
            Keep::Part(filter) if members.peek() == Some(b'{') => {
                let mut inner = members.enter_members();
                let part = read_part(&mut inner, &filter)?;
                members.leave(inner.end()?);
                Value::Object(part)
            }
            Keep::Whole | Keep::Part(_) => serde_json::from_slice(members.value()?).map_err(|_| Unsupported)?,
            Keep::Nothing => {
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
    fn only_patched_fields_and_the_state_are_parsed() {
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
