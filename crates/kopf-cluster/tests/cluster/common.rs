//! A client for tests: it sends requests directly to the service, and returns status codes and JSON.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use kopf_cluster::{Cluster, ClusterBody, ClusterService, Interrupted, Options};
use serde_json::{Value, json};
use tower_service::Service;

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A cluster and a client of it.
pub(crate) struct Probe {
    pub(crate) cluster: Cluster,
    service: ClusterService,
}

/// The lines of a watch.
pub(crate) struct Lines {
    body: ClusterBody,
    rest: Vec<u8>,
}

impl Probe {
    /// A cluster without controllers of workloads, so that resource versions are predictable.
    pub(crate) fn new() -> Self {
        Self::with(Options { workloads: None, ..Options::default() })
    }

    /// A cluster that runs pods.
    pub(crate) fn with_workloads() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::of(Cluster::new(options))
    }

    pub(crate) fn of(cluster: Cluster) -> Self {
        let service = cluster.service();
        Self { cluster, service }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<ClusterBody> {
        let sent = self.try_send(method, path, headers, body).await;
        sent.unwrap_or_else(|interrupted| panic!("{method} {path}: {interrupted}"))
    }

    /// Sends a body that need not be text.
    pub(crate) async fn ask_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        (response.status().as_u16(), decode(response).await)
    }

    /// The same if the connection may break.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<http::Response<ClusterBody>, Interrupted> {
        let mut request = http::Request::builder().method(method).uri(path).header("user-agent", "probe/1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        self.service.clone().call(request).await
    }

    /// The code and the body of a response.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.ask_as(method, path, "application/json", body).await
    }

    pub(crate) async fn ask_as(&self, method: &str, path: &str, content_type: &str, body: Value) -> (u16, Value) {
        let text = match body {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        let response = self.send(method, path, &[("content-type", content_type)], &text).await;
        let code = response.status().as_u16();
        (code, decode(response).await)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.expect(200, "GET", path, Value::Null).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        self.expect(201, "POST", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        let (code, answer) = self.ask_as("PATCH", path, MERGE, body).await;
        assert_eq!(code, 200, "PATCH {path}: {answer:#}");
        answer
    }

    pub(crate) async fn expect(&self, expected: u16, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.ask(method, path, body).await;
        assert_eq!(code, expected, "{method} {path}: {answer:#}");
        answer
    }

    pub(crate) async fn table(&self, path: &str) -> Value {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        decode(self.send("GET", path, &[("accept", accept)], "").await).await
    }

    /// Waits until the object at a path satisfies the condition. Paused time passes by itself.
    pub(crate) async fn wait_for(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..1000 {
            last = self.ask("GET", path, Value::Null).await.1;
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{path} is not as wanted: {last:#}");
    }

    pub(crate) async fn watch(&self, path: &str) -> Lines {
        let response = self.send("GET", path, &[], "").await;
        assert_eq!(response.status(), 200, "{path}");
        Lines { body: response.into_body(), rest: Vec::new() }
    }
}

impl Lines {
    /// The next event; None at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The next chunk of bytes.
    pub(crate) async fn frame(&mut self) -> Option<Result<Bytes, Interrupted>> {
        Some(self.body.frame().await?.map(|frame| frame.into_data().unwrap()))
    }

    /// The next event in short: its type, the name and the version of its object.
    pub(crate) async fn short(&mut self) -> String {
        match self.next().await {
            None => "END".to_owned(),
            Some(event) => {
                let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
                format!("{} {}", text("/type"), text("/object/metadata/name"))
            }
        }
    }
}

async fn decode(response: http::Response<ClusterBody>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)))
}

/// A CRD with two versions, a status, a scale, columns and selectable fields.
pub(crate) fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Msg", "type": "string", "jsonPath": ".status.msg", "priority": 1}],
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {
                            "size": {"type": "integer", "default": 3}, "color": {"type": "string"},
                            "replicas": {"type": "integer"}}},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
                },
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                },
            ],
        },
    })
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}
