//! Creations, retries, errors and timeouts.

use jiff::SignedDuration;
use kopf_reaction::Lifecycle;
use serde_json::json;

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{arbitrary, on, spec, temporary};

#[test]
fn creation_with_one_handler() {
    let mut scenario =
        Scenario::new(spec(), vec![on(0, "a", "create")]).with_outcomes("a", [Ok(Some(json!({"done": true})))]);
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_cycle();
    scenario.now = scenario.now.checked_add(SignedDuration::from_secs(3600)).expect("a time");
    scenario.protocol.clear();
    scenario.run_until_idle();
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
