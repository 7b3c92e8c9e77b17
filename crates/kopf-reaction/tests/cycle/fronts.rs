//! Sub-handlers, storages, lifecycles, callbacks and event handlers.

use std::collections::HashMap;

use kopf_object::FieldPath;
use kopf_reaction::{DiffBaseStorage, EventType, Lifecycle, ProgressStorage};
use serde_json::{Value, json};

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{arbitrary, on, spec, temporary};

#[test]
fn children() {
    let mut scenario = Scenario::new(spec(), vec![on(0, "p", "create")])
        .with_outcomes("p/a", [Ok(Some(json!("one")))])
        .with_outcomes("p/b", [temporary(5.0)]);
    scenario.children.insert("p", vec![declare(10, "p/a", json!({})), declare(11, "p/b", json!({}))]);
    scenario.run_until_idle();
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
    scenario.run_cycle();
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
    scenario.run_cycle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
fn event_handlers_are_called_for_every_event() {
    let event_handler = |index, id| declare(index, id, json!({"kind": "watching"}));
    let mut scenario = Scenario::new(spec(), vec![event_handler(0, "a"), event_handler(1, "b")])
        .with_outcomes("a", [arbitrary()])
        .with_outcomes("b", [Ok(Some(json!(5)))]);
    scenario.run_cycle();
    scenario.run_cycle();
    scenario.event = Some(EventType::Deleted);
    scenario.run_cycle();
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

/// A body that is older than our own patch is for the event handlers only.
#[test]
fn outdated_bodies() {
    let event_handler = declare(0, "e", json!({"kind": "watching"}));
    let mut scenario = Scenario::new(spec(), vec![event_handler, on(1, "c", "create"), on(2, "d", "delete")]);
    scenario.consistent = false;
    scenario.run_cycle();
    check(
        &mut scenario,
        r#"
            debug (local): Handler 'e' is invoked.
            call: e Some("ADDED")
            info (local): Handler 'e' succeeded.
            awaits a newer body
        "#,
    );
}

#[test]
fn objects_of_no_interest() {
    let filtered = declare(0, "c", json!({"reason": "create", "labels": {"tier": {"equals": "gold"}}}));
    let broken = json!({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{"}}});
    let mut scenario = Scenario::new(broken, vec![filtered]);
    scenario.run_until_idle();
    check(&mut scenario, "");
}

#[test]
fn deletions_that_are_not_ours() {
    let held_by_others = json!({"metadata": {"finalizers": ["example.com/other"]}, "spec": {"x": 1}});
    let mut scenario = Scenario::new(held_by_others, vec![on(0, "d", "delete")]);
    scenario.delete();
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Deletion, but we are done with it, and we do not care.
        "#,
    );
    scenario.event = Some(EventType::Deleted);
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Deleted, really deleted, and we are notified.
        "#,
    );
}
