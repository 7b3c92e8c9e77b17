//! Operators that know of each other: what happens before the peers are known, and after a pause.

use std::time::Duration;

use kopf_engine::Severity;
use serde_json::{Value, json};

use crate::cluster::{Fault, PEERINGS};
use crate::running::{Running, start};
use crate::script::Script;

/// The kind is named in full, so that its objects are listed while the kinds are discovered.
fn script() -> Script {
    let selector = json!({"group": "g.io", "version": "v1", "plural": "things"});
    let script = Script::new(&[json!({"id": "create_fn", "reason": "create", "selector": selector})]);
    script.with(|settings| settings.peering.clusterwide = true)
}

/// An operator in a cluster with a peering object, where another operator has the higher priority.
fn start_beside_a_boss(faults: Vec<(&str, Fault)>) -> Running {
    start(script(), |cluster| {
        cluster.change(|store| {
            store.peering_is_served = true;
            let boss = json!({"priority": 10, "lifetime": 600, "lastseen": "2030-01-01T00:00:00Z"});
            store.create(PEERINGS, "", json!({"metadata": {"name": "default"}, "status": {"boss": boss}}));
        });
        for (label, fault) in faults {
            cluster.fault(label, fault);
        }
        cluster.create("a", json!({"field": 1}));
    })
}

fn has_logged(running: &Running, start: &str) -> bool {
    running.script.logged(Severity::Debug).iter().any(|text| text.starts_with(start))
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_before_the_peers_are_known() {
    let late = Fault::Slow(Duration::from_secs(3));
    let running = start_beside_a_boss(vec![("list clusterkopfpeerings", late)]);
    running.wait_for_request("list clusterkopfpeerings", 1).await;
    running.pass(2).await;
    assert!(!has_logged(&running, "Pausing operations"), "{}", running.story());
    running.wait("the pause", |running| has_logged(running, "Pausing operations in favour of")).await;
    running.pass(60).await;
    assert!(!has_logged(&running, "Starting the watch-stream for things"), "{}", running.story());
    assert!(!has_logged(&running, "The watch-streams are resumed"), "{}", running.story());
    assert_eq!(running.script.calls(), Vec::<String>::new());
    running.finish().await.unwrap();
}

/// The page that was asked for at the start shows the object as it was before the pause.
#[tokio::test(start_paused = true)]
async fn after_a_pause_objects_are_listed_as_they_are() {
    let running = start_beside_a_boss(Vec::new());
    running.wait("the pause", |running| has_logged(running, "Pausing operations in favour of")).await;
    assert!(running.cluster.labels().contains(&"list things".to_owned()), "{}", running.story());
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    // Soon enough for the page to be in use otherwise.
    running.cluster.change(|store| store.merge(PEERINGS, "", "default", &json!({"status": {"boss": null}})));
    running.wait_for_handling("a").await;
    let seen: Vec<Value> = running.script.seen().calls.iter().map(|call| call.body.spec()["field"].clone()).collect();
    assert_eq!(seen, [2], "{}", running.story());
    running.finish().await.unwrap();
}

/// A peer that was there when the page was asked for, and is gone when the peers become known, has left its work behind.
#[tokio::test(start_paused = true)]
async fn objects_are_listed_as_they_are_also_without_a_pause() {
    let leave = Fault::after(|store| {
        store.merge("things", "ns", "a", &json!({"spec": {"field": 2}}));
        store.merge(PEERINGS, "", "default", &json!({"status": {"boss": null}}));
    });
    let running = start_beside_a_boss(vec![("list clusterkopfpeerings", leave)]);
    running.wait_for_handling("a").await;
    let seen: Vec<Value> = running.script.seen().calls.iter().map(|call| call.body.spec()["field"].clone()).collect();
    assert_eq!(seen, [2], "{}", running.story());
    running.finish().await.unwrap();
}

/// Without its peering, an operator would work beside its peers, or pause for ever.
#[tokio::test(start_paused = true)]
async fn a_crash_of_the_peering_ends_the_operator() {
    let function = json!({"selector": {"plural": "clusterkopfpeerings", "callback": true}, "value": "x=y", "index": 9});
    let mut script = script().with(|settings| {
        settings.watching.label_selectors = vec![serde_json::from_value(function).unwrap()];
    });
    script.select = Box::new(|_| panic!("a bug, on purpose"));
    let running = start(script, |cluster| cluster.change(|store| store.peering_is_served = true));
    let logged = running.script.clone();
    let error = running.end().await.unwrap_err().to_string();
    assert_eq!(error, "The watch-stream of clusterkopfpeerings.v1.kopf.dev has crashed: a bug, on purpose.");
    assert!(logged.logged(Severity::Error).iter().any(|text| text.starts_with(&error)));
}
