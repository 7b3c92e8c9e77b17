use kopf_object::{FieldPath, MergePatch};
use serde_json::json;

use super::*;

fn annotations(prefix: &str) -> ProgressStorage {
    ProgressStorage::Annotations { prefix: prefix.into(), verbose: false, touch_key: "touch-dummy".into(), v1: true }
}

fn check(
    storage: &ProgressStorage,
    body: Value,
    act: impl Fn(&ProgressStorage, &Value, &mut MergePatch),
    expected: Value,
) {
    let mut patch = MergePatch::new();
    act(storage, &body, &mut patch);
    assert_eq!(patch.as_value(), &expected, "on {body}");
}

#[test]
fn progress_is_stored_in_annotations() {
    let store = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| {
        storage.store("a/b", &json!({"retries": 1, "message": null}), body, patch);
    };
    check(
        &annotations("kopf.zalando.org"),
        json!({}),
        store,
        json!({"metadata": {"annotations": {"kopf.zalando.org/a.b": "{\"retries\":1}"}}}),
    );
    check(
        &annotations("example.com"),
        json!({}),
        store,
        json!({"metadata": {"annotations": {"example.com/a.b": "{\"retries\":1}", "example.com/kopf-managed": "yes"}}}),
    );
    let purge = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.purge("a", body, patch);
    let stored = json!({"metadata": {"annotations": {"kopf.zalando.org/a": "{}"}}});
    check(
        &annotations("kopf.zalando.org"),
        stored.clone(),
        purge,
        json!({"metadata": {"annotations": {"kopf.zalando.org/a": null}}}),
    );
    check(
        &annotations("kopf.zalando.org"),
        json!({}),
        |storage, body, patch| {
            storage.store("a", &json!({}), body, patch);
            storage.purge("a", body, patch);
        },
        json!({}),
    );
    let touch = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.touch(None, body, patch);
    check(&annotations("kopf.zalando.org"), json!({}), touch, json!({}));
    let touched = json!({"metadata": {"annotations": {"kopf.zalando.org/touch-dummy": "2026"}}});
    check(
        &annotations("kopf.zalando.org"),
        touched,
        touch,
        json!({"metadata": {"annotations": {"kopf.zalando.org/touch-dummy": null}}}),
    );
}

#[test]
fn the_default_reads_the_status_but_does_not_write_it() {
    let storage = ProgressStorage::default();
    let body = json!({"status": {"kopf": {"progress": {"a": {"retries": 3}}}}});
    assert_eq!(storage.fetch("a", &body, &mut Vec::new()), Some(json!({"retries": 3})));
    check(
        &storage,
        body.clone(),
        |storage, body, patch| storage.purge("a", body, patch),
        json!({"status": {"kopf": {"progress": {"a": null}}}}),
    );
    let mut patch = MergePatch::new();
    storage.store("b", &json!({"retries": 1}), &body, &mut patch);
    assert!(patch.as_value().get("status").is_none());
}

/// Kopf 1.45 writes its fields of the record only, and compares all that it finds in the record with them.
#[test]
fn in_the_status_the_essence_is_beside_the_record() {
    let storage = ProgressStorage::Status {
        field: FieldPath::parse("status.p"),
        touch_field: FieldPath::parse("status.t"),
        write: true,
    };
    let finished = json!({"stopped": "2026-11-15T12:00:00+00:00", "success": true, "essence": "{}"});
    let mut patch = MergePatch::new();
    storage.store("a", &finished, &json!({}), &mut patch);
    let stored = patch.as_value().clone();
    let record = json!({"stopped": "2026-11-15T12:00:00+00:00", "success": true});
    let beside = json!({"stopped": "2026-11-15T12:00:00+00:00", "essence": "{}"});
    assert_eq!(stored, json!({"status": {"p": {"a#essence": beside, "a": record}}}));
    assert_eq!(storage.fetch("a", &stored, &mut Vec::new()), Some(finished));
    let purge = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| storage.purge("a", body, patch);
    check(&storage, stored.clone(), purge, json!({"status": {"p": {"a": null, "a#essence": null}}}));

    // Kopf 1.45 has finished that handling, and begun and finished another one.
    let mut later = stored;
    later["status"]["p"]["a"] = json!({"stopped": "2026-11-16T12:00:00+00:00", "success": true});
    assert_eq!(storage.fetch("a", &later, &mut Vec::new()), Some(later["status"]["p"]["a"].clone()));
    let store = |storage: &ProgressStorage, body: &Value, patch: &mut MergePatch| {
        storage.store("a", &json!({"retries": 1}), body, patch);
    };
    check(&storage, later, store, json!({"status": {"p": {"a#essence": null, "a": {"retries": 1}}}}));
}

#[test]
fn corrupt_records_are_reported_and_count_as_absent() {
    for encoded in ["{not json", "5", "[]", "\"x\"", ""] {
        let body = json!({"metadata": {"annotations": {"kopf.zalando.org/a": encoded}}});
        let mut corruptions = Vec::new();
        assert_eq!(ProgressStorage::default().fetch("a", &body, &mut corruptions), None);
        assert_eq!(corruptions.len(), 1, "{encoded}");
        assert_eq!(corruptions[0].location, "kopf.zalando.org/a");
    }
}

#[test]
fn the_last_handled_essence_is_stored_and_found() {
    let body = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"a": 1}, "status": {"b": 2}});
    let in_status = DiffBaseStorage::Status { field: FieldPath::parse("status.kopf.last"), ignored_fields: Vec::new() };
    let both = DiffBaseStorage::Multi { storages: vec![DiffBaseStorage::default(), in_status] };
    let mut stored = body.clone();
    let mut patch = MergePatch::new();
    let essence = both.build(&body, &[]);
    assert_eq!(essence, json!({"spec": {"a": 1}, "metadata": {"annotations": {"x": "y"}}}));
    both.store(&essence, &body, &mut patch);
    patch.apply_to(&mut stored);
    assert_eq!(both.fetch(&stored, &mut Vec::new()), Some(essence.clone()));
    assert_eq!(both.build(&stored, &[]), essence);
    assert_eq!(
        stored.pointer("/metadata/annotations/kopf.zalando.org~1last-handled-configuration"),
        Some(&json!("{\"spec\":{\"a\":1},\"metadata\":{\"annotations\":{\"x\":\"y\"}}}\n"))
    );
}
