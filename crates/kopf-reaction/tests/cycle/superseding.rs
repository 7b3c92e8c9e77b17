//! Reasons that supersede others, and resuming.

use serde_json::json;

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{handled, on, spec, temporary};

#[test]
fn creation_is_superseded_by_deletion() {
    let handlers = vec![on(0, "a", "create"), on(1, "b", "create"), on(2, "d", "delete")];
    let mut scenario = Scenario::new(spec(), handlers).with_outcomes("b", [temporary(60.0)]);
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.protocol.clear();
    scenario.delete();
    scenario.run_until_idle();
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
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.protocol.clear();
    scenario.delete();
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
