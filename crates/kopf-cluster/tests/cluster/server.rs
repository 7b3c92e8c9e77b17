//! Namespaces, discovery, reviews, tables of built-in kinds, and real clients.

#![allow(clippy::unwrap_used, clippy::panic)] // Also in helpers of tests.

use std::net::SocketAddr;

use crate::common::Probe;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kopf_cluster::{Cluster, Options};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

#[tokio::test]
async fn deleted_namespaces_are_emptied_and_removed() {
    let probe = Probe::new();
    let created = probe.create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
    assert_eq!(created["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "ns"}));
    assert_eq!(
        (&created["spec"], &created["status"]),
        (&json!({"finalizers": ["kubernetes"]}), &json!({"phase": "Active"}))
    );
    let account = probe.get("/api/v1/namespaces/ns/serviceaccounts/default").await;
    assert_eq!(account["metadata"]["name"], "default");
    let maps = "/api/v1/namespaces/ns/configmaps";
    probe.create(maps, json!({"metadata": {"name": "held", "finalizers": ["example.com/a"]}})).await;
    let marked = probe.expect(200, "DELETE", "/api/v1/namespaces/ns", Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert!(marked["metadata"].get("deletionGracePeriodSeconds").is_none());
    let refused = probe.expect(403, "POST", maps, json!({"metadata": {"name": "late"}})).await;
    assert_eq!(
        refused["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    probe.get("/api/v1/namespaces/ns").await;
    probe.patch(&format!("{maps}/held"), json!({"metadata": {"finalizers": null}})).await;
    probe.expect(404, "GET", "/api/v1/namespaces/ns", Value::Null).await;
}

#[tokio::test]
async fn discovery_describes_the_server() {
    let probe = Probe::new();
    assert_eq!(probe.get("/version").await["gitVersion"], "v1.36.3");
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        assert_eq!(probe.get(path).await, json!("ok"), "{path}");
    }
    assert_eq!(probe.get("/api").await["versions"], json!(["v1"]));
    assert!(probe.get("/apis").await["groups"].as_array().unwrap().len() > 15);
    assert_eq!(probe.get("/apis/apps").await["kind"], "APIGroup");
    assert_eq!(probe.get("/api/v1").await["kind"], "APIResourceList");
    assert!(probe.get("/openapi/v2").await["definitions"].as_object().unwrap().len() > 500);
    assert!(probe.get("/openapi/v3/apis/apps/v1").await["components"].is_object());
    let review = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let review = probe.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await;
    assert_eq!(review["status"], json!({"allowed": true}));
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_have_tables() {
    let probe = Probe::new();
    let table = probe.table("/api/v1/namespaces").await;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["cells"], json!(["default", "Active", "0s"]));
    let table = probe.table("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(table["rows"][0]["cells"], json!(["kube-root-ca.crt", 1, "0s"]));
}

#[tokio::test]
async fn kube_works_in_process() {
    let cluster = Cluster::new(Options::default());
    use_client(Client::new(cluster.service(), "default")).await;
}

#[tokio::test]
async fn kube_works_over_the_network() {
    let cluster = Cluster::new(Options::default());
    let server = cluster.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    use_client(Client::try_from(config.clone()).unwrap()).await;

    let mut stranger = config;
    stranger.auth_info.token = Some("nope".to_owned().into());
    let refused = Api::<Namespace>::all(Client::try_from(stranger).unwrap()).list(&ListParams::default()).await;
    match refused {
        Err(kube::Error::Api(status)) => assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized")),
        other => panic!("not refused: {other:?}"),
    }
}

/// The requests of a typical operator.
async fn use_client(client: Client) {
    let namespaces = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(namespaces.items.len(), 4);
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("x".into());
    maps.create(&PostParams::default(), &map).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    let patched = maps.patch("x", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap()["a"], "b");
    maps.delete("x", &DeleteParams::default()).await.unwrap();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &version).await.unwrap());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match futures::TryStreamExt::try_next(&mut events).await.unwrap().unwrap() {
            WatchEvent::Added(_) => seen.push("added"),
            WatchEvent::Modified(_) => seen.push("modified"),
            WatchEvent::Deleted(_) => seen.push("deleted"),
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
}
