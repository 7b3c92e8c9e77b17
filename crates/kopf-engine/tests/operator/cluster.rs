//! A small cluster in memory: the kind `things.v1.g.io`, namespaces, CRDs; discovery, lists, watches, patches.
//!
//! It does what a real API server does as far as the engine can tell, and misbehaves on demand.

mod faults;
mod route;
mod store;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

pub(crate) use faults::Fault;
use faults::Faults;
pub(crate) use route::Asked;
use route::Route;
use store::{Line, Store};

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions";
pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const THINGS: &str = "things";
pub(crate) const PEERINGS: &str = "clusterkopfpeerings";

/// The namespace of objects where a test does not care.
pub(crate) const NAMESPACE: &str = "ns";

/// A handle to the cluster; clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Rung whenever something has happened.
    bell: Arc<Notify>,
}

struct State {
    store: Store,
    requests: Vec<Asked>,
    faults: Faults,
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Answer = UnsyncBoxBody<Bytes, std::io::Error>;

impl Cluster {
    /// With one namespace; the kind is served, with its status as a subresource.
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        let state = State { store: Store::default(), requests: Vec::new(), faults: Faults::default() };
        let cluster = Self { inner: Arc::new(Inner { state: Mutex::new(state), bell }) };
        cluster.change(|store| {
            store.define();
            store.create(NAMESPACES, "", json!({"metadata": {"name": NAMESPACE}}));
        });
        cluster
    }

    /// A client whose requests come right here.
    pub(crate) fn client(&self) -> kube::Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let content_type = parts.headers.get("Content-Type").and_then(|value| value.to_str().ok());
                let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
                cluster.respond(Asked::new(parts.method.as_str(), path, query, content_type, &body)).await
            }
        });
        kube::Client::new(service, "default")
    }

    /// Changes the cluster as if somebody else did it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let changed = change(&mut self.state().store);
        self.inner.bell.notify_waiters();
        changed
    }

    pub(crate) fn create(&self, name: &str, spec: Value) {
        self.change(|store| store.create(THINGS, NAMESPACE, json!({"metadata": {"name": name}, "spec": spec})));
    }

    /// Merges something into an object.
    pub(crate) fn update(&self, name: &str, patch: Value) {
        self.change(|store| store.merge(THINGS, NAMESPACE, name, &patch));
    }

    pub(crate) fn delete(&self, name: &str) {
        self.change(|store| store.delete(THINGS, NAMESPACE, name));
    }

    /// The object, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.state().store.get(THINGS, NAMESPACE, name).cloned()
    }

    /// What is at the JSON pointer in the object; null if there is no such thing.
    pub(crate) fn field(&self, name: &str, pointer: &str) -> Value {
        self.get(name).and_then(|object| object.pointer(pointer).cloned()).unwrap_or_default()
    }

    /// Whether the object was handled, and its spec is as it was handled last.
    pub(crate) fn is_handled(&self, name: &str) -> bool {
        let annotation = self.field(name, "/metadata/annotations/kopf.zalando.org~1last-handled-configuration");
        let essence: Value = annotation.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        !essence.is_null() && essence["spec"] == self.field(name, "/spec")
    }

    /// The next request with such a label, of those that are not spoken for, is answered so.
    pub(crate) fn fault(&self, label: &str, fault: Fault) {
        self.state().faults.add(label, fault);
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.state().requests.clone()
    }

    /// The labels of all requests for the things.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.requests().into_iter().map(|asked| asked.label).collect()
    }

    /// All patches of the object: what they were for, and their contents.
    pub(crate) fn patches(&self, name: &str) -> Vec<(String, Value)> {
        let about = |asked: &Asked| asked.method == "PATCH" && asked.name() == Some(name);
        self.requests().into_iter().filter(about).map(|asked| (asked.label, asked.body)).collect()
    }

    /// Answers one request.
    pub(crate) async fn respond(&self, asked: Asked) -> Result<Response<Answer>, Failure> {
        let fault = {
            let mut state = self.state();
            state.requests.push(asked.clone());
            state.faults.take(&asked.label)
        };
        self.inner.bell.notify_waiters();
        match fault {
            None => self.process(&asked),
            Some(Fault::Refused(code, message)) => refuse(code, message, None),
            Some(Fault::Done(code)) => {
                drop(self.process(&asked)?);
                refuse(code, "nobody knows", None)
            }
            Some(Fault::Slow(pause)) => {
                tokio::time::sleep(pause).await;
                self.process(&asked)
            }
            Some(Fault::Broken) => Err("the connection was reset".into()),
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::After(meanwhile)) => {
                meanwhile(&mut self.state().store);
                self.process(&asked)
            }
        }
    }

    fn process(&self, asked: &Asked) -> Result<Response<Answer>, Failure> {
        let mut state = self.state();
        let answer = match &asked.route {
            Route::Discovery => state.store.discover(&asked.path),
            Route::Events => Ok(json!({"kind": "Event"})),
            Route::List { collection, namespace } => state.store.list(collection, namespace.as_deref()),
            Route::Watch { collection, namespace } => {
                let since = asked.parameter("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
                match state.store.watch(collection, namespace.as_deref(), since) {
                    Ok(lines) => return Ok(Response::new(to_body(lines))),
                    Err(refusal) => Err(refusal),
                }
            }
            Route::Object { collection, namespace, name, subresource } => {
                let namespace = namespace.as_deref().unwrap_or_default();
                let is_status = subresource.as_deref() == Some("status");
                state.store.patch((collection, namespace, name), is_status, &asked.content_type, &asked.body)
            }
        };
        drop(state);
        self.inner.bell.notify_waiters();
        match answer {
            Ok(body) => Ok(Response::builder().status(200).body(full(body.to_string()))?),
            Err(store::Refusal { code, message, details }) => refuse(code, &message, details),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap()
    }
}

fn refuse(code: u16, message: &str, details: Option<Value>) -> Result<Response<Answer>, Failure> {
    let status = json!({"kind": "Status", "code": code, "message": message, "details": details});
    Ok(Response::builder().status(code).body(full(status.to_string()))?)
}

fn full(text: String) -> Answer {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// The lines of a watch, each broken somewhere in the middle, as networks do.
fn to_body(lines: mpsc::UnboundedReceiver<Line>) -> Answer {
    let frames = stream::unfold((lines, None::<Bytes>), |(mut lines, rest)| async move {
        if let Some(rest) = rest {
            return Some((Ok(rest), (lines, None)));
        }
        match lines.recv().await {
            Some(Line::Text(mut text)) => {
                let rest = text.split_off(text.len() / 2);
                Some((Ok(text), (lines, Some(rest))))
            }
            Some(Line::Break) => {
                lines.close();
                Some((Err(std::io::Error::other("broken")), (lines, None)))
            }
            None => None,
        }
    });
    StreamBody::new(frames.map(|frame| frame.map(Frame::data))).boxed_unsync()
}
