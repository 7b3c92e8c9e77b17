//! Properties that hold for any data, checked on random ones.

use kopf_object::text::{Unsupported, elements, members};
use kopf_object::{
    Body, FieldPath, ObjectIdentity, apply_json_patch, combine, diff, diff_left, inconsistencies, json_patch, keys,
    merge, parse_partial, python_equal, python_json,
};
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

/// Any JSON value, with few distinct keys, so that two values have much in common.
fn json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(Value::from(1.0)),
        any::<f64>().prop_filter_map("not in JSON", |float| Number::from_f64(float).map(Value::from)),
        "[a-c]{0,2}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            3 => object_of(inner),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    object_of(json())
}

fn object_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let pairs = prop::collection::vec((key(), value), 0..5);
    pairs.prop_map(|pairs| Value::Object(Map::from_iter(pairs)))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-d]", 1 => "[a-d/~.]{0,3}", 1 => any::<String>()]
}

fn path() -> impl Strategy<Value = FieldPath> {
    prop::collection::vec(key(), 1..4).prop_map(FieldPath::from)
}

/// A value as a merge-patch can set it: without nulls inside of objects.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

/// Whether a patch removes a key in one step and fills it with an object in the other.
fn fills_what_is_replaced(base: &Value, addition: &Value) -> bool {
    let (Value::Object(base), Value::Object(addition)) = (base, addition) else {
        return addition.is_object() && !base.is_object();
    };
    addition.iter().any(|(key, change)| base.get(key).is_some_and(|known| fills_what_is_replaced(known, change)))
}

proptest! {
    #[test]
    fn texts_are_cut_as_parsers_cut_them(value in json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        if let Value::Object(map) = &value {
            let cut: Result<Vec<_>, Unsupported> = members(text.as_bytes()).collect();
            match cut {
                Ok(cut) => {
                    let parsed = cut.into_iter().map(|(name, value)| (name, serde_json::from_slice(value).unwrap()));
                    let expected = map.iter().map(|(name, value)| (name.as_str(), value.clone()));
                    prop_assert_eq!(parsed.collect::<Vec<(_, Value)>>(), expected.collect::<Vec<_>>());
                }
                Err(Unsupported) => prop_assert!(map.keys().any(|key| serde_json::to_string(key).unwrap().contains('\\'))),
            }
        } else {
            prop_assert_eq!(members(text.as_bytes()).last(), Some(Err(Unsupported)));
        }
        if let Value::Array(list) = &value {
            let cut: Result<Vec<_>, Unsupported> = elements(text.as_bytes()).collect();
            let parsed = cut.unwrap().into_iter().map(|value| serde_json::from_slice(value).unwrap());
            prop_assert_eq!(&parsed.collect::<Vec<Value>>(), list);
        }
    }

    /// Texts of objects, with something cut out of them: what parsers understand is understood, the rest is no harm.
    #[test]
    fn damaged_texts_are_read_as_parsers_read_them(value in object(), at in any::<prop::sample::Index>(), cut in 0_usize..4) {
        let mut text = json!({"kind": "K", "metadata": value, "spec": value}).to_string().into_bytes();
        let at = at.index(text.len());
        text.drain(at..(at + cut).min(text.len()));
        let parsed = serde_json::from_slice::<Value>(&text).ok();
        let body = Body::parse(text.as_slice()).ok();
        prop_assert_eq!(body.as_ref().map(Body::value), parsed.as_ref());
        let metadata = parsed.as_ref().and_then(|parsed| parsed.get("metadata"));
        if let (Some(metadata), Ok(identity)) = (metadata, ObjectIdentity::from_slice(&text)) {
            let version = metadata.get("resourceVersion").and_then(Value::as_str);
            prop_assert_eq!(identity.resource_version.as_deref(), version);
        }
    }

    #[test]
    fn glimpses_show_all_inconsistencies(patch in object(), body in json()) {
        let seen = parse_partial(body.to_string().as_bytes(), &patch).unwrap();
        prop_assert_eq!(inconsistencies(&patch, &seen), inconsistencies(&patch, &body));
    }

    #[test]
    fn a_diff_applied_to_old_gives_new(old in json(), new in json()) {
        let changes = diff(Some(&old), Some(&new));
        let applied = changes.apply(&old);
        prop_assert!(diff(Some(&applied), Some(&new)).is_empty(), "{changes:?} gave {applied}");
    }

    #[test]
    fn a_diff_with_itself_is_empty(value in json()) {
        prop_assert!(diff(Some(&value), Some(&value)).is_empty());
        prop_assert!(python_equal(&value, &value));
    }

    #[test]
    fn a_diff_reduced_to_a_field_is_the_diff_of_the_field(old in json(), new in json(), path in path()) {
        let reduced = diff(Some(&old), Some(&new)).reduce(&path);
        prop_assert_eq!(reduced, diff(path.resolve(&old), path.resolve(&new)));
    }

    #[test]
    fn a_json_patch_applied_to_old_gives_new(old in json(), new in json()) {
        let steps = json_patch(&old, &new);
        let mut applied = old.clone();
        apply_json_patch(&mut applied, &steps).unwrap();
        prop_assert_eq!(&applied, &new, "{:?}", steps);
        prop_assert_eq!(steps.is_empty(), old == new);
    }

    #[test]
    fn a_merge_twice_is_a_merge_once(target in json(), patch in json()) {
        let mut once = target;
        merge(&mut once, &patch);
        let mut twice = once.clone();
        merge(&mut twice, &patch);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_merged_patch_is_consistent(target in object(), patch in object()) {
        let mut merged = target;
        merge(&mut merged, &patch);
        let mismatches = diff_left(Some(&without_nulls(&patch)), Some(&merged));
        prop_assert!(mismatches.is_empty(), "{mismatches:?}");
    }

    #[test]
    fn combined_patches_do_as_one_after_another(target in object(), first in object(), second in object()) {
        prop_assume!(!fills_what_is_replaced(&first, &second));
        let mut one_by_one = target.clone();
        merge(&mut one_by_one, &first);
        merge(&mut one_by_one, &second);

        let mut combined = first;
        combine(&mut combined, &second);
        let mut at_once = target;
        merge(&mut at_once, &combined);
        prop_assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn json_text_is_ascii_and_reads_back_the_same(value in json()) {
        let text = python_json::dumps(&value);
        prop_assert!(text.is_ascii());
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
        prop_assert_eq!(serde_json::from_str::<Value>(&python_json::dumps_spaced(&value)).unwrap(), value);
    }

    #[test]
    fn a_set_field_is_there_and_a_removed_one_is_not(mut root in json(), path in path(), value in json()) {
        path.ensure(&mut root, value.clone());
        prop_assert_eq!(path.resolve(&root), Some(&value));
        prop_assert_eq!(path.remove(&mut root), Some(value));
        prop_assert_eq!(path.resolve(&root), None);
    }

    #[test]
    fn keys_are_valid_names_under_the_prefix(
        prefix in "[a-z]{1,20}(\\.[a-z]{1,10}){0,2}",
        id in "[A-Za-z0-9]([A-Za-z0-9_./<>-]{0,120}[A-Za-z0-9])?",
    ) {
        for key in keys::keys(&prefix, &id, true, None) {
            let name = key.strip_prefix(&format!("{prefix}/")).unwrap();
            prop_assert!(name.len() <= 63, "{key}");
            prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{key}");
            prop_assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{key}");
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{key}");
        }
    }

    #[test]
    fn the_identity_is_that_of_the_body(
        name in any::<String>(),
        uid in any::<Option<String>>(),
        version in any::<Option<String>>(),
        rest in object(),
    ) {
        let body = Body::from_value(serde_json::json!({
            "spec": rest,
            "metadata": {"name": name, "managedFields": [rest], "resourceVersion": version, "uid": uid},
            "kind": "Thing",
        }));
        let identity = ObjectIdentity::from_slice(body.raw()).unwrap();
        prop_assert_eq!(identity.object_uid, body.object_uid());
        prop_assert_eq!(identity.resource_version.as_deref(), body.resource_version());
    }

    #[test]
    fn bodies_are_whole_although_parsed_in_part(managed in object(), rest in object()) {
        let value = serde_json::json!({"metadata": {"managedFields": managed, "name": "n"}, "spec": rest});
        let body = Body::parse(value.to_string().into_bytes()).unwrap();
        prop_assert_eq!(body.value(), &value);
        prop_assert_eq!(body.without_managed_fields(), &serde_json::json!({"metadata": {"name": "n"}, "spec": rest}));
        for field in ["metadata", "metadata.managedFields", "metadata.name", "spec"] {
            let field = FieldPath::parse(field);
            prop_assert_eq!(body.get(&field), field.resolve(&value));
        }
        prop_assert_eq!(body.get(&FieldPath::root()), Some(&value));
    }
}
