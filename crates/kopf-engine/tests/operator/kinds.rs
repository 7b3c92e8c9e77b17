//! Kinds and namespaces that come and go while the operator runs.

use kopf_engine::Severity;
use serde_json::json;

use crate::cluster::{NAMESPACES, THINGS};
use crate::running::{start, start_with};
use crate::script::{Hold, Script};

fn creations() -> Script {
    Script::new(&[json!({"id": "create_fn", "reason": "create"})])
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_appears_later_is_served_then() {
    let running = start(creations(), |cluster| cluster.change(|store| store.undefine()));
    running.wait("a ready operator", |running| running.script.seen().ready).await;
    running.pass(50).await;
    let warnings = running.script.logged(Severity::Warning);
    assert!(warnings[0].starts_with("Unresolved resources cannot be served (try creating their CRDs)"), "{warnings:?}");
    running.cluster.change(|store| store.define());
    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"]).await;
}

/// The kind goes and comes back while a handler runs: the new object of the same name is not touched by the old one.
#[tokio::test(start_paused = true)]
async fn objects_of_a_recreated_kind_are_new_objects() {
    let hold = Hold::new();
    let running = start(creations().held("create_fn", &hold), |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_calls(1).await;
    running.cluster.change(|store| store.undefine());
    running.pass(30).await;
    running.cluster.change(|store| store.define());
    running.cluster.create("a", json!({"field": 2}));
    running.wait_for_calls(2).await;
    hold.release(1);
    running.wait_for_request("merge a", 1).await;
    running.pass(30).await;
    assert!(!running.cluster.is_handled("a"), "the handler of the new object is still running\n{}", running.story());
    hold.release(1);
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"; 2]).await;
    let uids: Vec<_> = running.cluster.patches("a").iter().map(|(_, body)| body["metadata"]["uid"].clone()).collect();
    assert_eq!(uids.len(), 2, "{uids:?}");
    assert_ne!(uids[0], uids[1]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_appear_and_disappear() {
    let script = creations().on("create_fn", |_| crate::script::temporary(10.0));
    let running = start_with(
        script,
        &[],
        |_| {},
        |options| {
            options.clusterwide = false;
            options.namespaces = vec!["app-*".to_owned()];
        },
    );
    let create = |namespace: &str, name: &str| {
        let object = json!({"metadata": {"name": name}, "spec": {"field": 1}});
        running.cluster.change(|store| store.create(THINGS, namespace, object));
    };
    running.wait("a ready operator", |running| running.script.seen().ready).await;
    create("ns", "unseen");
    create("app-1", "early");
    running.pass(5).await;
    assert_eq!(running.script.calls(), [""; 0]);
    running.cluster.change(|store| store.create(NAMESPACES, "", json!({"metadata": {"name": "app-1"}})));
    running.wait_for_calls(1).await;
    create("app-1", "late");
    running.wait_for_calls(2).await;
    running.cluster.change(|store| store.remove(NAMESPACES, "", "app-1"));
    running.pass(5).await;
    let before = running.script.calls().len();
    create("app-1", "after");
    running.pass(100).await;
    let calls = running.script.calls();
    assert_eq!(calls.len(), before, "nothing of the namespace is tried again: {calls:?}");
    assert!(calls.iter().all(|call| call.starts_with("create_fn(early)") || call.starts_with("create_fn(late)")));

    running.cluster.change(|store| store.create(NAMESPACES, "", json!({"metadata": {"name": "app-1"}})));
    let after =
        |running: &crate::running::Running| running.script.calls().iter().any(|call| call == "create_fn(after)");
    running.wait("the namespace is served again", after).await;
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn namespaces_by_regular_expressions() {
    let running = start_with(
        creations(),
        &[],
        |cluster| cluster.create("a", json!({"field": 1})),
        |options| {
            options.clusterwide = false;
            options.namespace_expressions = vec!["n.".to_owned()];
        },
    );
    running.wait_for_handling("a").await;
    let paths: Vec<_> = running.cluster.requests().into_iter().filter(|asked| asked.label == "list things").collect();
    assert_eq!(paths[0].path, "/apis/g.io/v1/namespaces/ns/things");
}
