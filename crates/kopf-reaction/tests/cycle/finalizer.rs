//! The finalizer: added first, removed last.

use kopf_reaction::EventType;
use serde_json::json;

use crate::simulation::declare;
use crate::simulation::scenario::{Scenario, check};
use crate::{on, spec};

#[test]
fn the_finalizer_comes_first_and_goes_last() {
    let mut scenario = Scenario::new(spec(), vec![on(0, "c", "create"), on(1, "d", "delete")]);
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
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
    scenario.run_cycle();
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
    scenario.run_cycle();
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
    scenario.run_until_idle();
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
    scenario.run_until_idle();
    check(
        &mut scenario,
        r#"
            debug: Deletion, but we are done with it, and we do not care.
        "#,
    );
}
