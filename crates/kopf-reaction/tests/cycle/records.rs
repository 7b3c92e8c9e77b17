//! Unreadable and foreign records.

use kopf_reaction::Lifecycle;
use serde_json::json;

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{handled, on, spec};

/// In kopf 1.45, such an object is throttled and never handled.
#[test]
fn unreadable_records_are_logged_and_replaced() {
    let annotations = json!({
        "kopf.zalando.org/last-handled-configuration": "[]",
        "kopf.zalando.org/a": "{not json",
        "kopf.zalando.org/b": r#"{"retries":"many","started":"yesterday"}"#,
    });
    let content = json!({"metadata": {"annotations": annotations}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(content, vec![on(0, "a", "create"), on(1, "b", "create")])
        .with_settings(|settings| settings.lifecycle = Lifecycle::AllAtOnce);
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            warning (local): The stored state in kopf.zalando.org/last-handled-configuration is ignored, as it cannot be read: not a JSON object
            warning (local): The stored state in kopf.zalando.org/a is ignored, as it cannot be read: key must be a string at line 1 column 2
            warning (local): The stored state in kopf.zalando.org/b is ignored, as it cannot be read: retries is "many"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            info: Handler 'a' succeeded.
            debug: Handler 'b' is invoked.
            call: b create retry 0, 0s
            info: Handler 'b' succeeded.
            info: Creation is processed: 2 succeeded; 0 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn unreadable_records_are_removed_from_unchanged_objects() {
    let broken = json!({"metadata": {"annotations": {"kopf.zalando.org/a": "{"}}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(handled(broken, spec()), vec![on(0, "a", "update")]);
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Something has changed, but we are not interested (the essence is the same).
            warning (local): The stored state in kopf.zalando.org/a is ignored, as it cannot be read: EOF while parsing an object at line 1 column 1
            patch: kopf.zalando.org/a = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

/// In kopf 1.45, the progress of handlers that do not match any more stays if no other one matches.
#[test]
fn progress_of_handlers_that_do_not_match_any_more() {
    let record = r#"{"started":"2026-11-15T11:00:00.000000+00:00","purpose":"update","retries":2}"#;
    let content = json!({"metadata": {"annotations": {"kopf.zalando.org/a": record}}, "spec": {"x": 1, "y": 1}});
    let field = declare(0, "a", json!({"reason": "update", "field": ["spec", "x"], "field_needs_change": true}));
    let mut scenario = Scenario::new(handled(content, spec()), vec![field]);
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Updating is in progress: …
            debug: Updating diff: (('add', ('spec', 'y'), None, 1),)
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1,"y":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn half_finished_retries_of_kopf_are_taken_over() {
    let record = r#"{"started":"2026-11-15T11:59:00.000000+00:00","delayed":"2026-11-15T12:00:10.000000+00:00","purpose":"create","retries":2,"success":false,"failure":false,"message":"boo"}"#;
    let annotations = json!({"kopf.zalando.org/a": record, "kopf.zalando.org/touch-dummy": "2026"});
    let content = json!({"metadata": {"annotations": annotations}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(content, vec![on(0, "a", "create")]).listed();
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            delay: 10
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 2, 70s
            info: Handler 'a' succeeded.
            info: Creation is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            patch: kopf.zalando.org/touch-dummy = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}
