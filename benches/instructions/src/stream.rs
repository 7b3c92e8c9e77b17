//! Lists and watches, from the bytes of the answer to the objects.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kopf_engine::{NoSelectorCallbacks, OnForbidden, StreamHealth, StreamItem, WatchStream, WatchingSettings};
use kopf_object::{Body, ObjectIdentity};
use kopf_reaction::Resource;
use kube::client::Body as RequestBody;
use serde_json::json;
use tokio::sync::mpsc;

use crate::api::api_of;
use crate::{Outcome, object};

/// Objects in a page: as many as the engine requests.
const PAGE: usize = 500;

/// One event of a watch, until its object is parsed.
pub(crate) async fn watch_events(count: usize) -> Outcome {
    let line = Bytes::from(format!("{}\n", json!({"type": "MODIFIED", "object": object::fresh()})));
    let empty =
        Bytes::from(json!({"kind": "WidgetList", "metadata": {"resourceVersion": "1"}, "items": []}).to_string());
    let mut items = open(move |request: Request<RequestBody>| match is_watch(&request) {
        false => whole(empty.clone()),
        true => {
            let lines = stream::repeat(line.clone()).take(count).map(|line| Ok(Frame::data(line)));
            UnsyncBoxBody::new(StreamBody::new(lines.chain(stream::pending())))
        }
    });
    let mut seen = 0;
    while seen < count {
        if let Some(StreamItem::Event { raw, .. }) = items.recv().await {
            ObjectIdentity::from_slice(&raw)?;
            Body::parse(raw.as_ref())?;
            seen += 1;
        }
    }
    Ok(())
}

/// One page of a list, until its objects are handed on.
pub(crate) async fn list_pages(count: usize) -> Outcome {
    let objects = vec![object::fresh(); PAGE];
    let page = |token: &str| {
        let metadata = json!({"resourceVersion": "1", "continue": token});
        Bytes::from(
            json!({"apiVersion": "bench.dev/v1", "kind": "WidgetList", "metadata": metadata, "items": objects})
                .to_string(),
        )
    };
    let (page, last) = (page("more"), page(""));
    let left = Arc::new(AtomicUsize::new(count));
    let mut items = open(move |request: Request<RequestBody>| match is_watch(&request) {
        true => UnsyncBoxBody::new(StreamBody::new(stream::pending())),
        false if left.fetch_sub(1, Ordering::Relaxed) == 1 => whole(last.clone()),
        false => whole(page.clone()),
    });
    loop {
        match items.recv().await {
            Some(StreamItem::Event { raw, .. }) => drop(ObjectIdentity::from_slice(&raw)?),
            Some(StreamItem::ListDone) => return Ok(()),
            _ => {}
        }
    }
}

fn open(
    respond: impl Fn(Request<RequestBody>) -> UnsyncBoxBody<Bytes, Infallible> + Clone + Send + Sync + 'static,
) -> mpsc::Receiver<StreamItem> {
    let (api, clock, log) = api_of(move |request| {
        let answer = respond(request);
        async move { Ok(Response::new(answer)) }
    });
    let (sender, items) = mpsc::channel(64);
    let resource = Resource {
        group: "bench.dev".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        namespaced: true,
        ..Resource::default()
    };
    let stream = WatchStream {
        api,
        settings: Arc::new(WatchingSettings::default()),
        clock,
        log,
        resource: Arc::new(resource),
        namespace: Some("bench".into()),
        health: Arc::new(StreamHealth::default()),
        on_forbidden: OnForbidden::Warn,
        selector_callbacks: Arc::new(NoSelectorCallbacks),
    };
    tokio::spawn(stream.run(sender));
    items
}

fn whole(answer: Bytes) -> UnsyncBoxBody<Bytes, Infallible> {
    UnsyncBoxBody::new(Full::new(answer).map_err(|never| match never {}))
}

fn is_watch(request: &Request<RequestBody>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}
