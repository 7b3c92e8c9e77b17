//! What comes by the streams: in which order, how often, and what happens when they break.

use std::time::Duration;

use kopf_engine::{Severity, StorageContent};
use kopf_reaction::{DiffBaseStorage, ProgressStorage};
use serde_json::{Value, json};

use crate::cluster::{Asked, Fault, THINGS};
use crate::running::{Running, start};
use crate::script::{Hold, Script, done, patch, temporary};

fn changes() -> Script {
    Script::new(&[json!({"id": "create_fn", "reason": "create"}), json!({"id": "update_fn", "reason": "update"})])
}

/// The stream ends in a way, with things happening meanwhile: all of them are noticed.
#[tokio::test(start_paused = true)]
async fn streams_that_end_lose_nothing() {
    type End = fn(&mut crate::cluster::Cluster);
    let cases: [(&str, End, bool); 4] = [
        ("a proper end", |cluster| cluster.change(|store| store.end_watches(THINGS)), false),
        ("a break", |cluster| cluster.change(|store| store.break_watches(THINGS)), false),
        ("silence", |cluster| cluster.change(|store| store.mute_watches(THINGS)), false),
        (
            "a lost history",
            |cluster| {
                cluster.fault("watch things", Fault::Refused(500, "oops"));
                cluster.change(|store| store.end_watches(THINGS));
            },
            true,
        ),
    ];
    for (what, end, relisted) in cases {
        let running = start(changes(), |cluster| {
            for name in ["changed", "deleted", "same"] {
                cluster.create(name, json!({"field": 1}));
            }
        });
        for name in ["changed", "deleted", "same"] {
            running.wait_for_handling(name).await;
        }
        running.pass(10).await;
        end(&mut running.cluster.clone());
        running.cluster.update("changed", json!({"spec": {"field": 2}}));
        running.cluster.delete("deleted");
        running.cluster.create("created", json!({"field": 1}));
        if relisted {
            running.cluster.change(|store| store.forget_history());
        }
        running.wait_for_handling("changed").await;
        running.wait_for_handling("created").await;
        running.pass(200).await;
        let calls = running.script.calls();
        let mut later: Vec<_> = calls[3..].to_vec();
        later.sort();
        assert_eq!(later, ["create_fn(created)", "update_fn(changed)"], "{what}\n{}", running.story());
        let is_list = |asked: &&Asked| asked.label == "list things" && asked.parameter("limit") != Some("1");
        let lists = running.cluster.requests().iter().filter(is_list).count();
        assert_eq!(lists, if relisted { 2 } else { 1 }, "{what}");
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_vanished_unseen_is_not_tried_again() {
    let script = changes().on("create_fn", |_| temporary(100.0));
    let running = start(script, |cluster| {
        cluster.create("a", json!({"field": 1}));
        cluster.create("b", json!({"field": 1}));
    });
    running.wait_for_calls(2).await;
    running.pass(10).await;
    running.cluster.change(|store| {
        store.end_watches(THINGS);
        store.remove(THINGS, "ns", "a");
        store.forget_history();
    });
    running.pass(250).await;
    let calls = running.script.calls();
    let count = |name: &str| calls.iter().filter(|call| call.contains(name)).count();
    assert_eq!((count("(a)"), count("(b)")), (1, 3), "{}", running.story());
    assert!(running.cluster.patches("a").len() == 1, "{}", running.story());
}

#[tokio::test(start_paused = true)]
async fn what_vanishes_unseen_during_its_handling_is_forgotten_after_it() {
    let hold = Hold::new();
    let holding = hold.clone();
    let mut script = changes().on_async("create_fn", move |_| {
        let hold = holding.clone();
        Box::pin(async move {
            hold.wait().await;
            temporary(10.0)
        })
    });
    // All is stored elsewhere: there is no patch whose answer would tell.
    script.settings.persistence.progress_storage = ProgressStorage::Front;
    script.settings.persistence.diffbase_storage = DiffBaseStorage::Front;
    script.read_storage =
        Box::new(|body| StorageContent { new: Some(json!({"spec": body.spec()})), ..StorageContent::default() });
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_calls(1).await;
    running.cluster.change(|store| {
        store.end_watches(THINGS);
        store.remove(THINGS, "ns", "a");
        store.forget_history();
    });
    running.wait_for_request("list things", 2).await;
    running.pass(1).await;
    hold.release(10);
    running.pass(500).await;
    assert_eq!(running.script.calls(), ["create_fn(a)"], "{}", running.story());
}

#[tokio::test(start_paused = true)]
async fn of_many_changes_the_newest_wins() {
    let hold = Hold::new();
    let script = changes().held("create_fn", &hold).with(|settings| settings.queueing.worker_limit = Some(1));
    let running = start(script, |_| {});
    running.cluster.create("busy", json!({"field": 1}));
    running.wait_for_calls(1).await;
    running.cluster.create("a", json!({"field": 1}));
    for field in 2..10 {
        running.cluster.update("a", json!({"spec": {"field": field}}));
    }
    running.pass(10).await;
    hold.release(2);
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(busy)", "create_fn(a)"]).await;
    assert_eq!(running.script.seen().calls[1].body.spec()["field"], 9);
}

#[tokio::test(start_paused = true)]
async fn event_handlers_see_all_events_in_order_and_change_handlers_only_the_latest() {
    let hold = Hold::new();
    let script =
        Script::new(&[json!({"id": "event_fn", "kind": "watching"}), json!({"id": "create_fn", "reason": "create"})]);
    let script = script.held("create_fn", &hold);
    let running = start(script, |cluster| cluster.create("a", json!({"field": 0})));
    running.wait_for_calls(2).await;
    running.cluster.update("a", json!({"spec": {"field": 1}}));
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.pass(5).await;
    hold.release(10);
    running.wait_for_handling("a").await;
    running.pass(5).await;
    running.cluster.delete("a");
    running
        .wait("the last event", |running| running.script.seen().calls.iter().any(|call| call.event == Some("DELETED")))
        .await;
    running.pass(5).await;
    let seen = running.script.seen();
    let events = |call: &crate::script::Call| format!("{} {}", call.event.unwrap_or("-"), call.body.spec()["field"]);
    let spied: Vec<_> = seen.calls.iter().filter(|call| call.id == "event_fn").map(events).collect();
    // The echoes of our patches are two of them: of the creation, and of the update that nobody handles.
    assert_eq!(spied, ["- 0", "MODIFIED 1", "MODIFIED 2", "MODIFIED 2", "MODIFIED 2", "DELETED 2"]);
    let changed: Vec<_> = seen.calls.iter().filter(|call| call.id == "create_fn").map(events).collect();
    assert_eq!(changed, ["- 0"]);
}

#[tokio::test(start_paused = true)]
async fn change_handlers_skip_what_is_outdated_when_its_turn_comes() {
    let hold = Hold::new();
    let script = Script::new(&[
        json!({"id": "event_fn", "kind": "watching"}),
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
    ]);
    let script = script.held("create_fn", &hold).with(|settings| settings.queueing.worker_limit = Some(1));
    let running = start(script, |_| {});
    running.cluster.create("busy", json!({"field": 0}));
    running.wait_for_calls(2).await;
    running.cluster.create("a", json!({"field": 0}));
    for field in 1..4 {
        running.cluster.update("a", json!({"spec": {"field": field}}));
    }
    running.pass(5).await;
    hold.release(10);
    running.wait_for_handling("a").await;
    running.pass(5).await;
    let seen = running.script.seen();
    let of = |id: &str| -> Vec<Value> {
        let calls = seen.calls.iter().filter(|call| call.id == id && call.name == "a");
        calls.map(|call| call.body.spec()["field"].clone()).collect()
    };
    assert_eq!(of("event_fn"), [0, 1, 2, 3, 3], "with the echo of the patch");
    assert_eq!(of("create_fn"), [3]);
    assert_eq!(of("update_fn"), [0; 0]);
}

/// An event handler patches the object when it sees an old event, while a change is on its way: the change is not lost.
#[tokio::test(start_paused = true)]
async fn a_patch_of_an_event_handler_hides_no_change() {
    let script = Script::new(&[
        json!({"id": "event_fn", "kind": "watching"}),
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
    ]);
    // The first echo of our own patch is answered by a patch.
    let script = script.on("event_fn", |call| {
        let is_echo = !call.body.annotations().is_empty();
        if is_echo && call.body.labels().is_empty() {
            patch(json!({"metadata": {"labels": {"l": "1"}}}))
        } else {
            done()
        }
    });
    let running = start(script, |cluster| {
        cluster.create("a", json!({"field": 0}));
        // The first merge is ours, the second one is that of the event handler.
        cluster.fault("merge a", Fault::after(|_| {}));
        cluster.fault("merge a", Fault::after(|store| store.merge(THINGS, "ns", "a", &json!({"spec": {"field": 1}}))));
    });
    running.wait_for_calls(1).await;
    running.wait("the update", |running| running.script.calls().contains(&"update_fn(a)".to_owned())).await;
    running.wait_for_handling("a").await;
    running.pass(5).await;
    let updates = running.script.calls().iter().filter(|call| call.starts_with("update_fn")).count();
    assert_eq!(updates, 1, "{}", running.story());
}

#[tokio::test(start_paused = true)]
async fn live_changes_go_before_what_was_only_listed() {
    let hold = Hold::new();
    let script = changes().held("create_fn", &hold).with(|settings| settings.queueing.worker_limit = Some(1));
    let running = start(script, |cluster| {
        for name in ["a", "b", "c", "d"] {
            cluster.create(name, json!({"field": 1}));
        }
    });
    running.wait_for_calls(1).await;
    // One that waits among the listed ones, and one that is new.
    running.cluster.update("c", json!({"spec": {"field": 2}}));
    running.cluster.create("live", json!({"field": 1}));
    running.pass(5).await;
    hold.release(10);
    running.expect_calls(&["create_fn(a)", "create_fn(c)", "create_fn(live)", "create_fn(b)", "create_fn(d)"]).await;
}

#[tokio::test(start_paused = true)]
async fn objects_without_matching_handlers_are_left_alone() {
    let script = Script::new(&[
        json!({"id": "create_fn", "reason": "create", "labels": {"l": {"equals": "1"}}}),
        json!({"id": "delete_fn", "reason": "delete", "requires_finalizer": true, "labels": {"l": {"equals": "1"}}}),
    ]);
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_request("watch things", 1).await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.pass(50).await;
    running.cluster.delete("a");
    running.pass(50).await;
    assert!(running.cluster.patches("a").is_empty() && running.script.calls().is_empty(), "{}", running.story());
    let about = running.script.logged(Severity::Debug).into_iter().filter(|text| text.starts_with("[a]"));
    assert_eq!(about.collect::<Vec<_>>(), Vec::<String>::new());
}

/// A kind that is named in full is listed while it is still looked for, by one request. If that has failed, or is too old
/// when the kind was found, there is another one.
#[tokio::test(start_paused = true)]
async fn kinds_that_are_named_in_full_are_listed_at_once() {
    let named = json!({"group": "g.io", "version": "v1", "any_name": "things"});
    for (discovery_seconds, fault, expected) in [
        (1, None, 1),
        (1, Some(Fault::Refused(500, "oops")), 2),
        (1, Some(Fault::Broken), 2),
        (3, Some(Fault::Slow(Duration::from_secs(4))), 1),
        (10, None, 2),
    ] {
        let script = Script::new(&[json!({"id": "create_fn", "reason": "create", "selector": named})]);
        let running = start(script, |cluster| {
            cluster.create("before", json!({"field": 1}));
            cluster.fault("get /apis", Fault::Slow(Duration::from_secs(discovery_seconds)));
            if let Some(fault) = fault {
                cluster.fault("list things", fault);
            }
        });
        let began = tokio::time::Instant::now();
        running.wait_for_request("list things", 1).await;
        assert!(began.elapsed() < Duration::from_secs(1), "not listed before it was found");
        running.cluster.create("meanwhile", json!({"field": 1}));
        running.wait_for_handling("before").await;
        running.wait_for_handling("meanwhile").await;
        running.pass(100).await;
        let mut calls = running.script.calls();
        calls.sort();
        assert_eq!(calls, ["create_fn(before)", "create_fn(meanwhile)"], "{}", running.story());
        let lists = running.cluster.labels().iter().filter(|label| *label == "list things").count();
        assert_eq!(lists, expected, "{discovery_seconds} s\n{}", running.story());
        running.finish().await.unwrap();
    }
}

/// As after a restore of the server's storage from a backup: the versions begin again below those that were seen.
#[tokio::test(start_paused = true)]
async fn versions_that_go_back_are_believed() {
    let running = start(changes(), |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_handling("a").await;
    for field in 2..20 {
        running.cluster.update("a", json!({"spec": {"field": field}}));
    }
    running.wait_for_handling("a").await;
    let calls = running.script.calls().len();
    // Connections break when servers are restarted; a watch from a version that is yet to come would be silent.
    running.cluster.change(|store| {
        store.break_watches(THINGS);
        store.restore();
    });
    running.cluster.update("a", json!({"spec": {"field": 100}}));
    running.wait_for_handling("a").await;
    assert_eq!(running.script.calls().len(), calls + 1, "{}", running.story());
    let warnings = running.script.logged(Severity::Warning);
    assert!(warnings.iter().any(|text| text.starts_with("The server has gone back in its history")), "{warnings:?}");
    running.finish().await.unwrap();
}

/// The daemons of an object that is throttled after an error are stopped as soon as the object is gone.
#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_for_the_end_of_a_throttling() {
    let script = Script::new(&[
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "daemon_fn", "kind": "daemon", "background": {}}),
    ]);
    let script = script.with(|settings| settings.queueing.error_delays = vec![600.0]).on_async("daemon_fn", |call| {
        Box::pin(async move {
            let mut stops = call.background.unwrap().stops;
            let _ = stops.changed().await;
            crate::script::done()
        })
    });
    let running = start(script, |cluster| {
        cluster.fault("merge a", Fault::Refused(403, "forbidden"));
        cluster.create("a", json!({"field": 1}));
    });
    running.wait("the throttling", |running| !running.script.logged(Severity::Error).is_empty()).await;
    let under_way = |running: &Running| running.script.seen().under_way.get("daemon_fn").map_or(0, |(now, _)| *now);
    assert_eq!(under_way(&running), 1);
    running.cluster.change(|store| store.remove(THINGS, "ns", "a"));
    let began = tokio::time::Instant::now();
    running.wait("the end of the daemon", |running| under_way(running) == 0).await;
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    running.finish().await.unwrap();
}
