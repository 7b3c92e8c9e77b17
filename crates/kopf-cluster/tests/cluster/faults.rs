//! Requested faults, counters of requests, and the controls under `/kopf/`.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use http_body_util::BodyExt;
use kopf_cluster::{Effect, Fault, Interrupted};
use serde_json::{Value, json};

use crate::common::{Lines, Probe};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Watches config maps in the default namespace from now on.
async fn watch(probe: &Probe, more: &str) -> Lines {
    let version = probe.get(MAPS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    probe.watch(&format!("{MAPS}?watch=1&resourceVersion={version}{more}")).await
}

#[tokio::test]
async fn errors_are_returned_as_often_as_requested() {
    let probe = Probe::new();
    let fault = Fault::new(Effect::error(429).retry_after(7)).verb("list").resource("configmaps").times(2);
    let id = probe.cluster.faults().add(fault).unwrap();
    for _ in 0..2 {
        let response = probe.send("GET", MAPS, &[], "").await;
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
        assert_eq!(status["details"]["retryAfterSeconds"], 7);
        probe.get("/api/v1/namespaces/default/secrets").await;
    }
    probe.get(MAPS).await;
    assert_eq!(probe.cluster.faults().list()[0].hits, 2);
    assert!(probe.cluster.faults().remove(id));
}

#[tokio::test(start_paused = true)]
async fn responses_are_delayed_by_the_clock_of_the_cluster() {
    let probe = Probe::new();
    probe.cluster.faults().add(Fault::new(Effect::delay(Duration::from_secs(3600))).verb("get")).unwrap();
    let before = tokio::time::Instant::now();
    probe.get("/api/v1/namespaces/default").await;
    assert_eq!(before.elapsed().as_secs(), 3600);
    let answer = probe.get("/api/v1/namespaces/default");
    tokio::pin!(answer);
    assert!(futures::poll!(&mut answer).is_pending());
    probe.cluster.advance(Duration::from_secs(3600));
    assert!(futures::poll!(&mut answer).is_ready());
}

#[tokio::test]
async fn connections_break_on_demand() {
    let probe = Probe::new();
    let faults = probe.cluster.faults();
    faults.add(Fault::new(Effect::Disconnect).verb("create").times(1)).unwrap();
    assert_eq!(probe.try_send("POST", MAPS, &[], &map("a").to_string()).await.err(), Some(Interrupted));
    assert_eq!(probe.ask("GET", &format!("{MAPS}/a"), Value::Null).await.0, 404, "it was not carried out");

    faults.add(Fault::new(Effect::CutAnswer).verb("create").times(1)).unwrap();
    let response = probe.send("POST", MAPS, &[], &map("a").to_string()).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.into_body().collect().await.err(), Some(Interrupted));
    probe.get(&format!("{MAPS}/a")).await;
}

#[tokio::test]
async fn watches_end_on_demand() {
    let probe = Probe::new();
    let faults = probe.cluster.faults();
    let mut ended = watch(&probe, "").await;
    faults.add(Fault::new(Effect::EndWatch).resource("configmaps").times(1)).unwrap();
    assert_eq!(ended.short().await, "END");

    let mut expired = watch(&probe, "").await;
    faults.add(Fault::new(Effect::ExpireWatch).times(1)).unwrap();
    assert_eq!(expired.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(expired.short().await, "END");

    let mut broken = watch(&probe, "").await;
    faults.add(Fault::new(Effect::Disconnect).verb("watch").times(1)).unwrap();
    assert_eq!(broken.frame().await, Some(Err(Interrupted)));

    let mut cut = watch(&probe, "").await;
    let mut other = watch(&probe, "").await;
    faults.add(Fault::new(Effect::CutWatch).times(1)).unwrap();
    let (part, _) = tokio::join!(cut.frame(), probe.create(MAPS, map("a")));
    let part = part.unwrap().unwrap();
    assert!(part.starts_with(b"{\"type\":\"ADDED\"") && !part.ends_with(b"\n"), "{part:?}");
    assert_eq!(cut.frame().await, Some(Err(Interrupted)));
    assert_eq!(other.short().await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn silent_watches_stay_silent_until_the_fault_is_removed() {
    let probe = Probe::new();
    let faults = probe.cluster.faults();
    let mut lines = watch(&probe, "&timeoutSeconds=60").await;
    let id = faults.add(Fault::new(Effect::SilenceWatch)).unwrap();
    probe.create(MAPS, map("a")).await;
    {
        let next = lines.next();
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        // The client does not even see the end of the watch.
        probe.cluster.advance(Duration::from_secs(600));
        assert!(futures::poll!(&mut next).is_pending());
        faults.remove(id);
        assert_eq!(next.await.unwrap()["object"]["metadata"]["name"], "a");
    }
    assert_eq!(lines.short().await, "END");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_dropped_on_demand() {
    let probe = Probe::new();
    probe.cluster.faults().add(Fault::new(Effect::DropBookmarks)).unwrap();
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=200&{initial}");
    let mut lines = probe.watch(&path).await;
    assert_eq!(lines.short().await, "ADDED kube-root-ca.crt");
    assert_eq!(lines.short().await, "END");
    probe.cluster.faults().clear();
    let mut lines = probe.watch(&path).await;
    assert_eq!(lines.short().await, "ADDED kube-root-ca.crt");
    assert_eq!(lines.short().await, "BOOKMARK -");
}

#[tokio::test]
async fn requests_are_counted() {
    let probe = Probe::new();
    probe.cluster.reset_requests();
    probe.get(MAPS).await;
    probe.get(MAPS).await;
    probe.create(MAPS, map("a")).await;
    probe.get("/version").await;
    probe.ask("GET", "/nowhere", Value::Null).await;
    probe.ask("PATCH", "/apis/apps/v1/namespaces/default/deployments/x/scale", json!({})).await;
    let counts: Vec<String> = probe
        .cluster
        .requests()
        .into_iter()
        .map(|one| format!("{} {} {}", one.verb, one.resource, one.count))
        .collect();
    assert_eq!(
        counts,
        [
            "get /unknown 1",
            "get /version 1",
            "create configmaps 1",
            "list configmaps 2",
            "patch deployments.apps/scale 1"
        ]
    );
}

#[tokio::test]
async fn the_controls_are_served_over_http() {
    let probe = Probe::new();
    let fault = json!({
        "match": {"verb": "list", "resource": "configmaps", "userAgent": "probe"},
        "times": 1,
        "effect": {"type": "error", "code": 503, "message": "later", "retryAfter": 2},
    });
    let added = probe.expect(200, "POST", "/kopf/faults", fault.clone()).await;
    assert_eq!(added, json!({"id": 1}));
    let status = probe.expect(503, "GET", MAPS, Value::Null).await;
    assert_eq!((&status["message"], &status["reason"]), (&json!("later"), &json!("ServiceUnavailable")));
    let mut shown = fault.clone();
    shown["id"] = json!(1);
    shown["hits"] = json!(1);
    shown["effect"]["reason"] = Value::Null;
    assert_eq!(probe.get("/kopf/faults").await, json!({"faults": [shown]}));
    probe.expect(200, "DELETE", "/kopf/faults/1", Value::Null).await;
    probe.expect(404, "DELETE", "/kopf/faults/1", Value::Null).await;
    let replaced = probe.expect(200, "PUT", "/kopf/faults", json!([fault, fault])).await;
    assert_eq!(replaced, json!({"ids": [2, 3]}));
    probe.expect(200, "DELETE", "/kopf/faults", Value::Null).await;
    assert_eq!(probe.get("/kopf/faults").await, json!({"faults": []}));

    probe.expect(200, "DELETE", "/kopf/requests", Value::Null).await;
    let listed = probe.get(MAPS).await;
    let counts = json!({"requests": [{"verb": "list", "resource": "configmaps", "count": 1}]});
    assert_eq!(probe.get("/kopf/requests").await, counts);

    let time = |answer: Value| answer["now"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let before = time(probe.get("/kopf/clock").await);
    let after = time(probe.expect(200, "POST", "/kopf/clock/advance", json!({"seconds": 3600.5})).await);
    assert!((3600..3700).contains(&after.duration_since(before).as_secs()), "{before} {after}");

    let version = listed["metadata"]["resourceVersion"].as_str().unwrap();
    probe.create(MAPS, map("a")).await;
    probe.expect(200, "POST", "/kopf/compact", Value::Null).await;
    let mut old = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(old.next().await.unwrap()["object"]["code"], 410);

    for (method, path, body, code) in [
        ("POST", "/kopf/faults", json!({"effect": {"type": "nope"}}), 400),
        ("POST", "/kopf/faults", json!({"effect": {"type": "error", "code": 200}}), 400),
        ("POST", "/kopf/faults", json!({"effect": {"type": "endWatch"}, "unknown": 1}), 400),
        ("PUT", "/kopf/faults", json!({}), 400),
        ("POST", "/kopf/clock/advance", json!({"seconds": -1}), 400),
        ("POST", "/kopf/clock/advance", json!("{"), 400),
        ("POST", "/kopf/requests", json!({}), 405),
        ("GET", "/kopf/nope", Value::Null, 404),
    ] {
        let (answered, status) = probe.ask(method, path, body.clone()).await;
        assert_eq!(answered, code, "{method} {path} {body}: {status:#}");
        assert_eq!(status["kind"], "Status", "{method} {path} {body}: {status:#}");
    }
}

#[tokio::test]
async fn clients_over_the_network_see_broken_connections() {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Client, Config, config::Kubeconfig};

    let probe = Probe::new();
    let server = probe.cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(Client::try_from(config).unwrap());
    maps.list(&Default::default()).await.unwrap();
    for effect in [Effect::Disconnect, Effect::CutAnswer] {
        probe.cluster.faults().add(Fault::new(effect.clone()).times(1)).unwrap();
        let error = maps.list(&Default::default()).await.unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{effect:?}: {error}");
    }
    maps.list(&Default::default()).await.unwrap();
}
