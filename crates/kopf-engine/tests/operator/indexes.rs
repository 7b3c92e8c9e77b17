//! Indexes are complete before any handler is called, and follow the objects from then on.

use serde_json::json;

use crate::cluster::{NAMESPACE, THINGS};
use crate::running::start;
use crate::script::{Hold, Script, done, temporary};

fn asks(running: &crate::running::Running) -> Vec<String> {
    running.script.seen().asks.iter().filter(|ask| ask.starts_with("unindex")).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn all_objects_are_indexed_before_any_handler_is_called() {
    let hold = Hold::new();
    let script = Script::new(&[
        json!({"id": "index_fn", "kind": "indexing"}),
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "event_fn", "kind": "watching"}),
    ])
    .held("index_fn", &hold);
    let running = start(script, |cluster| {
        for name in ["a", "b", "c"] {
            cluster.create(name, json!({}));
        }
    });
    running.wait_for_calls(3).await;
    hold.release(2);
    running.pass(60).await;
    let mut calls = running.script.calls();
    calls.sort();
    assert_eq!(calls, ["index_fn(a)", "index_fn(b)", "index_fn(c)"], "{}", running.story());

    hold.release(100);
    running
        .wait("all handlers are called", |running| {
            let calls = running.script.calls();
            ["create_fn(a)", "create_fn(b)", "create_fn(c)", "event_fn(c)"]
                .iter()
                .all(|call| calls.contains(&(*call).to_owned()))
        })
        .await;
    let listed =
        running.script.seen().calls.iter().filter(|call| call.id == "event_fn" && call.event.is_none()).count();
    assert_eq!(listed, 3, "the event handlers see the listing as usual: {}", running.story());
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_the_objects() {
    let script = Script::new(&[json!({"id": "index_fn", "kind": "indexing", "labels": {"app": {"equals": "x"}}})]);
    let running = start(script, |cluster| {
        cluster.change(|store| {
            store.create(THINGS, NAMESPACE, json!({"metadata": {"name": "a", "labels": {"app": "x"}}}));
        });
    });
    running.wait_for_calls(1).await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.wait_for_calls(2).await;
    assert!(asks(&running).is_empty(), "{}", running.story());
    // It does not match any more.
    running.cluster.update("a", json!({"metadata": {"labels": {"app": "y"}}}));
    running.wait("it is excluded", |running| asks(running).len() == 1).await;
    running.cluster.update("a", json!({"metadata": {"labels": {"app": "x"}}}));
    running.wait_for_calls(3).await;
    running.cluster.delete("a");
    running.wait("it is gone", |running| asks(running).len() == 2).await;
    assert!(asks(&running).iter().all(|ask| ask.ends_with(" index_fn")));
    running.expect_calls(&["index_fn(a)", "index_fn(a)", "index_fn(a)"]).await;
    assert!(!running.cluster.labels().iter().any(|label| label.starts_with("merge")), "an index patches nothing");
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_ones_are_tried_again_without_any_change() {
    let script =
        Script::new(&[json!({"id": "index_fn", "kind": "indexing"}), json!({"id": "create_fn", "reason": "create"})])
            .on("index_fn", |call| if call.retry < 2 { temporary(100.0) } else { done() });
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_handling("a").await;
    running.wait_for_calls(4).await;
    let mut calls = running.script.calls();
    calls.retain(|call| call.starts_with("index_fn"));
    assert_eq!(calls, ["index_fn(a)", "index_fn(a)#1", "index_fn(a)#2"], "{}", running.story());
    running.finish().await.unwrap();
}
