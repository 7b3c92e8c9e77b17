//! Watches: where they start, which events they send, how they end. Time is paused, so the tests do not wait.

use std::time::Duration;

use crate::common::Probe;
use kopf_cluster::Options;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_watch_follows_an_object() {
    let probe = Probe::new();
    let version = probe.get(MAPS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut lines = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    probe.create("/api/v1/namespaces/kube-system/configmaps", json!({"metadata": {"name": "elsewhere"}})).await;
    probe.patch(&format!("{MAPS}/x"), json!({"data": {"a": "b"}})).await;
    probe.expect(200, "DELETE", &format!("{MAPS}/x"), Value::Null).await;
    let added = lines.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]["kind"]), (&json!("ADDED"), &json!("ConfigMap")));
    assert_eq!(lines.short().await, "MODIFIED x");
    let deleted = lines.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["data"]), (&json!("DELETED"), &json!({"a": "b"})));
    let version =
        |event: &Value| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version(&deleted) > version(&added) + 2, "a deletion has its own version");
}

#[tokio::test(start_paused = true)]
async fn watches_start_with_all_objects_or_after_a_version() {
    let probe = Probe::new();
    probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    let initial = async |query: &str| {
        let mut lines = probe.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&{query}")).await;
        let mut all = Vec::new();
        loop {
            match lines.short().await.as_str() {
                "END" => return all,
                other => all.push(other.to_owned()),
            }
        }
    };
    assert_eq!(initial("").await, ["ADDED kube-root-ca.crt", "ADDED x"]);
    assert_eq!(initial("resourceVersion=0").await, ["ADDED kube-root-ca.crt", "ADDED x"]);
    assert_eq!(initial("fieldSelector=metadata.name%3Dx").await, ["ADDED x"]);
    assert_eq!(initial("resourceVersion=999999").await, Vec::<String>::new());
    let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(initial(streamed).await, ["ADDED kube-root-ca.crt", "ADDED x", "BOOKMARK -"]);
    let path = format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Dnope&{streamed}");
    let bookmark = probe.watch(&path).await.next().await.unwrap();
    assert_eq!(bookmark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let probe = Probe::new();
    let mut lines = probe.watch(&format!("{MAPS}?watch=1&labelSelector=on")).await;
    probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    let label = |value: Value| json!({"metadata": {"labels": {"on": value}}});
    probe.patch(&format!("{MAPS}/x"), label(json!("yes"))).await;
    probe.patch(&format!("{MAPS}/x"), json!({"data": {"a": "b"}})).await;
    probe.patch(&format!("{MAPS}/x"), label(Value::Null)).await;
    assert_eq!(lines.short().await, "ADDED x");
    assert_eq!(lines.short().await, "MODIFIED x");
    let gone = lines.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["labels"], json!({"on": "yes"}), "as it was when it was selected");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let probe = Probe::new();
    let start = tokio::time::Instant::now();
    let mut lines =
        probe.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=90&labelSelector=none")).await;
    let first = lines.next().await.unwrap();
    assert_eq!(first["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{first:#}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(lines.short().await, "BOOKMARK -");
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!(lines.short().await, "BOOKMARK -");
    assert_eq!(start.elapsed(), Duration::from_secs(88));
    assert_eq!(lines.short().await, "END");
    assert_eq!(start.elapsed(), Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn watches_of_compacted_versions_get_an_error() {
    let probe = Probe::with(Options { history_limit: 2, ..Options::default() });
    let version = probe.get(MAPS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut slow = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    for name in ["a", "b", "c"] {
        probe.create(MAPS, json!({"metadata": {"name": name}})).await;
    }
    let error = slow.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")), "{error:#}");
    assert!(error["object"]["message"].as_str().unwrap().starts_with("too old resource version: "), "{error:#}");
    assert_eq!(slow.short().await, "END");
    let mut late = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(late.next().await.unwrap()["type"], "ERROR");
    assert_eq!(late.short().await, "END");
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_survives_a_compaction() {
    let probe = Probe::new();
    let mut lines = probe.watch(&format!("{MAPS}?watch=1&labelSelector=on")).await;
    let mut idle = Box::pin(lines.next());
    assert!(futures::poll!(&mut idle).is_pending());
    probe.create(MAPS, json!({"metadata": {"name": "ignored"}})).await;
    assert!(futures::poll!(&mut idle).is_pending());
    probe.cluster.compact();
    probe.create(MAPS, json!({"metadata": {"name": "x", "labels": {"on": "1"}}})).await;
    assert_eq!(idle.await.unwrap()["object"]["metadata"]["name"], "x");
}
