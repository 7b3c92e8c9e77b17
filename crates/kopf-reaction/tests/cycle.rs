//! The main flows as written scenarios: what is asked, said and stored, word by word as kopf 1.45 does it.
//!
//! Where a scenario differs from kopf 1.45 on purpose, its comment says so.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

mod simulation;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::SignedDuration;
use kopf_object::FieldPath;
use kopf_reaction::{CallError, DiffBaseStorage, EventType, Handler, Lifecycle, ProgressStorage};
use serde_json::{Value, json};
use simulation::declare;
use simulation::scenario::{Outcome, Scenario, check};

fn temporary(delay: f64) -> Outcome {
    Err(CallError::Temporary { message: "wait".into(), display: "wait".into(), delay: Some(delay) })
}

fn arbitrary() -> Outcome {
    Err(CallError::Arbitrary { message: "boo".into(), display: "boo".into() })
}

fn on(index: usize, id: &str, reason: &str) -> Arc<Handler> {
    declare(index, id, json!({"reason": reason, "requires_finalizer": reason == "delete"}))
}

fn spec() -> Value {
    json!({"spec": {"x": 1}})
}

/// An object that was handled in full with these contents.
fn handled(content: Value, essence: Value) -> Value {
    let mut whole = json!({"metadata": {"annotations": {
        "kopf.zalando.org/last-handled-configuration": format!("{essence}\n"),
    }}});
    kopf_object::merge(&mut whole, &content);
    whole
}

#[test]
fn creation_with_one_handler() {
    let mut scenario =
        Scenario::new(spec(), vec![on(0, "a", "create")]).with_outcomes("a", [Ok(Some(json!({"done": true})))]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            info: Handler 'a' succeeded.
            info: Creation is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            result: a {"done":true}
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn two_handlers_one_after_another() {
    let mut scenario = Scenario::new(spec(), vec![on(0, "a", "create"), on(1, "b", "create")]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            info: Handler 'a' succeeded.
            patch: kopf.zalando.org/a = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"create","retries":1,"success":true,"failure":false,"essence":"{\"spec\":{\"x\":1}}"}
            patch: kopf.zalando.org/b = {"started":"2026-11-15T12:00:00.000000+00:00","purpose":"create","retries":0,"success":false,"failure":false}
            delay: 0
            debug: Creation is in progress: …
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
fn failing_and_retrying() {
    let limited = declare(0, "a", json!({"reason": "create", "retries": 3, "timeout": 1000}));
    let mut scenario =
        Scenario::new(spec(), vec![limited]).with_outcomes("a", [temporary(5.0), arbitrary(), arbitrary()]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s of 1000s left
            error: Handler 'a' failed temporarily: wait
            patch: kopf.zalando.org/a = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:00:05.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"wait"}
            delay: 5
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 1, 5s of 995s left
            error: Handler 'a' failed with an exception and will try again in 60 seconds: boo with traceback
            patch: kopf.zalando.org/a = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:01:05.000000+00:00","purpose":"create","retries":2,"success":false,"failure":false,"message":"boo"}
            delay: 60
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 2, 65s of 935s left
            error: Handler 'a' failed with an exception and will stop now (it would exceed 3 retries on the next attempt): boo with traceback
            info: Creation is processed: 0 succeeded; 1 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn errors_that_are_ignored_or_final() {
    let ignoring = declare(0, "a", json!({"reason": "create", "errors": "ignored"}));
    let giving_up = declare(1, "b", json!({"reason": "create", "errors": "permanent"}));
    let mut scenario = Scenario::new(spec(), vec![ignoring, giving_up])
        .with_outcomes("a", [arbitrary()])
        .with_outcomes("b", [arbitrary()])
        .with_settings(|settings| settings.lifecycle = Lifecycle::AllAtOnce);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            error: Handler 'a' failed with an exception and will ignore it: boo with traceback
            debug: Handler 'b' is invoked.
            call: b create retry 0, 0s
            error: Handler 'b' failed with an exception and will stop now: boo with traceback
            info: Creation is processed: 1 succeeded; 1 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn a_time_out_in_downtime() {
    let limited = declare(0, "a", json!({"reason": "create", "timeout": 30}));
    let mut scenario = Scenario::new(spec(), vec![limited]).with_outcomes("a", [temporary(5.0)]);
    scenario.turn();
    scenario.now = scenario.now.checked_add(SignedDuration::from_secs(3600)).expect("a time");
    scenario.protocol.clear();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            error: Handler 'a' has timed out after 1:00:00.
            info: Creation is processed: 0 succeeded; 1 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn the_finalizer_comes_first_and_goes_last() {
    let mut scenario = Scenario::new(spec(), vec![on(0, "c", "create"), on(1, "d", "delete")]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug (local): Adding the finalizer, thus preventing the actual deletion.
            finalizer: Add
            debug: Creation is in progress: …
            debug: Handler 'c' is invoked.
            call: c create retry 0, 0s
            info: Handler 'c' succeeded.
            info: Creation is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
    scenario.delete();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Deletion is in progress: …
            debug: Handler 'd' is invoked.
            call: d delete retry 0, 0s
            info: Handler 'd' succeeded.
            info: Deletion is processed: 1 succeeded; 0 failed.
            debug (local): Removing the finalizer, thus allowing the actual deletion.
            finalizer: Remove
        "#,
    );
    assert!(!scenario.object.exists);
    scenario.event = Some(EventType::Deleted);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Deleted, really deleted, and we are notified.
        "#,
    );
}

/// The decorators of one function may be stacked in any order. (In kopf 1.45, the same.)
#[test]
fn one_function_for_creation_and_deletion_needs_the_finalizer() {
    let deleting = declare(1, "a", json!({"fn": 0, "reason": "delete", "requires_finalizer": true}));
    let mut scenario = Scenario::new(spec(), vec![on(0, "a", "create"), deleting]);
    scenario.turn();
    check(
        &mut scenario,
        r#"
            debug (local): Adding the finalizer, thus preventing the actual deletion.
            finalizer: Add
        "#,
    );
}

#[test]
fn the_finalizer_goes_when_nobody_needs_it() {
    let content = json!({"metadata": {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(content, vec![on(0, "c", "create")]);
    scenario.turn();
    check(
        &mut scenario,
        r#"
            debug (local): Removing the finalizer, as there are no handlers requiring it.
            finalizer: Remove
        "#,
    );
}

#[test]
fn optional_deletion_handlers_do_not_hold() {
    let optional = declare(0, "d", json!({"reason": "delete", "requires_finalizer": false}));
    let mut scenario = Scenario::new(spec(), vec![optional]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
    scenario.object.edit(|value| value["metadata"]["finalizers"] = json!(["example.com/other"]));
    scenario.delete();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Deletion, but we are done with it, and we do not care.
        "#,
    );
}

#[test]
fn creation_is_superseded_by_deletion() {
    let handlers = vec![on(0, "a", "create"), on(1, "b", "create"), on(2, "d", "delete")];
    let mut scenario = Scenario::new(spec(), handlers).with_outcomes("b", [temporary(60.0)]);
    scenario.turn();
    scenario.turn();
    scenario.turn();
    scenario.protocol.clear();
    scenario.delete();
    scenario.play();
    check(
        &mut scenario,
        r#"
            info: Creation is superseded by deletion: 1 succeeded; 0 failed; 1 left to the moment.
            debug: Deletion is in progress: …
            debug: Handler 'd' is invoked.
            call: d delete retry 0, 0s
            info: Handler 'd' succeeded.
            info: Deletion is processed: 1 succeeded; 0 failed.
            debug (local): Removing the finalizer, thus allowing the actual deletion.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            finalizer: Remove
        "#,
    );
}

/// In kopf 1.45, a function that has succeeded for the creation is not called for the deletion.
#[test]
fn a_function_that_has_created_is_still_called_to_delete() {
    let deleting = declare(2, "a", json!({"fn": 0, "reason": "delete", "requires_finalizer": true}));
    let handlers = vec![on(0, "a", "create"), on(1, "b", "create"), deleting];
    let mut scenario = Scenario::new(spec(), handlers).with_outcomes("b", [temporary(60.0)]);
    scenario.turn();
    scenario.turn();
    scenario.turn();
    scenario.protocol.clear();
    scenario.delete();
    scenario.play();
    check(
        &mut scenario,
        r#"
            info: Creation is superseded by deletion: 1 succeeded; 0 failed; 1 left to the moment.
            debug: Deletion is in progress: …
            debug: Handler 'a' is invoked.
            call: a delete retry 0, 0s
            info: Handler 'a' succeeded.
            info: Deletion is processed: 1 succeeded; 0 failed.
            debug (local): Removing the finalizer, thus allowing the actual deletion.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            finalizer: Remove
        "#,
    );
}

#[test]
fn resuming_without_changes() {
    let resuming = declare(0, "r", json!({"initial": true}));
    let content = handled(spec(), spec());
    let mut scenario = Scenario::new(content, vec![resuming, on(1, "u", "update")]).listed();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Resuming is in progress: …
            debug: Handler 'r' is invoked.
            call: r resume retry 0, 0s
            info: Handler 'r' succeeded.
            info: Resuming is processed: 1 succeeded; 0 failed.
        "#,
    );
}

#[test]
fn resuming_is_mixed_into_an_update() {
    let resuming = declare(0, "r", json!({"initial": true}));
    let content = handled(json!({"spec": {"x": 2}}), spec());
    let mut scenario = Scenario::new(content, vec![resuming, on(1, "u", "update")]).listed();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)
            debug: Handler 'r' is invoked.
            call: r update retry 0, 0s
            info: Handler 'r' succeeded.
            patch: kopf.zalando.org/r = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false}
            patch: kopf.zalando.org/u = {"started":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":0,"success":false,"failure":false}
            delay: 0
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)
            debug: Handler 'u' is invoked.
            call: u update retry 0, 0s
            info: Handler 'u' succeeded.
            info: Updating is processed: 2 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":2}}\n
            patch: kopf.zalando.org/r = null
            patch: kopf.zalando.org/u = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn resuming_is_superseded_by_an_update_and_goes_on() {
    let resuming = |index, id| declare(index, id, json!({"initial": true}));
    let handlers = vec![resuming(0, "r"), resuming(1, "s"), on(2, "u", "update")];
    let mut scenario = Scenario::new(handled(spec(), spec()), handlers).with_outcomes("s", [temporary(60.0)]).listed();
    scenario.turn();
    scenario.turn();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.play();
    check(
        &mut scenario,
        r#"
            info: Resuming is superseded by updating: 1 succeeded; 0 failed; 1 left to the moment.
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)
            debug: Handler 'u' is invoked.
            call: u update retry 0, 0s
            info: Handler 'u' succeeded.
            patch: kopf.zalando.org/r = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false}
            patch: kopf.zalando.org/s = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:01:00.000000+00:00","purpose":"update","retries":1,"success":false,"failure":false,"message":"wait"}
            patch: kopf.zalando.org/u = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false,"essence":"{\"spec\":{\"x\":2}}"}
            delay: 60
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)
            debug: Handler 's' is invoked.
            call: s update retry 1, 60s
            info: Handler 's' succeeded.
            info: Updating is processed: 3 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":2}}\n
            patch: kopf.zalando.org/r = null
            patch: kopf.zalando.org/s = null
            patch: kopf.zalando.org/u = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn field_handlers_see_only_their_field() {
    let field = declare(0, "f/spec.x", json!({"field": ["spec", "x"], "field_needs_change": true}));
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![field]);
    scenario.edit(json!({"spec": {"y": 1}}));
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Updating is in progress: …
            debug: Updating diff: (('add', ('spec', 'y'), None, 1),)
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1,"y":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)
            debug: Handler 'f/spec.x' is invoked.
            call: f/spec.x update retry 0, 0s
            info: Handler 'f/spec.x' succeeded.
            info: Updating is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":2,"y":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

/// In kopf 1.45, `a` does not get to know the second change.
#[test]
fn a_change_amid_the_handling_becomes_the_next_update() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.turn();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 3}}));
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 1, 3),)
            debug: Handler 'b' is invoked.
            call: b update retry 0, 0s
            info: Handler 'b' succeeded.
            info: Updating is processed: 2 succeeded; 0 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false,"essence":"{\"spec\":{\"x\":3}}"}
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":2}}\n
            delay: 0
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 2, 3),)
            debug: Handler 'a' is invoked.
            call: a update retry 0, 0s
            info: Handler 'a' succeeded.
            info: Updating is processed: 2 succeeded; 0 failed.
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":3}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

/// In kopf 1.45, `a` never gets to know of the change to 3: its success with 2 counts for 3, too.
#[test]
fn a_change_while_the_operator_is_down_amid_the_handling_becomes_the_next_update() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.turn();
    scenario.edit(json!({"spec": {"x": 3}}));
    scenario.restart();
    scenario.play();
    let lines = scenario.protocol.iter().filter(|line| line.starts_with("call: ") || line.contains("diff: "));
    let expected = [
        "debug: Updating diff: (('change', ('spec', 'x'), 1, 2),)",
        "call: a update retry 0, 0s",
        "debug: Updating diff: (('change', ('spec', 'x'), 1, 3),)",
        "call: b update retry 0, 0s",
        "debug: Updating diff: (('change', ('spec', 'x'), 2, 3),)",
        "call: a update retry 0, 0s",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

/// The lines that tell how many handlers have succeeded.
fn processed(scenario: &Scenario) -> Vec<&str> {
    scenario.protocol.iter().filter(|line| line.contains(" is processed: ")).map(String::as_str).collect()
}

/// Handlers that have seen the newest state are not called in the next update, but still count in the creation.
#[test]
fn those_that_have_seen_the_newest_state_count_once_in_each_round() {
    let mut scenario = Scenario::new(
        spec(),
        vec![on(0, "a", "create"), on(1, "b", "create"), declare(2, "f", json!({"field": ["spec", "x"]}))],
    );
    scenario.turn();
    scenario.edit(json!({"spec": {"y": 2}}));
    scenario.play();
    assert_eq!(processed(&scenario)[0], "info: Creation is processed: 3 succeeded; 0 failed.");
}

#[test]
fn functions_with_one_id_share_one_record_and_count_once() {
    let handlers = vec![on(0, "a", "create"), on(1, "a", "resume"), on(2, "b", "create")];
    let mut scenario = Scenario::new(spec(), handlers).with_outcomes("a", [temporary(1.0)]);
    scenario.play();
    assert_eq!(processed(&scenario), ["info: Creation is processed: 2 succeeded; 0 failed."]);
}

/// In kopf 1.45, the progress stays on the object, and `a` does not get to know that its change was taken back.
#[test]
fn a_change_that_is_taken_back_is_undone() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.turn();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 1}}));
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Something has changed, but we are not interested (the essence is the same).
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":2}}\n
            delay: 0
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 2, 1),)
            debug: Handler 'a' is invoked.
            call: a update retry 0, 0s
            info: Handler 'a' succeeded.
            patch: kopf.zalando.org/a = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":1,"success":true,"failure":false,"essence":"{\"spec\":{\"x\":1}}"}
            patch: kopf.zalando.org/b = {"started":"2026-11-15T12:00:00.000000+00:00","purpose":"update","retries":0,"success":false,"failure":false}
            delay: 0
            debug: Updating is in progress: …
            debug: Updating diff: (('change', ('spec', 'x'), 2, 1),)
            debug: Handler 'b' is invoked.
            call: b update retry 0, 0s
            info: Handler 'b' succeeded.
            info: Updating is processed: 2 succeeded; 0 failed.
            patch: kopf.zalando.org/a = null
            patch: kopf.zalando.org/b = null
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn children() {
    let mut scenario = Scenario::new(spec(), vec![on(0, "p", "create")])
        .with_outcomes("p/a", [Ok(Some(json!("one")))])
        .with_outcomes("p/b", [temporary(5.0)]);
    scenario.children.insert("p", vec![declare(10, "p/a", json!({})), declare(11, "p/b", json!({}))]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'p' is invoked.
            call: p create retry 0, 0s
            debug: Handler 'p/a' is invoked.
            call: p/a create retry 0, 0s
            info: Handler 'p/a' succeeded.
            debug: Handler 'p' has unfinished sub-handlers. Will retry soon.
            patch: kopf.zalando.org/p = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"None","subrefs":["p/a","p/b"]}
            patch: kopf.zalando.org/p.a = {"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","purpose":"create","retries":1,"success":true,"failure":false,"essence":"{\"spec\":{\"x\":1}}"}
            patch: kopf.zalando.org/p.b = {"started":"2026-11-15T12:00:00.000000+00:00","purpose":"create","retries":0,"success":false,"failure":false}
            result: p/a "one"
            delay: 0
            debug: Creation is in progress: …
            debug: Handler 'p' is invoked.
            call: p create retry 1, 0s
            debug: Handler 'p/b' is invoked.
            call: p/b create retry 0, 0s
            error: Handler 'p/b' failed temporarily: wait
            debug: Handler 'p' has unfinished sub-handlers. Will retry soon.
            patch: kopf.zalando.org/p = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:00:05.000000+00:00","purpose":"create","retries":2,"success":false,"failure":false,"message":"None","subrefs":["p/a","p/b"]}
            patch: kopf.zalando.org/p.b = {"started":"2026-11-15T12:00:00.000000+00:00","delayed":"2026-11-15T12:00:05.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"wait"}
            delay: 5
            debug: Creation is in progress: …
            debug: Handler 'p' is invoked.
            call: p create retry 2, 5s
            debug: Handler 'p/b' is invoked.
            call: p/b create retry 1, 5s
            info: Handler 'p/b' succeeded.
            info: Handler 'p' succeeded.
            info: Creation is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"spec":{"x":1}}\n
            patch: kopf.zalando.org/p = null
            patch: kopf.zalando.org/p.a = null
            patch: kopf.zalando.org/p.b = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn storages_and_lifecycles_of_the_user() {
    let mut scenario =
        Scenario::new(spec(), vec![on(0, "a", "create"), on(1, "b", "create")]).with_settings(|settings| {
            settings.progress = ProgressStorage::Front;
            settings.diffbase = DiffBaseStorage::Front;
            settings.lifecycle = Lifecycle::Front;
        });
    scenario.turn();
    check(
        &mut scenario,
        r#"
            storage? a b [] true true
            debug: Creation is in progress: …
            choose? a b
            debug: Handler 'b' is invoked.
            call: b create retry 0, 0s
            info: Handler 'b' succeeded.
            storage: {"op":"store","id":"a","record":{"started":"2026-11-15T12:00:00.000000+00:00","stopped":null,"delayed":null,"purpose":"create","retries":0,"success":false,"failure":false,"message":null,"subrefs":null}}
            storage: {"op":"store","id":"b","record":{"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","delayed":null,"purpose":"create","retries":1,"success":true,"failure":false,"message":null,"subrefs":null,"essence":"{\"spec\":{\"x\":1}}"}}
            delay: 0
        "#,
    );
    scenario.turn();
    check(
        &mut scenario,
        r#"
            storage? a b [] true true
            debug: Creation is in progress: …
            choose? a
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            info: Handler 'a' succeeded.
            info: Creation is processed: 2 succeeded; 0 failed.
            storage: {"op":"store","id":"a","record":{"started":"2026-11-15T12:00:00.000000+00:00","stopped":"2026-11-15T12:00:00.000000+00:00","delayed":null,"purpose":"create","retries":1,"success":true,"failure":false,"message":null,"subrefs":null}}
            storage: {"op":"purge","id":"a"}
            storage: {"op":"purge","id":"b"}
            storage: {"op":"diffbase","essence":{"spec":{"x":1}}}
        "#,
    );
}

#[test]
fn storages_in_the_status() {
    let mut scenario =
        Scenario::new(spec(), vec![on(0, "a", "create"), on(1, "b", "create")]).with_settings(|settings| {
            let field = |path: &str| FieldPath::parse(path);
            let (progress, touch) = (field("status.my.progress"), field("status.my.dummy"));
            settings.progress = ProgressStorage::Status { field: progress, touch_field: touch, write: true };
            settings.diffbase = DiffBaseStorage::Status { field: field("status.my.last"), ignored_fields: Vec::new() };
        });
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Creation is in progress: …
            debug: Handler 'a' is invoked.
            call: a create retry 0, 0s
            info: Handler 'a' succeeded.
            patch: status my progress a delayed = null
            patch: status my progress a failure = false
            patch: status my progress a message = null
            patch: status my progress a purpose = create
            patch: status my progress a retries = 1
            patch: status my progress a started = 2026-11-15T12:00:00.000000+00:00
            patch: status my progress a stopped = 2026-11-15T12:00:00.000000+00:00
            patch: status my progress a subrefs = null
            patch: status my progress a success = true
            patch: status my progress a#essence essence = {"spec":{"x":1}}
            patch: status my progress a#essence stopped = 2026-11-15T12:00:00.000000+00:00
            patch: status my progress b delayed = null
            patch: status my progress b failure = false
            patch: status my progress b message = null
            patch: status my progress b purpose = create
            patch: status my progress b retries = 0
            patch: status my progress b started = 2026-11-15T12:00:00.000000+00:00
            patch: status my progress b stopped = null
            patch: status my progress b subrefs = null
            patch: status my progress b success = false
            delay: 0
            debug: Creation is in progress: …
            debug: Handler 'b' is invoked.
            call: b create retry 0, 0s
            info: Handler 'b' succeeded.
            info: Creation is processed: 2 succeeded; 0 failed.
            patch: status my last = {"spec":{"x":1}}
            patch: status my progress a = null
            patch: status my progress a#essence = null
            patch: status my progress b = null
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn callbacks_of_filters_are_asked_once_and_only_if_needed() {
    let asked =
        |index, id, labels: Value| declare(index, id, json!({"reason": "create", "when": true, "labels": labels}));
    let handlers = vec![
        asked(0, "no-label", json!({"absent": {"present": true}})),
        asked(1, "refused", json!({})),
        asked(2, "accepted", json!({"tier": {"callback": true}})),
    ];
    let mut scenario = Scenario::new(json!({"metadata": {"labels": {"tier": "gold"}}}), handlers);
    scenario.callbacks = HashMap::from([(1, false), (2, true)]);
    scenario.play();
    check(
        &mut scenario,
        r#"
            filters? 1 When None; 2 Label("tier") Some(String("gold"))
            filters? 2 When None
            debug: Creation is in progress: …
            debug: Handler 'accepted' is invoked.
            call: accepted create retry 0, 0s
            info: Handler 'accepted' succeeded.
            info: Creation is processed: 1 succeeded; 0 failed.
            patch: kopf.zalando.org/last-handled-configuration = {"metadata":{"labels":{"tier":"gold"}}}\n
            filters? 1 When None; 2 Label("tier") Some(String("gold"))
            filters? 2 When None
            debug: Something has changed, but we are not interested (the essence is the same).
        "#,
    );
}

#[test]
fn spies_are_called_for_every_event_and_nothing_else() {
    let spy = |index, id| declare(index, id, json!({"kind": "watching"}));
    let mut scenario = Scenario::new(spec(), vec![spy(0, "a"), spy(1, "b")])
        .with_outcomes("a", [arbitrary()])
        .with_outcomes("b", [Ok(Some(json!(5)))]);
    scenario.turn();
    scenario.turn();
    scenario.event = Some(EventType::Deleted);
    scenario.turn();
    check(
        &mut scenario,
        r#"
            debug (local): Handler 'a' is invoked.
            call: a Some("ADDED")
            error (local): Handler 'a' failed with an exception and will ignore it: boo with traceback
            debug (local): Handler 'b' is invoked.
            call: b Some("ADDED")
            info (local): Handler 'b' succeeded.
            result: b 5
            debug (local): Handler 'a' is invoked.
            call: a Some("DELETED")
            info (local): Handler 'a' succeeded.
            debug (local): Handler 'b' is invoked.
            call: b Some("DELETED")
            info (local): Handler 'b' succeeded.
        "#,
    );
}

/// A body that is older than our own patch is for the spies only.
#[test]
fn outdated_bodies() {
    let spy = declare(0, "spy", json!({"kind": "watching"}));
    let mut scenario = Scenario::new(spec(), vec![spy, on(1, "c", "create"), on(2, "d", "delete")]);
    scenario.consistent = false;
    scenario.turn();
    check(
        &mut scenario,
        r#"
            debug (local): Handler 'spy' is invoked.
            call: spy Some("ADDED")
            info (local): Handler 'spy' succeeded.
            awaits a newer body
        "#,
    );
}

#[test]
fn objects_of_no_interest() {
    let filtered = declare(0, "c", json!({"reason": "create", "labels": {"tier": {"equals": "gold"}}}));
    let broken = json!({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{"}}});
    let mut scenario = Scenario::new(broken, vec![filtered]);
    scenario.play();
    check(&mut scenario, "");
}

#[test]
fn deletions_that_are_not_ours() {
    let held_by_others = json!({"metadata": {"finalizers": ["example.com/other"]}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(held_by_others, vec![on(0, "d", "delete")]);
    scenario.delete();
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Deletion, but we are done with it, and we do not care.
        "#,
    );
    scenario.event = Some(EventType::Deleted);
    scenario.play();
    check(
        &mut scenario,
        r#"
            debug: Deleted, really deleted, and we are notified.
        "#,
    );
}

/// In kopf 1.45, such an object is throttled and never handled.
#[test]
fn what_cannot_be_read_is_told_and_replaced() {
    let annotations = json!({
        "kopf.zalando.org/last-handled-configuration": "[]",
        "kopf.zalando.org/a": "{not json",
        "kopf.zalando.org/b": r#"{"retries":"many","started":"yesterday"}"#,
    });
    let content = json!({"metadata": {"annotations": annotations}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(content, vec![on(0, "a", "create"), on(1, "b", "create")])
        .with_settings(|settings| settings.lifecycle = Lifecycle::AllAtOnce);
    scenario.play();
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
fn what_cannot_be_read_is_removed_where_nothing_is_to_be_done() {
    let broken = json!({"metadata": {"annotations": {"kopf.zalando.org/a": "{"}}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(handled(broken, spec()), vec![on(0, "a", "update")]);
    scenario.play();
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
    scenario.play();
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
    scenario.play();
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
