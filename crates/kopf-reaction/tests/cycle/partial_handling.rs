//! Changes while some handlers are finished and others are not.

use serde_json::json;

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{handled, on, spec, temporary};

/// In kopf 1.45, `a` does not see the second change.
#[test]
fn a_change_amid_the_handling_becomes_the_next_update() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.run_cycle();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 3}}));
    scenario.run_until_idle();
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

/// In kopf 1.45, `a` never sees the change to 3: its success with 2 counts for 3, too.
#[test]
fn a_change_while_the_operator_is_down_amid_the_handling_becomes_the_next_update() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.run_cycle();
    scenario.edit(json!({"spec": {"x": 3}}));
    scenario.restart();
    scenario.run_until_idle();
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

/// The lines with the numbers of succeeded handlers.
fn processed(scenario: &Scenario) -> Vec<&str> {
    scenario.protocol.iter().filter(|line| line.contains(" is processed: ")).map(String::as_str).collect()
}

/// Handlers that have seen the latest state are not called in the next update, but still count in the creation.
#[test]
fn handlers_that_have_seen_the_current_state_count_once_per_batch() {
    let mut scenario = Scenario::new(
        spec(),
        vec![on(0, "a", "create"), on(1, "b", "create"), declare(2, "f", json!({"field": ["spec", "x"]}))],
    );
    scenario.run_cycle();
    scenario.edit(json!({"spec": {"y": 2}}));
    scenario.run_until_idle();
    assert_eq!(processed(&scenario)[0], "info: Creation is processed: 3 succeeded; 0 failed.");
}

#[test]
fn functions_with_one_id_share_one_record_and_count_once() {
    let handlers = vec![on(0, "a", "create"), on(1, "a", "resume"), on(2, "b", "create")];
    let mut scenario = Scenario::new(spec(), handlers).with_outcomes("a", [temporary(1.0)]);
    scenario.run_until_idle();
    assert_eq!(processed(&scenario), ["info: Creation is processed: 2 succeeded; 0 failed."]);
}

/// In kopf 1.45, the progress stays on the object, and `a` does not see that its change was reverted.
#[test]
fn a_change_that_is_taken_back_is_undone() {
    let mut scenario = Scenario::new(handled(spec(), spec()), vec![on(0, "a", "update"), on(1, "b", "update")]);
    scenario.edit(json!({"spec": {"x": 2}}));
    scenario.run_cycle();
    scenario.protocol.clear();
    scenario.edit(json!({"spec": {"x": 1}}));
    scenario.run_until_idle();
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
