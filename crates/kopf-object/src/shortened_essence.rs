//! Essences that are too large for an annotation.
//!
//! Kubernetes limits all annotations of an object together to 256 KiB. The diff-base storage compresses an essence
//! that would not fit. If that does not suffice, it replaces large values by their digests. Digests still show which
//! fields have changed, but not the values before the change.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};
use serde_json::{Map, Value};

use crate::essence::encode_essence;

/// The only member of a compressed essence: its JSON text, compressed by zlib, in Base64.
const COMPRESSED: &str = "kopf.dev/compressed";

/// The only member of an essence with digests.
const DIGESTED: &str = "kopf.dev/digests";

/// How a digest begins. Handlers get the digest as the old value of a field that has changed.
const DIGEST: &str = "kopf.dev/digest:";

/// At which depth values are replaced by digests: the deeper, the more precise is the diff.
const DEPTHS: [usize; 4] = [4, 3, 2, 1];

/// Values with longer texts are replaced by digests, which are about as long.
const SHORT: usize = 48;

/// A limit for decompression: no object is that large, so anything longer was not written by kopf.
const LONGEST: usize = 32 * 1024 * 1024;

/// Encodes an essence for an annotation, in at most `max_bytes` bytes if possible.
///
/// ```
/// use kopf_object::{encode_essence_within, restore_essence};
/// use serde_json::json;
///
/// let essence = json!({"spec": {"text": "x".repeat(100_000)}});
/// let stored = encode_essence_within(&essence, 1000);
/// assert!(stored.len() < 1000);
/// assert_eq!(restore_essence(serde_json::from_str(&stored)?, Some(&json!({}))), essence);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn encode_essence_within(essence: &Value, max_bytes: usize) -> String {
    let plain = encode_essence(essence);
    if plain.len() <= max_bytes {
        return plain;
    }
    let packed = STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(plain.as_bytes(), 6));
    let compressed = encode_essence(&wrapped(COMPRESSED, packed.into()));
    if compressed.len() <= max_bytes {
        return compressed;
    }
    let mut smallest = compressed;
    for depth in DEPTHS {
        let digested = encode_essence(&wrapped(DIGESTED, with_digests(essence, depth)));
        if digested.len() <= max_bytes {
            return digested;
        }
        if digested.len() < smallest.len() {
            smallest = digested;
        }
    }
    // The API will refuse it, and the engine will log why: other annotations take all the space.
    smallest
}

/// Decodes a stored essence, as far as possible. Where only digests were stored, values that have not changed come
/// from the current essence.
pub fn restore_essence(stored: Value, current: Option<&Value>) -> Value {
    let Value::Object(members) = &stored else { return stored };
    if members.len() != 1 {
        return stored;
    }
    if let Some(Value::String(packed)) = members.get(COMPRESSED) {
        return unpacked(packed).unwrap_or(stored);
    }
    match members.get(DIGESTED) {
        Some(digested @ Value::Object(_)) => resolved(digested, current),
        _ => stored,
    }
}

fn wrapped(key: &str, content: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), content)]))
}

fn unpacked(packed: &str) -> Option<Value> {
    let packed = STANDARD.decode(packed).ok()?;
    let text = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, LONGEST).ok()?;
    serde_json::from_slice(&text).ok().filter(Value::is_object)
}

/// Replaces large values at this depth, and larger ones above it that have no members.
fn with_digests(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(members) if depth > 0 => {
            let members = members.iter().map(|(key, member)| (key.clone(), with_digests(member, depth - 1)));
            Value::Object(members.collect())
        }
        _ if is_short(value) => value.clone(),
        _ => Value::String(digest(value)),
    }
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.len() <= SHORT,
        Value::Array(_) | Value::Object(_) => encode_essence(value).len() <= SHORT,
    }
}

fn resolved(stored: &Value, current: Option<&Value>) -> Value {
    match stored {
        Value::Object(members) => {
            let member = |key: &str| current.and_then(|current| current.get(key));
            Value::Object(members.iter().map(|(key, stored)| (key.clone(), resolved(stored, member(key)))).collect())
        }
        Value::String(text) if text.starts_with(DIGEST) => match current {
            Some(current) if digest(current) == *text => current.clone(),
            _ => stored.clone(),
        },
        _ => stored.clone(),
    }
}

/// The digest of a value; the same for values that diffs treat as equal.
fn digest(value: &Value) -> String {
    let mut hasher = Blake2b::<U16>::new();
    feed(&mut hasher, value);
    format!("{DIGEST}{}", URL_SAFE_NO_PAD.encode(hasher.finalize()))
}

fn feed(hasher: &mut Blake2b<U16>, value: &Value) {
    let mut token = |text: String| hasher.update(text.as_bytes());
    match value {
        Value::Null => token("null;".to_owned()),
        // As in Python, `True == 1 == 1.0`.
        Value::Bool(flag) => token(format!("{};", u8::from(*flag))),
        Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(integer), _) => token(format!("{integer};")),
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < 1e30 => token(format!("{};", float as i128)),
            (None, float) => token(format!("{float:?};")),
        },
        Value::String(text) => token(format!("\"{}:{text}", text.len())),
        Value::Array(items) => {
            token(format!("[{}:", items.len()));
            items.iter().for_each(|item| feed(hasher, item));
        }
        Value::Object(members) => {
            // For diffs, null means absent, and the order does not matter.
            let mut members: Vec<_> = members.iter().filter(|(_, member)| !member.is_null()).collect();
            members.sort_by_key(|(key, _)| *key);
            token(format!("{{{}:", members.len()));
            for (key, member) in members {
                hasher.update(format!("{}:{key}", key.len()).as_bytes());
                feed(hasher, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::diff;

    fn read(stored: &str, current: &Value) -> Value {
        restore_essence(serde_json::from_str(stored).unwrap(), Some(current))
    }

    /// Text that zlib cannot compress to less than three quarters.
    fn noise(length: usize, seed: u64) -> String {
        let mut state = 2 * seed + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'0' + u8::try_from(state >> 58).unwrap())
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn a_small_essence_is_stored_as_plain_json() {
        let essence = json!({"spec": {"x": 1}});
        assert_eq!(encode_essence_within(&essence, 1000), "{\"spec\":{\"x\":1}}\n");
        assert_eq!(read("{\"spec\":{\"x\":1}}\n", &json!({})), essence);
    }

    #[test]
    fn digests_show_which_fields_have_changed() {
        let essence = json!({
            "spec": {"a": noise(5000, 1), "b": noise(5000, 2), "c": {"d": noise(5000, 3), "e": [1, 2]}, "f": 7},
            "metadata": {"labels": {"l": "x"}},
        });
        let stored = encode_essence_within(&essence, 400);
        assert!(stored.len() <= 400, "{stored}");
        assert_eq!(read(&stored, &essence), essence);

        let mut changed = essence.clone();
        changed["spec"]["b"] = json!("new");
        changed["spec"]["f"] = json!(8);
        changed["spec"]["c"].as_object_mut().unwrap().shift_remove("d");
        let old = read(&stored, &changed);
        let items = diff(Some(&old), Some(&changed)).to_json();
        let digest = |text: &str| digest(&json!(text));
        assert_eq!(
            items,
            json!([
                ["change", ["spec", "b"], digest(&noise(5000, 2)), "new"],
                ["remove", ["spec", "c", "d"], digest(&noise(5000, 3)), null],
                ["change", ["spec", "f"], 7, 8],
            ])
        );
    }

    #[test]
    fn a_smaller_limit_makes_diffs_coarser() {
        let spec: Map<String, Value> = (0..200).map(|n| (format!("key-{n}"), json!(noise(100, n)))).collect();
        let essence = json!({"spec": spec});
        for (max_bytes, field) in [(12_000, json!(["spec", "key-3"])), (500, json!(["spec"]))] {
            let stored = encode_essence_within(&essence, max_bytes);
            assert!(stored.len() <= max_bytes, "{}", stored.len());
            let mut changed = essence.clone();
            changed["spec"]["key-3"] = json!("new");
            let items = diff(Some(&read(&stored, &changed)), Some(&changed)).to_json();
            assert_eq!((items.as_array().unwrap().len(), &items[0][1]), (1, &field), "{max_bytes}");
        }
    }

    #[test]
    fn unknown_records_are_returned_unchanged() {
        for stored in [
            json!({COMPRESSED: "!"}),
            json!({COMPRESSED: STANDARD.encode("{}")}),
            json!({DIGESTED: 1}),
            json!({COMPRESSED: "!", "spec": {}}),
            json!([]),
        ] {
            assert_eq!(restore_essence(stored.clone(), None), stored);
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6..1e6).prop_map(|float: f64| json!(float)),
            "[a-z]{0,80}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,5}", inner, 0..5).prop_map(|members| json!(members)),
            ]
        })
    }

    fn essences() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-z]{1,5}", values(), 0..5).prop_map(|members| json!(members))
    }

    proptest! {
        /// With any limit, a diff has a change if and only if there is one.
        #[test]
        fn changes_are_detected_with_any_limit(old in essences(), new in essences(), max_bytes in 0_usize..600) {
            let stored = encode_essence_within(&old, max_bytes);
            prop_assert!(diff(Some(&read(&stored, &old)), Some(&old)).is_empty());
            let changes = diff(Some(&read(&stored, &new)), Some(&new));
            prop_assert_eq!(changes.is_empty(), diff(Some(&old), Some(&new)).is_empty());
        }
    }
}
