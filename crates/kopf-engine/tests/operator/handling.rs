//! Objects are created, changed and deleted, and nothing goes wrong: which calls, and which requests.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use kopf_engine::Severity;
use kopf_reaction::CallError;
use serde_json::{Value, json};

use crate::cluster::{Fault, THINGS};
use crate::running::start;
use crate::script::{Hold, Reply, Script, done, patch, permanent, result, temporary};

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
const LAST_HANDLED: &str = "kopf.zalando.org/last-handled-configuration";

/// Handlers of creations, updates and deletions.
pub(crate) fn basic() -> Script {
    Script::new(&[
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
        json!({"id": "delete_fn", "reason": "delete", "requires_finalizer": true}),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_whole_life_costs_few_patches_and_no_reading() {
    let script = basic().on("create_fn", |_| result(json!("created"))).on("update_fn", |_| result(json!({"n": 1})));
    let running = start(script, |_| {});
    running.wait("a ready operator", |running| running.script.seen().ready).await;

    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_handling("a").await;
    running.pass(10).await;
    let test = |version: &str| json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    let handled = |field: i64| {
        let essence = format!("{{\"spec\":{{\"field\":{field}}}}}\n");
        json!({"metadata": {"annotations": {LAST_HANDLED: essence}, "uid": "uid-3"}})
    };
    let mut expected = vec![
        ("json a", json!([test("103"), {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}])),
        ("merge a/status", json!({"status": {"create_fn": "created"}, "metadata": {"uid": "uid-3"}})),
        ("merge a", handled(1)),
    ];
    assert_eq!(patches(&running), texts(&expected));

    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.wait_for_handling("a").await;
    running.pass(10).await;
    expected.push(("merge a/status", json!({"status": {"update_fn": {"n": 1}}, "metadata": {"uid": "uid-3"}})));
    expected.push(("merge a", handled(2)));
    assert_eq!(patches(&running), texts(&expected));

    running.cluster.delete("a");
    running.wait("the end of the object", |running| running.cluster.get("a").is_none()).await;
    running.pass(10).await;
    expected.push(("json a", json!([test("110"), {"op": "remove", "path": "/metadata/finalizers"}])));
    assert_eq!(patches(&running), texts(&expected));

    assert_eq!(running.script.calls(), ["create_fn(a)", "update_fn(a)", "delete_fn(a)"]);
    let seen: Vec<_> = running.script.seen().calls.iter().map(|call| (call.reason, call.old.clone())).collect();
    let old = |field: i64| Some(json!({"spec": {"field": field}}));
    assert_eq!(seen, [(Some("create"), None), (Some("update"), old(1)), (Some("delete"), old(2))]);
    let labels = running.cluster.labels();
    assert!(!labels.contains(&"get a".to_owned()), "{labels:?}");
    assert_eq!(labels.iter().filter(|label| *label == "list things").count(), 1, "{labels:?}");
    assert_eq!(running.script.logged(Severity::Warning), Vec::<String>::new());
    let notes = running.script.logged(Severity::Debug);
    assert!(notes.contains(&"[a] Deleted, really deleted, and we are notified.".to_owned()), "{notes:#?}");
    running.finish().await.unwrap();
}

fn patches(running: &crate::running::Running) -> Vec<String> {
    running.cluster.patches("a").into_iter().map(|(label, body)| format!("{label} {body}")).collect()
}

fn texts(expected: &[(&str, Value)]) -> Vec<String> {
    expected.iter().map(|(label, body)| format!("{label} {body}")).collect()
}

#[tokio::test(start_paused = true)]
async fn without_the_subresource_one_patch_holds_it_all() {
    let script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]);
    let script = script.on("create_fn", |_| result(json!("created")));
    let running = start(script, |cluster| cluster.change(|store| store.status_is_subresource = false));
    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"]).await;
    let patches = running.cluster.patches("a");
    assert_eq!(patches.len(), 1, "{}", running.story());
    assert_eq!(running.cluster.field("a", "/status/create_fn"), "created");
}

/// A handler fails in a way; then the calls, and the seconds between them.
#[tokio::test(start_paused = true)]
async fn retries_come_at_their_times() {
    type Failing = fn() -> Reply;
    let arbitrary = || crate::script::fail(CallError::Arbitrary { message: "oops".into(), display: "oops".into() });
    let cases: [(&str, Value, Failing, &[u64]); 6] = [
        ("a delay", json!({}), || temporary(7.0), &[0, 7, 14]),
        ("no delay", json!({}), || temporary(0.0), &[0, 0, 0]),
        ("the default backoff", json!({}), arbitrary, &[0, 60, 120]),
        ("a backoff", json!({"backoff": {"constant": 5}}), arbitrary, &[0, 5, 10]),
        ("few retries", json!({"retries": 2}), arbitrary, &[0, 60]),
        ("for good", json!({}), || permanent("never"), &[0]),
    ];
    for (what, options, failing, expected) in cases {
        let mut declaration = json!({"id": "create_fn", "reason": "create"});
        declaration.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let start_of_test = tokio::time::Instant::now();
        let times = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let recorded = std::sync::Arc::clone(&times);
        let script = Script::new(&[declaration]).on("create_fn", move |call| {
            recorded.lock().unwrap().push(start_of_test.elapsed().as_secs());
            if call.retry < 2 { failing() } else { done() }
        });
        let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
        running.wait_for_handling("a").await;
        running.pass(300).await;
        assert_eq!(*times.lock().unwrap(), expected, "{what}\n{}", running.story());
        let annotations = running.cluster.field("a", "/metadata/annotations");
        assert_eq!(annotations.as_object().unwrap().keys().collect::<Vec<_>>(), [LAST_HANDLED], "{what}");
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_one_patch() {
    let script = Script::new(&[
        json!({"id": "first_fn", "reason": "create"}),
        json!({"id": "second_fn", "reason": "create"}),
        json!({"id": "third_fn", "reason": "create"}),
    ]);
    let script = script.on("second_fn", |call| if call.retry == 0 { temporary(3.0) } else { done() });
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_handling("a").await;
    running.expect_calls(&["first_fn(a)", "second_fn(a)", "third_fn(a)", "second_fn(a)#1"]).await;
    let labels: Vec<_> = running.cluster.patches("a").into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels, ["merge a"; 4]);
}

#[tokio::test(start_paused = true)]
async fn resuming_is_for_what_was_listed_at_the_start() {
    let script = Script::new(&[
        json!({"id": "resume_fn", "initial": true}),
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
    ]);
    let handled = json!({"annotations": {LAST_HANDLED: "{\"spec\":{\"field\":1}}\n"}});
    let object = |name: &str, field: i64| {
        let mut object = json!({"metadata": handled, "spec": {"field": field}});
        object["metadata"]["name"] = json!(name);
        object
    };
    let running = start(script, |cluster| {
        for (name, field) in [("same", 1), ("changed", 2)] {
            cluster.change(|store| store.create("things", "ns", object(name, field)));
        }
        cluster.create("unseen", json!({"field": 1}));
    });
    running.wait_for_calls(4).await;
    running.cluster.create("later", json!({"field": 1}));
    running.wait_for_calls(5).await;
    running.pass(100).await;
    let mut calls = running.script.calls();
    calls.sort();
    // What was never handled is created, not resumed.
    let expected =
        ["create_fn(later)", "create_fn(unseen)", "resume_fn(changed)", "resume_fn(same)", "update_fn(changed)"];
    assert_eq!(calls, expected, "{}", running.story());
    assert!(running.cluster.patches("same").is_empty(), "there was nothing to store");
}

#[tokio::test(start_paused = true)]
async fn an_update_during_the_handling_is_handled_next_and_once() {
    let hold = crate::script::Hold::new();
    let script =
        Script::new(&[json!({"id": "create_fn", "reason": "create"}), json!({"id": "update_fn", "reason": "update"})]);
    let running = start(script.held("create_fn", &hold), |_| {});
    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_calls(1).await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.cluster.update("a", json!({"spec": {"field": 3}}));
    running.pass(10).await;
    hold.release(1);
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)", "update_fn(a)"]).await;
    let seen = running.script.seen();
    let (old, new) = (seen.calls[1].old.clone(), seen.calls[1].new.clone());
    assert_eq!((old, new), (Some(json!({"spec": {"field": 1}})), Some(json!({"spec": {"field": 3}}))));
}

#[tokio::test(start_paused = true)]
async fn sub_handlers_of_sub_handlers() {
    let child = |index: usize, id: &str| crate::script::handler(index, &json!({"id": id, "reason": "create"}));
    let parent = move |children: Vec<(usize, &'static str)>| {
        move |call: crate::script::Call| -> futures::future::BoxFuture<'static, Reply> {
            let handlers = children.iter().map(|(index, id)| child(*index, id)).collect();
            Box::pin(async move {
                match call.children.execute(handlers, None).await {
                    Some(reply) if reply.done => done(),
                    Some(reply) => crate::script::fail(CallError::ChildrenRetry { delay: reply.delay_seconds }),
                    None => permanent("the cycle is over"),
                }
            })
        }
    };
    let script = Script::new(&[json!({"id": "create_fn", "reason": "create"})])
        .on_async("create_fn", parent(vec![(11, "create_fn/a"), (12, "create_fn/b")]))
        .on_async("create_fn/b", parent(vec![(13, "create_fn/b/c")]))
        .on("create_fn/a", |_| result(json!("of a")))
        .on("create_fn/b/c", |call| if call.retry == 0 { temporary(5.0) } else { result(json!("of c")) });
    let running = start(script, |cluster| cluster.create("obj", json!({"field": 1})));
    running.wait_for_handling("obj").await;
    running.pass(100).await;
    let calls = running.script.calls();
    let count = |id: &str| calls.iter().filter(|call| call.starts_with(&format!("{id}("))).count();
    assert_eq!((count("create_fn/a"), count("create_fn/b/c")), (1, 2), "{}", running.story());
    assert_eq!(running.cluster.field("obj", "/status/create_fn~1a"), "of a");
    assert_eq!(running.cluster.field("obj", "/status/create_fn~1b~1c"), "of c");
    let annotations = running.cluster.field("obj", "/metadata/annotations");
    assert_eq!(annotations.as_object().unwrap().len(), 1, "{annotations}");
}

#[tokio::test(start_paused = true)]
async fn patches_and_transformations_of_handlers_are_applied() {
    let mut script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]).on("create_fn", |_| Reply {
        transformations: true,
        ..patch(json!({"metadata": {"labels": {"l": "1"}}, "status": {"s": 1}}))
    });
    script.transform = Box::new(|mut body| {
        body["spec"]["items"] = json!([1, 2]);
        body["status"]["items"] = json!([3]);
        body
    });
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait("the transformation", |running| !running.cluster.field("a", "/status/items").is_null()).await;
    running.pass(5).await;
    let labels: Vec<_> = running.cluster.patches("a").into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels[..4], ["merge a/status", "merge a", "json a/status", "json a"], "{}", running.story());
    let object = running.cluster.get("a").unwrap();
    assert_eq!(object["spec"], json!({"field": 1, "items": [1, 2]}));
    assert_eq!(object["status"], json!({"s": 1, "items": [3]}));
    assert_eq!(object["metadata"]["labels"], json!({"l": "1"}));
}

/// kube-apiserver deletes an object at once, if it has read it before the finalizer was added: the watch shows it with our
/// finalizer, and without a time of its deletion.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_overtakes_the_finalizer_is_handled_in_memory() {
    let failures = AtomicUsize::new(2);
    let script =
        basic().on("delete_fn", move |_| match failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => temporary(30.0),
            Err(_) => result(json!("undone")),
        });
    let running = start(script, |_| {});
    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_handling("a").await;
    running.cluster.change(|store| store.remove(THINGS, "ns", "a"));
    // A listing meanwhile does not make it forgotten.
    running.wait_for_calls(2).await;
    running.cluster.fault("watch things", Fault::Refused(410, "expired"));
    running.cluster.change(|store| store.end_watches(THINGS));
    running.expect_calls(&["create_fn(a)", "delete_fn(a)", "delete_fn(a)#1", "delete_fn(a)#2"]).await;
    let patches = running.cluster.patches("a").len();
    running.pass(1000).await;
    assert_eq!(running.script.calls().len(), 4, "{}", running.story());
    assert_eq!(running.cluster.patches("a").len(), patches, "nothing is patched");
    let expected = "[a] The object was deleted at the moment when the finalizer was added";
    let warnings = running.script.logged(Severity::Warning);
    assert_eq!(warnings.iter().filter(|text| text.starts_with(expected)).count(), 1, "{warnings:?}");
    running.finish().await.unwrap();
}

/// The same while the creation is still being handled, or before it was begun.
#[tokio::test(start_paused = true)]
async fn a_deletion_amid_the_creation_is_handled_only_if_the_creation_was_begun() {
    for is_begun in [true, false] {
        let hold = Hold::new();
        let script = basic().held("create_fn", &hold);
        let running = start(script, |cluster| {
            if !is_begun {
                let fault = Fault::after(|store| store.remove(THINGS, "ns", "a"));
                cluster.fault("json a", fault);
            }
        });
        running.cluster.create("a", json!({"field": 1}));
        let mut expected = Vec::new();
        if is_begun {
            running.wait_for_calls(1).await;
            running.cluster.change(|store| store.remove(THINGS, "ns", "a"));
            hold.release(1);
            expected = vec!["create_fn(a)", "delete_fn(a)"];
        }
        running.expect_calls(&expected).await;
        running.finish().await.unwrap();
    }
}

/// The change handlers go on with the answer to a patch; the event handlers see the same version when the watch brings it.
#[tokio::test(start_paused = true)]
async fn event_handlers_see_our_own_patches_by_the_watch() {
    let script = Script::new(&[
        json!({"id": "event_fn", "kind": "watching"}),
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
    ]);
    let script = script.on("create_fn", |_| patch(json!({"spec": {"field": 2}})));
    let running = start(script, |_| {});
    running.cluster.create("a", json!({"field": 1}));
    running.expect_calls(&["event_fn(a)", "create_fn(a)", "update_fn(a)", "event_fn(a)", "event_fn(a)"]).await;
}
