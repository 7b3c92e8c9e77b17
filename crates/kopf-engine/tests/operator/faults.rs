//! Patches whose answers are unclear, refused, or too late; objects that change or vanish under the hands.

use std::time::Duration;

use kopf_engine::Severity;
use serde_json::{Value, json};

use crate::cluster::{Fault, THINGS};
use crate::handling::basic;
use crate::running::start;
use crate::script::{Hold, Reply, Script, done, patch, result};

fn simple() -> Script {
    Script::new(&[json!({"id": "create_fn", "reason": "create"})])
}

/// Faults of some requests for the object `a`; whatever they are, it is handled in full, by one call.
#[tokio::test(start_paused = true)]
async fn what_is_unclear_is_found_out() {
    let change = |field: i64| {
        Fault::after(move |store| {
            store.merge(THINGS, "ns", "a", &json!({"metadata": {"labels": {"l": field.to_string()}}}))
        })
    };
    let cases: Vec<(&str, Vec<(&str, Fault)>)> = vec![
        ("the finalizer is added, but who knows", vec![("json a", Fault::Done(504))]),
        ("the finalizer is not added, who knows", vec![("json a", Fault::Refused(504, "timeout"))]),
        (
            "it is unclear, and the look at it is, too",
            vec![("json a", Fault::Done(504)), ("merge a", Fault::Done(504))],
        ),
        ("the connection breaks at the finalizer", vec![("json a", Fault::Broken)]),
        ("the finalizer is answered late", vec![("json a", Fault::Slow(Duration::from_secs(20)))]),
        ("the finalizer is never answered", vec![("json a", Fault::Silence)]),
        ("the version has changed", vec![("json a", change(1))]),
        (
            "the version changes again and again",
            vec![("json a", change(1)), ("json a", change(2)), ("json a", change(3))],
        ),
        ("the finalizer is answered by a conflict", vec![("json a", Fault::Refused(409, "conflict"))]),
        ("the result is stored, but who knows", vec![("merge a/status", Fault::Done(504))]),
        ("the result is not stored, who knows", vec![("merge a/status", Fault::Refused(500, "oops"))]),
        ("the record is stored, but who knows", vec![("merge a", Fault::Done(504))]),
        ("the record is in the way of others", vec![("merge a", Fault::Refused(409, "try again"))]),
        ("the API is busy", vec![("merge a", Fault::Refused(429, "later")), ("json a", Fault::Refused(429, "later"))]),
        (
            "the API is away for long",
            (0..6).flat_map(|_| [("merge a/status", Fault::Refused(502, "x")), ("merge a", Fault::Broken)]).collect(),
        ),
    ];
    for (what, faults) in cases {
        let running = start(basic().on("create_fn", |_| result(json!("created"))), |cluster| {
            for (label, fault) in faults {
                cluster.fault(label, fault);
            }
        });
        running.cluster.create("a", json!({"field": 1}));
        running.wait_for_handling("a").await;
        running.pass(1000).await;
        assert_eq!(running.script.calls(), ["create_fn(a)"], "{what}\n{}", running.story());
        assert_eq!(running.cluster.field("a", "/status/create_fn"), "created", "{what}\n{}", running.story());
        assert_eq!(running.cluster.field("a", "/metadata/finalizers").as_array().unwrap().len(), 1, "{what}");
        running.cluster.delete("a");
        running.wait("the deletion", |running| running.cluster.get("a").is_none()).await;
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_unclear_removal_of_the_finalizer_calls_nobody_again() {
    for fault in [Fault::Done(504), Fault::Refused(504, "timeout"), Fault::Refused(409, "conflict")] {
        let running = start(basic(), |cluster| cluster.create("a", json!({"field": 1})));
        running.wait_for_handling("a").await;
        running.pass(10).await;
        running.cluster.fault("json a", fault);
        running.cluster.delete("a");
        running.wait("the deletion", |running| running.cluster.get("a").is_none()).await;
        running.expect_calls(&["create_fn(a)", "delete_fn(a)"]).await;
        let logged = running.script.logged(Severity::Warning);
        assert!(
            logged.iter().all(|text| text.starts_with("Request attempt #1/9 failed; will retry: PATCH /apis/g.io/v1/")),
            "{logged:?}"
        );
    }
}

/// An API that fails for long: nobody waits in front of a silent log.
#[tokio::test(start_paused = true)]
async fn each_try_of_a_patch_is_logged_with_its_object() {
    let running = start(simple(), |cluster| {
        (0..9).for_each(|_| cluster.fault("merge a", Fault::Refused(500, "oops")));
        cluster.create("a", json!({"field": 1}));
    });
    running.wait("the last try", |running| running.script.logged(Severity::Error).len() >= 9).await;
    let logged = running.script.logged(Severity::Error);
    let path = "PATCH /apis/g.io/v1/namespaces/ns/things/a: 500 oops";
    for (index, text) in logged[..8].iter().enumerate() {
        assert_eq!(*text, format!("Request attempt #{}/9 failed; will retry: {path}", index + 1));
    }
    assert_eq!(logged[8], format!("Request attempt #9/9 failed; escalating: {path}"));
    running.wait_for_handling("a").await;
    running.finish().await.unwrap();
}

/// What the handler wants, which request is refused, and what is left of it all.
#[tokio::test(start_paused = true)]
async fn refused_fields_are_logged_once_and_the_rest_is_stored() {
    type Case = (&'static str, fn() -> Reply, &'static [(&'static str, u16)], Value, Value);
    let wishes = || patch(json!({"metadata": {"labels": {"l": "1"}}, "status": {"s": 1}}));
    let cases: [Case; 4] = [
        ("the result", || result(json!("x")), &[("merge a/status", 422)], json!(null), json!(null)),
        ("the status", wishes, &[("merge a/status", 422)], json!({"l": "1"}), json!(null)),
        ("the labels", wishes, &[("merge a", 422)], json!(null), json!({"s": 1})),
        ("too large", wishes, &[("merge a", 413)], json!(null), json!({"s": 1})),
    ];
    for (what, behave, refusals, labels, status) in cases {
        let running = start(simple().on("create_fn", move |_| behave()), |cluster| {
            for (label, code) in refusals {
                cluster.fault(label, Fault::Refused(*code, "not so"));
            }
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_handling("a").await;
        running.pass(1000).await;
        assert_eq!(running.script.calls(), ["create_fn(a)"], "{what}\n{}", running.story());
        assert_eq!(running.cluster.field("a", "/metadata/labels"), labels, "{what}\n{}", running.story());
        assert_eq!(running.cluster.field("a", "/status"), status, "{what}\n{}", running.story());
        let errors = running.script.logged(Severity::Error);
        assert_eq!(errors.len(), 1, "{what}: {errors:#?}");
        let text = "[a] The API has rejected a patch; what the handlers wanted there is lost: PATCH /apis/g.io";
        assert!(errors[0].starts_with(text), "{errors:?}");
        assert!(errors[0].contains("not so"), "{errors:?}");
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_transformation_does_not_keep_the_object_from_being_deleted() {
    let mut script = Script::new(&[json!({"id": "delete_fn", "reason": "delete", "requires_finalizer": true})])
        .on("delete_fn", |_| Reply { transformations: true, ..done() });
    script.transform = Box::new(|mut body| {
        body["spec"]["field"] = json!("wrong");
        body
    });
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait("the finalizer", |running| !running.cluster.field("a", "/metadata/finalizers").is_null()).await;
    running.pass(10).await;
    running.cluster.fault("json a", Fault::Refused(422, "not so"));
    running.cluster.delete("a");
    running.wait("the deletion", |running| running.cluster.get("a").is_none()).await;
    running.expect_calls(&["delete_fn(a)"]).await;
    let errors = running.script.logged(Severity::Error);
    assert_eq!(errors.len(), 1, "{errors:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_no_subresource_any_more_is_logged_and_the_object_is_handled() {
    let running = start(simple().on("create_fn", |_| result(json!("x"))), |cluster| {
        cluster.change(|store| store.status_is_missing = true);
        cluster.create("a", json!({"field": 1}));
    });
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"]).await;
    assert_eq!(running.script.logged(Severity::Error).len(), 1, "{}", running.story());
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_to_patch_the_object_is_throttled_and_patched_later() {
    for request in ["merge a", "merge a/status"] {
        let running = start(simple().on("create_fn", |_| result(json!("x"))), |cluster| {
            for _ in 0..3 {
                cluster.fault(request, Fault::Refused(403, "forbidden"));
            }
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_handling("a").await;
        running.expect_calls(&["create_fn(a)"]).await;
        assert_eq!(running.cluster.field("a", "/status/create_fn"), "x", "{request}");
        let errors: Vec<_> = running.script.logged(Severity::Error);
        let delays: Vec<_> = errors.iter().map(|text| text.split(" due").next().unwrap()).collect();
        assert_eq!(
            delays,
            ["[a] Throttling for 1 seconds", "[a] Throttling for 1 seconds", "[a] Throttling for 2 seconds"]
        );
        let over = "[a] Throttling is over. Switching back to normal operations.".to_owned();
        assert!(running.script.logged(Severity::Info).contains(&over));
        running.finish().await.unwrap();
    }
}

/// The patch that waits is of what was handled; what has changed meanwhile is the next update.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_throttling_is_handled_after_the_patch_that_waits() {
    let handlers = [json!({"id": "create_fn", "reason": "create"}), json!({"id": "update_fn", "reason": "update"})];
    let running = start(Script::new(&handlers).on("create_fn", |_| result(json!("x"))), |cluster| {
        for _ in 0..3 {
            cluster.fault("merge a/status", Fault::Refused(403, "forbidden"));
        }
        cluster.create("a", json!({"field": 1}));
    });
    running.wait_for_calls(1).await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.expect_calls(&["create_fn(a)", "update_fn(a)"]).await;
    running.wait_for_handling("a").await;
    assert_eq!(running.cluster.field("a", "/status/create_fn"), "x");
}

/// A result that cannot be stored must not keep an object from being deleted.
#[tokio::test(start_paused = true)]
async fn without_the_permission_to_patch_the_status_objects_are_released_nevertheless() {
    let script = Script::new(&[json!({"id": "delete_fn", "reason": "delete", "requires_finalizer": true})])
        .on("delete_fn", |_| result(json!("x")));
    let running = start(script, |cluster| {
        for _ in 0..100 {
            cluster.fault("merge a/status", Fault::Refused(403, "forbidden"));
        }
        cluster.create("a", json!({"field": 1}));
    });
    running.wait("the finalizer", |running| !running.cluster.field("a", "/metadata/finalizers").is_null()).await;
    running.cluster.delete("a");
    running.wait("the deletion", |running| running.cluster.get("a").is_none()).await;
    running.expect_calls(&["delete_fn(a)"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanishes_during_the_handling_is_forgotten() {
    let hold = Hold::new();
    let running = start(simple().held("create_fn", &hold), |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_calls(1).await;
    running.cluster.delete("a");
    running.pass(10).await;
    hold.release(1);
    running.wait_for_request("merge a", 1).await;
    running.expect_calls(&["create_fn(a)"]).await;
    assert_eq!(running.script.logged(Severity::Warning), Vec::<String>::new());
}

/// The object is replaced by another one under the same name, at some moment; that one is handled on its own.
#[tokio::test(start_paused = true)]
async fn another_object_under_the_same_name_is_left_alone() {
    let replace = || {
        Fault::after(|store| {
            store.remove(THINGS, "ns", "a");
            store.create(THINGS, "ns", json!({"metadata": {"name": "a"}, "spec": {"field": 2}}));
        })
    };
    let cases: [(&str, Script); 3] = [("merge a", simple()), ("json a", basic()), ("merge a/status", simple())];
    for (label, script) in cases {
        let script = script.on("create_fn", move |call| match label {
            "merge a/status" => result(call.body.spec()["field"].clone()),
            _ => done(),
        });
        let running = start(script, |cluster| {
            cluster.fault(label, replace());
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_handling("a").await;
        running.pass(100).await;
        let seen: Vec<_> = running.script.seen().calls.iter().map(|call| call.body.spec()["field"].clone()).collect();
        let expected: &[i64] = if label == "json a" { &[2] } else { &[1, 2] };
        assert_eq!(seen, expected, "{label}\n{}", running.story());
        let uids: Vec<_> =
            running.cluster.patches("a").iter().map(|(_, body)| body["metadata"]["uid"].clone()).collect();
        assert!(!uids[uids.len() - 1].is_null(), "{uids:?}");
        if label == "merge a/status" {
            assert_eq!(running.cluster.field("a", "/status/create_fn"), 2);
        }
        assert_eq!(running.script.logged(Severity::Warning), Vec::<String>::new(), "{label}");
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_front_throttles_the_object_and_nothing_else() {
    let failures = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(2));
    let script = simple().on("create_fn", move |call| {
        let left = failures.load(std::sync::atomic::Ordering::SeqCst);
        if call.name == "a" && left > 0 {
            failures.store(left - 1, std::sync::atomic::Ordering::SeqCst);
            return crate::script::fail(kopf_reaction::CallError::Abandoned);
        }
        done()
    });
    let running = start(script, |cluster| {
        cluster.create("a", json!({"field": 1}));
        cluster.create("b", json!({"field": 1}));
    });
    running.wait_for_handling("a").await;
    running.wait_for_handling("b").await;
    running.pass(10).await;
    let calls = running.script.calls();
    let count = |call: &str| calls.iter().filter(|one| *one == call).count();
    assert_eq!((count("create_fn(a)"), count("create_fn(b)")), (3, 1), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_front_is_survived() {
    let script = simple().on("create_fn", |call| {
        if call.body.spec().get("fixed").is_none() {
            panic!("a bug, on purpose");
        }
        done()
    });
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_calls(1).await;
    running.cluster.update("a", json!({"spec": {"fixed": true}}));
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"; 2]).await;
}

/// Without the discovery or the streams, an operator would look alive and do nothing.
#[tokio::test(start_paused = true)]
async fn a_crash_of_the_discovery_ends_the_operator() {
    let mut script = Script::new(&[json!({"id": "create_fn", "reason": "create", "selector": {"callback": true}})]);
    script.select = Box::new(|_| panic!("a bug, on purpose"));
    let running = start(script, |_| {});
    let logged = running.script.clone();
    let error = running.end().await.unwrap_err().to_string();
    assert_eq!(error, "The discovery has crashed: a bug, on purpose.");
    assert!(logged.logged(Severity::Error).iter().any(|text| text.starts_with(&error)));
}

/// Nothing of the above may take for ever, or happen too often.
#[tokio::test(start_paused = true)]
async fn an_object_that_changes_all_the_time_does_not_spin() {
    let running = start(basic(), |cluster| {
        for number in 0..12 {
            let change = json!({"metadata": {"labels": {"l": number.to_string()}}});
            cluster.fault("json a", Fault::after(move |store| store.merge(THINGS, "ns", "a", &change)));
        }
        cluster.create("a", json!({"field": 1}));
    });
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"]).await;
    let errors = running.script.logged(Severity::Error);
    let text =
        "[a] Throttling for 1 seconds due to an unexpected error: the object changes faster than it can be patched";
    assert_eq!(errors, [text]);
}

/// The record that a change was handled is never there without what its handlers wanted: whatever fails, and whenever
/// the operator dies, either all of it is written, or the handler is called again.
#[tokio::test(start_paused = true)]
async fn transformations_are_not_lost() {
    let script = || {
        let mut script =
            simple().on("create_fn", |_| Reply { transformations: true, ..patch(json!({"status": {"s": 1}})) });
        script.transform = Box::new(|mut body| {
            body["spec"]["field"] = json!("transformed");
            body["status"]["t"] = json!(1);
            body
        });
        script
    };
    // The requests that a crash can come before: all of them.
    let requests = ["merge a/status", "json a/status", "json a"];
    for request in requests {
        let running = start(script(), |cluster| {
            cluster.fault(request, Fault::Silence);
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_request(request, 1).await;
        running.abort();
        assert!(!running.cluster.is_handled("a"), "before {request}\n{}", running.story());
        let stored = running.cluster.field("a", "/metadata/annotations/kopf.zalando.org~1last-handled-configuration");
        assert_eq!(stored, json!(null), "before {request}");
    }
    // An outage between the requests: the same patch is sent later, and nobody is called again.
    for request in requests {
        let running = start(script(), |cluster| {
            for _ in 0..30 {
                cluster.fault(request, Fault::Refused(500, "oops"));
            }
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_handling("a").await;
        assert_eq!(running.script.calls(), ["create_fn(a)"], "{request}\n{}", running.story());
        assert_eq!(running.cluster.field("a", "/spec/field"), "transformed", "{request}");
        assert_eq!(running.cluster.field("a", "/status"), json!({"s": 1, "t": 1}), "{request}");
        running.finish().await.unwrap();
    }
}
