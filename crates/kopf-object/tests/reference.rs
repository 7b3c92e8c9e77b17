//! Compares with what kopf 1.45.2 gives for the same data.
//!
//! The expected data are in `tests/data`, written by the script there. The order of diff items
//! is random in the reference, so they are compared sorted.

#![allow(clippy::unwrap_used)] // the helpers of tests fail as the tests do

use kopf_object::{
    Diff, EssenceOptions, FieldPath, apply_json_patch, build_essence, clear_progress_annotations, clear_progress_field,
    diff, diff_left, encode_essence, finalizers, inconsistencies, json_patch, keys, python_json,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(serde::Deserialize)]
struct EssenceRow {
    body: usize,
    extra: Vec<String>,
    ignored: Vec<String>,
    prefix: String,
    annotations: Vec<String>,
    fields: Vec<String>,
    encoded: String,
    cleared: String,
}

#[derive(serde::Deserialize)]
struct DiffRow {
    old: Value,
    new: Value,
    diff: Value,
    left: Value,
    reduced: Vec<(FieldPath, Value)>,
}

#[test]
fn json_text_is_the_same() {
    for (compact, spaced) in rows::<(String, String)>(include_str!("data/python_json.json")) {
        let value: Value = serde_json::from_str(&compact).unwrap();
        assert_eq!(python_json::dumps(&value), compact);
        assert_eq!(python_json::dumps_spaced(&value), spaced);
    }
}

#[test]
fn keys_are_the_same() {
    type Row = (String, String, Option<Value>, Vec<String>);
    for (prefix, id, body, expected) in rows::<Row>(include_str!("data/keys.json")) {
        let both = keys::keys(&prefix, &id, true, body.as_ref());
        assert_eq!(both, expected, "for {id:?} under {prefix:?} of {body:?}");
        let only_v2 = keys::keys(&prefix, &id, false, body.as_ref());
        assert_eq!(only_v2, expected[..1], "for {id:?} under {prefix:?} of {body:?}");
    }
}

#[test]
fn diffs_are_the_same() {
    for row in rows::<DiffRow>(include_str!("data/diffs.json")) {
        let (old, new) = (Some(&row.old), Some(&row.new));
        let full = diff(old, new);
        check_items(&full, &row.diff, &format!("{old:?} -> {new:?}"));
        check_items(&diff_left(old, new), &row.left, &format!("{old:?} <- {new:?}"));
        for (field, expected) in &row.reduced {
            check_items(&full.reduce(field), expected, &format!("{field} of {full:?}"));
        }
    }
}

#[test]
fn inconsistencies_are_the_same() {
    type Row = (Value, Value, Value);
    for (patch, body, expected) in rows::<Row>(include_str!("data/inconsistencies.json")) {
        let found = inconsistencies(&patch, &body);
        check_items(&found, &expected, &format!("{patch} in {body}"));
    }
}

#[test]
fn removals_are_the_same() {
    type Row = (String, String, String);
    for (source, field, expected) in rows::<Row>(include_str!("data/removals.json")) {
        let mut value: Value = serde_json::from_str(&source).unwrap();
        FieldPath::parse(&field).remove(&mut value);
        let result = python_json::dumps_spaced(&value);
        assert_eq!(result, expected, "without {field:?} in {source}");
    }
}

#[test]
fn essences_are_the_same() {
    let bodies: Vec<Value> = rows(include_str!("data/bodies.json"));
    for row in rows::<EssenceRow>(include_str!("data/essences.json")) {
        let body = &bodies[row.body];
        let options = EssenceOptions {
            extra_fields: paths(&row.extra),
            ignored_fields: paths(&row.ignored),
            removed_annotations: row.annotations,
            removed_fields: paths(&row.fields),
        };
        let mut essence = build_essence(body, &options);
        assert_eq!(encode_essence(&essence), row.encoded, "{options:?} for {body}");
        clear_progress_annotations(&mut essence, &row.prefix);
        clear_progress_field(&mut essence, &FieldPath::parse("status.kopf.progress"));
        assert_eq!(encode_essence(&essence), row.cleared, "{options:?} for {body}");
    }
}

#[test]
fn finalizers_are_the_same() {
    type Row = (Value, Value, Value);
    for (body, blocked, allowed) in rows::<Row>(include_str!("data/finalizers.json")) {
        check_finalizer(&body, &blocked, finalizers::block_deletion, finalizers::add_finalizer);
        check_finalizer(&body, &allowed, finalizers::allow_deletion, finalizers::remove_finalizer);
    }
}

fn check_finalizer(
    body: &Value,
    expected: &Value,
    steps: fn(&Value, &str) -> Option<Vec<kopf_object::PatchOperation>>,
    change: fn(&mut Value, &str),
) {
    let mut changed = body.clone();
    change(&mut changed, "f");
    assert_eq!(&changed, expected, "from {body}");

    let mut patched = body.clone();
    let steps = steps(body, "f");
    apply_json_patch(&mut patched, steps.as_deref().unwrap_or_default()).unwrap();
    assert_eq!(&patched, expected, "{steps:?} on {body}");

    let nothing_to_do = json_patch(body, expected).is_empty();
    assert_eq!(steps.is_none(), nothing_to_do, "{steps:?} on {body}");
}

fn check_items(found: &Diff, expected: &Value, context: &str) {
    let mut found: Vec<Value> = found.iter().map(|item| item.to_json()).collect();
    found.sort_by_key(python_json::dumps_spaced);
    assert_eq!(&Value::Array(found), expected, "for {context}");
}

fn paths(dotted: &[String]) -> Vec<FieldPath> {
    dotted.iter().map(|field| FieldPath::parse(field)).collect()
}

fn rows<T: DeserializeOwned>(json: &str) -> Vec<T> {
    let rows: Vec<T> = serde_json::from_str(json).unwrap();
    assert!(!rows.is_empty());
    rows
}
