//! The operator as a whole: how it starts, logs in, and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_engine::{OperatorError, Severity};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::running::{start, start_with};
use crate::script::{Hold, Script, permanent, result, temporary};
use crate::wire::Wire;

fn activities() -> Vec<Value> {
    let activity =
        |name: &str| json!({"id": format!("{name}_fn"), "kind": "activity", "activity": name, "selector": null});
    ["startup", "cleanup", "authentication"].map(activity).to_vec()
}

fn creations() -> Script {
    Script::new(&[json!({"id": "create_fn", "reason": "create"})])
}

#[tokio::test(start_paused = true)]
async fn activities_come_in_their_order() {
    let script = creations().on("startup_fn", |call| if call.retry == 0 { temporary(3.0) } else { result(json!(1)) });
    let began = Instant::now();
    let running = start_with(script, &activities(), |cluster| cluster.create("a", json!({"field": 1})), |_| {});
    running.wait_for_handling("a").await;
    assert_eq!(began.elapsed().as_secs(), 3);
    let script = Arc::clone(&running.script);
    running.finish().await.unwrap();
    assert_eq!(script.seen().activities, ["startup_fn", "startup_fn", "cleanup_fn"]);
    assert_eq!(script.seen().asks, ["configure", "connected"]);
    assert!(script.seen().ready);
}

/// What fails, the error of the operator, and which activities were run.
#[tokio::test(start_paused = true)]
async fn failed_beginnings_end_the_operator() {
    type Case = (&'static str, Option<Value>, &'static str, &'static [&'static str]);
    let cases: [Case; 4] = [
        ("startup_fn", None, "the startup has failed: One or more handlers failed: startup_fn: no", &["startup_fn"]),
        (
            "authentication_fn",
            None,
            "the login has failed: One or more handlers failed: authentication_fn: no",
            &["startup_fn", "authentication_fn", "cleanup_fn"],
        ),
        (
            "authentication_fn",
            Some(json!(null)),
            "the login gave no credentials",
            &["startup_fn", "authentication_fn", "cleanup_fn"],
        ),
        (
            "authentication_fn",
            Some(json!({"token": "without a server"})),
            "the login gave no usable credentials: the connection info has no server",
            &["startup_fn", "authentication_fn", "cleanup_fn"],
        ),
    ];
    for (id, answer, expected, ran) in cases {
        let script = creations().on(id, move |_| match &answer {
            None => permanent("no"),
            Some(answer) => result(answer.clone()),
        });
        let running = start_with(script, &activities(), |_| {}, |options| options.client = None);
        let script = Arc::clone(&running.script);
        let error = running.end().await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(script.seen().activities, ran, "{expected}");
        assert!(!script.seen().ready && script.seen().calls.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_cleanup_is_an_error_of_the_operator() {
    let running = start_with(creations().on("cleanup_fn", |_| permanent("no")), &activities(), |_| {}, |_| {});
    running.wait("a ready operator", |running| running.script.seen().ready).await;
    let error = running.finish().await.unwrap_err();
    assert!(matches!(error, OperatorError::Cleanup(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_bad_pattern_of_namespaces_is_an_error_of_the_operator() {
    let running = start_with(
        creations(),
        &[],
        |_| {},
        |options| {
            options.clusterwide = false;
            options.namespace_expressions = vec!["(".to_owned()];
        },
    );
    let error = running.end().await.unwrap_err();
    assert!(error.to_string().starts_with("the configuration cannot be used: the namespace pattern (: "), "{error}");
}

/// When the stop is requested, what is going on then, and how long the end may take.
#[tokio::test(start_paused = true)]
async fn a_stop_takes_bounded_time() {
    let cases = [("a handler that ends in time", Some(1.0), 1.0), ("a handler that never ends", None, 7.0)];
    for (what, duration, expected) in cases {
        let script =
            creations().with(|settings| settings.queueing.exit_timeout = 7.0).on_async("create_fn", move |_| {
                Box::pin(async move {
                    match duration {
                        Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(10.0 + seconds)).await,
                        None => std::future::pending().await,
                    }
                    result(json!("done"))
                })
            });
        let running = start(script, |cluster| {
            cluster.create("a", json!({"field": 1}));
        });
        running.wait_for_calls(1).await;
        running.pass(10).await;
        running.cluster.create("b", json!({"field": 1}));
        running.wait_for_calls(2).await;
        let (cluster, script) = (running.cluster.clone(), Arc::clone(&running.script));
        let began = Instant::now();
        running.finish().await.unwrap();
        let took = began.elapsed().as_secs_f64();
        // The second one began later, and does not end in time.
        let expected = if duration.is_some() { 7.0_f64.max(expected) } else { expected };
        assert!((expected..expected + 0.5).contains(&took), "{what}: {took}");
        assert_eq!(cluster.is_handled("a"), duration.is_some(), "{what}");
        assert!(!cluster.is_handled("b"), "{what}");
        let left = script.logged(Severity::Warning);
        let expected = if duration.is_some() { 1 } else { 2 };
        let expected = format!("The operator stops while handlers are still running for {expected} object(s).");
        assert!(left.len() == 1 && left[0].starts_with(&expected), "{what}: {left:?}");
        // Nothing is left behind, neither calls nor requests.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(script.seen().under_way["create_fn"].0, 0, "{what}");
        let requests = cluster.requests().len();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(cluster.requests().len(), requests, "{what}");
    }
}

/// The operator stops at once wherever it is, if nothing is being handled.
#[tokio::test(start_paused = true)]
async fn a_stop_is_obeyed_at_any_stage() {
    type Stage = (&'static str, fn(Script) -> Script, &'static str);
    let cases: [Stage; 3] = [
        ("startup", |script| script.on("startup_fn", |_| temporary(1000.0)), "startup_fn"),
        ("login", |script| script.on("authentication_fn", |_| temporary(1000.0)), "authentication_fn"),
        ("retries", |script| script.on("create_fn", |_| temporary(1000.0)), ""),
    ];
    for (what, prepare, activity) in cases {
        let with_login = what == "login";
        let running = start_with(
            prepare(creations()),
            &activities(),
            |cluster| cluster.create("a", json!({"field": 1})),
            |options| options.client = options.client.take().filter(|_| !with_login),
        );
        if activity.is_empty() {
            running.wait_for_calls(1).await;
        } else {
            running.wait(what, |running| running.script.seen().activities.contains(&activity.to_owned())).await;
        }
        running.pass(5).await;
        let began = Instant::now();
        running.finish().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{what}: {:?}", began.elapsed());
    }
}

/// Dropped instead of being stopped, the operator leaves nothing behind either.
#[tokio::test(start_paused = true)]
async fn a_dropped_operator_leaves_nothing_behind() {
    let hold = Hold::new();
    let running = start(creations().held("create_fn", &hold), |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_calls(1).await;
    running.abort();
    running.pass(100).await;
    assert_eq!(running.script.seen().under_way["create_fn"].0, 0);
    let requests = running.cluster.requests().len();
    running.pass(1000).await;
    assert_eq!(running.cluster.requests().len(), requests);
}

/// Over a real connection, in real time: the credentials are refused, and the operator logs in again.
#[tokio::test]
async fn refused_credentials_are_replaced_by_a_new_login() {
    let wire = Wire::open().await;
    let logins = Arc::new(AtomicUsize::new(0));
    let (counted, server) = (Arc::clone(&logins), wire.url());
    let script = creations().on("authentication_fn", move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        result(json!({"server": server, "token": format!("token-{number}")}))
    });
    let running = start_with(script, &activities(), |_| {}, |options| options.client = None);
    wire.serve(&running.cluster);
    wire.accept_token("token-1");
    running.cluster.create("a", json!({"field": 1}));
    running.wait_for_handling("a").await;
    assert_eq!(logins.load(Ordering::SeqCst), 1);
    wire.accept_token("token-2");
    running.cluster.create("b", json!({"field": 1}));
    running.wait_for_handling("b").await;
    assert_eq!(logins.load(Ordering::SeqCst), 2);
    assert_eq!(running.script.calls(), ["create_fn(a)", "create_fn(b)"]);
    assert_eq!(running.script.logged(Severity::Warning), Vec::<String>::new());
    running.finish().await.unwrap();
}
