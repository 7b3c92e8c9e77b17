//! The handlers without a cluster: a function takes the place of the API.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::api::ObjectMeta;
use kube::client::Body;
use serde_json::Value;

use super::*;

/// The requests so far: the method, the path, the body.
type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A client of an API with the same answer to all requests.
fn client(code: u16, answer: Value) -> (Client, Requests) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, answer) = (Arc::clone(&seen), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            let content = serde_json::from_slice(&bytes).unwrap_or_default();
            seen.lock().unwrap().push((head.method.to_string(), head.uri.to_string(), content));
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

fn refusal(code: u16, reason: &str) -> (Client, Requests) {
    client(code, json!({"kind": "Status", "status": "Failure", "message": "no", "reason": reason, "code": code}))
}

fn only(requests: &Requests) -> (String, String, Value) {
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests[0].clone()
}

fn meta() -> Meta {
    let metadata = ObjectMeta {
        name: Some("cache".into()),
        namespace: Some("ns".into()),
        uid: Some("u1".into()),
        ..ObjectMeta::default()
    };
    Meta::new("cache.example.com/v1alpha1", "Memcached", metadata)
}

fn spec(size: usize) -> Spec<MemcachedSpec> {
    Spec(MemcachedSpec { size })
}

#[tokio::test]
async fn creation_makes_an_owned_deployment() {
    let (client, requests) = client(201, json!({"metadata": {"name": "cache"}}));
    create(spec(3), meta(), client, Logger::new()).await.unwrap();
    let (method, path, deployment) = only(&requests);
    assert_eq!((&*method, &*path), ("POST", "/apis/apps/v1/namespaces/ns/deployments?"));
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(
        deployment["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "cache", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
}

#[tokio::test]
async fn finished_work_is_accepted_and_other_errors_are_retried() {
    create(spec(3), meta(), refusal(409, "AlreadyExists").0, Logger::new()).await.unwrap();
    delete(meta(), refusal(404, "NotFound").0, Logger::new()).await.unwrap();
    for refused in [
        create(spec(3), meta(), refusal(403, "Forbidden").0, Logger::new()).await,
        scale(spec(3), meta(), refusal(404, "NotFound").0, Logger::new()).await,
        delete(meta(), refusal(403, "Forbidden").0, Logger::new()).await,
    ] {
        let error = refused.unwrap_err();
        assert!(!error.is_permanent() && !error.is_temporary(), "{error}");
    }
}

#[tokio::test]
async fn scaling_changes_only_the_replicas() {
    let (client, requests) = client(200, json!({"metadata": {"name": "cache"}}));
    scale(spec(5), meta(), client, Logger::new()).await.unwrap();
    let (method, path, patch) = only(&requests);
    assert_eq!((&*method, &*path), ("PATCH", "/apis/apps/v1/namespaces/ns/deployments/cache?"));
    assert_eq!(patch, json!({"spec": {"replicas": 5}}));
}

#[tokio::test]
async fn the_status_names_the_pods_and_retries_until_all_exist() {
    let pods = json!({"metadata": {}, "items": [
        {"metadata": {"name": "b"}}, {"metadata": {"name": "a"}},
        {"metadata": {"name": "c", "deletionTimestamp": "2026-11-15T12:00:00Z"}},
    ]});
    for (size, finished) in [(2, true), (3, false)] {
        let (client, requests) = client(200, pods.clone());
        let patch = Patch::new();
        let outcome = update_status(spec(size), meta(), client, patch.clone()).await;
        assert_eq!(outcome.is_ok(), finished, "{outcome:?}");
        assert!(outcome.err().is_none_or(|error| error.is_temporary()));
        assert_eq!(patch.changes(), json!({"status": {"nodes": ["a", "b"]}}));
        assert!(only(&requests).1.contains("labelSelector=app%3Dmemcached%2Cmemcached%3Dcache"), "{requests:?}");
    }
}

#[test]
fn the_size_is_optional() {
    let spec: MemcachedSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(spec.size, 1);
}
