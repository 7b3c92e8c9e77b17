//! Kubernetes Events about objects, posted in the background.
//!
//! The fronts and the log put [`EventDraft`]s into the [`Poster`]; a few workers post them. Posting is best effort:
//! nothing waits for an event, and a failure is only a line in the log.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use kopf_object::ObjectReference;
use kopf_reaction::Resource;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client::{Api, ApiError};
use crate::settings::{EventSource, PostingSettings};
use crate::support::clock::Clock;
use crate::support::crashes::catch;
use crate::support::log::Log;

const TARGET: &str = "kopf.engine.posting";

/// Events that wait to be posted, over all workers.
const QUEUE_SIZE: usize = 1000;

/// Events posted at the same time, by default.
const WORKERS: usize = 4;

/// The longest message that the API takes, in characters, and what marks the cut.
const LONGEST_MESSAGE: usize = 1024;
const CUT: &str = "...";

/// One event to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDraft {
    /// The object that the event is about.
    pub reference: ObjectReference,
    /// `Normal`, `Warning`, or any text of the user.
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// The pauses between the attempts, in seconds; empty means one attempt.
    pub backoffs: Vec<f64>,
}

/// A cheap handle to the queue of events.
#[derive(Clone)]
pub struct Poster {
    inner: Arc<Inner>,
}

struct Inner {
    /// One queue per worker; the events of one object always go to the same one, in order.
    queues: Vec<mpsc::Sender<EventDraft>>,
    enabled: bool,
    log: Log,
    /// Whether the latest event was dropped: logged once, until the queue has space again.
    overflowing: AtomicBool,
}

/// The workers of a poster; dropping it stops them at once.
pub struct PosterWorkers {
    workers: JoinSet<()>,
    closing: watch::Sender<bool>,
    clock: Clock,
}

/// One worker.
struct Worker {
    api: Api,
    clock: Clock,
    log: Log,
    source: Arc<EventSource>,
    /// Whether any worker has logged the missing permissions.
    forbidden: Arc<AtomicBool>,
}

impl Poster {
    /// Starts the workers. To be called inside of a tokio runtime.
    pub fn start(
        api: Api,
        settings: &PostingSettings,
        source: EventSource,
        clock: Clock,
        log: Log,
    ) -> (Self, PosterWorkers) {
        let count = settings.worker_limit.unwrap_or(WORKERS).clamp(1, QUEUE_SIZE);
        let source = Arc::new(source);
        let forbidden = Arc::new(AtomicBool::new(false));
        let (closing, closed) = watch::channel(false);
        let mut workers = JoinSet::new();
        let mut queues = Vec::with_capacity(count);
        for _ in 0..count {
            let (sender, receiver) = mpsc::channel(QUEUE_SIZE / count);
            queues.push(sender);
            let worker = Worker {
                api: api.clone(),
                clock: clock.clone(),
                log: log.clone(),
                source: Arc::clone(&source),
                forbidden: Arc::clone(&forbidden),
            };
            workers.spawn(worker.run(receiver, closed.clone()));
        }
        let inner = Inner { queues, enabled: settings.enabled, log, overflowing: AtomicBool::new(false) };
        (Self { inner: Arc::new(inner) }, PosterWorkers { workers, closing, clock })
    }

    /// Queues an event. Never waits: if the queue is full, the event is dropped.
    pub fn post(&self, draft: EventDraft) {
        // An event about an event would be followed by an event about that, and so on.
        let about_event =
            draft.reference.api_version.as_deref() == Some("v1") && draft.reference.kind.as_deref() == Some("Event");
        if !self.inner.enabled || about_event {
            return;
        }
        let queue = &self.inner.queues[shard(&draft.reference, self.inner.queues.len())];
        match queue.try_send(draft) {
            Ok(()) => self.inner.overflowing.store(false, Ordering::Relaxed),
            Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                if !self.inner.overflowing.swap(true, Ordering::Relaxed) {
                    self.inner.log.warn(TARGET, "Too many events to post. Some of them are dropped.".to_owned());
                }
            }
        }
    }
}

impl PosterWorkers {
    /// Posts the queued events within the limit. Drops new events.
    pub async fn finish(mut self, limit: Duration) {
        self.closing.send_replace(true);
        let clock = self.clock.clone();
        let joined = clock.timeout(limit, async { while self.workers.join_next().await.is_some() {} }).await;
        if joined.is_err() {
            self.workers.abort_all();
        }
    }
}

impl Worker {
    async fn run(self, mut queue: mpsc::Receiver<EventDraft>, mut closed: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                draft = queue.recv() => match draft {
                    Some(draft) => {
                        // Events are no reason to end an operator: one is lost, and the worker goes on.
                        if let Err(text) = catch("The posting of an event", self.post(draft)).await {
                            let text = format!("{text} This is a bug of the framework; the event is lost.");
                            self.log.error(TARGET, text);
                        }
                    }
                    None => return,
                },
                () = async { drop(closed.wait_for(|closed| *closed).await) }, if !queue.is_closed() => queue.close(),
            }
        }
    }

    async fn post(&self, draft: EventDraft) {
        let namespace = match draft.reference.namespace.clone().filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => namespace,
            None => self.api.default_namespace().await,
        };
        let path = events_path(&namespace);
        let body = event_body(&draft, &namespace, &self.source, self.clock.now());
        let posted = self.api.post(&path, Bytes::from(body.to_string()), Some(&draft.backoffs)).await;
        let Err(error) = posted else { return };
        let forbidden = matches!(error, ApiError::Forbidden(_));
        if !forbidden || !self.forbidden.swap(true, Ordering::Relaxed) {
            self.log.warn(TARGET, failure_text(&draft, &error));
        }
    }
}

fn events_path(namespace: &str) -> String {
    let events = Resource { version: "v1".into(), plural: "events".into(), namespaced: true, ..Resource::default() };
    events.path(Some(namespace), None, None)
}

/// The event as the API takes it.
fn event_body(draft: &EventDraft, namespace: &str, source: &EventSource, now: Timestamp) -> Value {
    let reference = ObjectReference { namespace: Some(namespace.to_owned()), ..draft.reference.clone() };
    let time = now.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
    json!({
        "metadata": {"namespace": namespace, "generateName": source.event_name_prefix},
        "action": "Action?",
        "type": draft.kind,
        "reason": draft.reason,
        "message": shortened(&draft.message),
        "reportingComponent": source.reporting_component,
        "reportingInstance": source.reporting_instance,
        "source": {"component": source.reporting_component},
        "involvedObject": reference.to_json(),
        "firstTimestamp": time,
        "lastTimestamp": time,
        "eventTime": time,
    })
}

/// A message cut in its middle, so that both its beginning and its end stay.
fn shortened(message: &str) -> String {
    let length = message.chars().count();
    if length <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let prefix = LONGEST_MESSAGE / 2 - CUT.len() / 2;
    let suffix = LONGEST_MESSAGE / 2 - (CUT.len() - CUT.len() / 2);
    let beginning = message.chars().take(prefix);
    beginning.chain(CUT.chars()).chain(message.chars().skip(length - suffix)).collect()
}

fn failure_text(draft: &EventDraft, error: &ApiError) -> String {
    let event = format!("Event: type='{}', reason='{}', message='{}'.", draft.kind, draft.reason, draft.message);
    let known = |text: Option<&str>| text.unwrap_or("None").to_owned();
    match error.refusal() {
        Some(refusal) => format!(
            "Failed to post an event. Ignoring and continuing. Code: {}. Message: {}. Details: {}. {event}",
            refusal.code,
            known(refusal.message.as_deref()),
            known(refusal.details.as_ref().map(ToString::to_string).as_deref()),
        ),
        None => format!("Failed to post an event. Ignoring and continuing. Message: {error}. {event}"),
    }
}

/// The queue of the object: by its uid where it has one, else by its names.
fn shard(reference: &ObjectReference, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    match reference.uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => uid.hash(&mut hasher),
        None => reference.hash(&mut hasher),
    }
    // The remainder is below the count, which is far below what a usize holds.
    (hasher.finish() % count.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(message: &str) -> EventDraft {
        let text = |text: &str| Some(text.to_owned());
        EventDraft {
            reference: ObjectReference {
                api_version: text("kopf.dev/v1"),
                kind: text("KopfExample"),
                name: text("name"),
                uid: text("uid"),
                namespace: None,
            },
            kind: "Normal".into(),
            reason: "Reason".into(),
            message: message.into(),
            backoffs: Vec::new(),
        }
    }

    #[test]
    fn bodies() {
        let now: Timestamp = "2030-01-02T03:04:05.123456789Z".parse().unwrap();
        let body = event_body(&draft("text"), "ns", &EventSource::default(), now);
        assert_eq!(
            body,
            json!({
                "metadata": {"namespace": "ns", "generateName": "kopf-event-"},
                "action": "Action?",
                "type": "Normal",
                "reason": "Reason",
                "message": "text",
                "reportingComponent": "kopf",
                "reportingInstance": "dev",
                "source": {"component": "kopf"},
                "involvedObject":
                    {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "name", "uid": "uid", "namespace": "ns"},
                "firstTimestamp": "2030-01-02T03:04:05.123456+00:00",
                "lastTimestamp": "2030-01-02T03:04:05.123456+00:00",
                "eventTime": "2030-01-02T03:04:05.123456+00:00",
            })
        );
    }

    #[test]
    fn messages_are_cut_in_the_middle() {
        let long = format!("{}{}", "é".repeat(1000), "ü".repeat(1000));
        let cut = shortened(&long);
        assert_eq!(cut, format!("{}...{}", "é".repeat(511), "ü".repeat(510)));
        assert_eq!(cut.chars().count(), LONGEST_MESSAGE);
        let fitting = "x".repeat(LONGEST_MESSAGE);
        assert_eq!(shortened(&fitting), fitting);
    }

    #[test]
    fn one_object_keeps_one_queue() {
        let mut changed = draft("x").reference;
        changed.name = Some("other".into());
        assert_eq!(shard(&draft("x").reference, 7), shard(&changed, 7));
        changed.uid = None;
        assert!(shard(&changed, 7) < 7);
        assert_eq!(shard(&changed, 1), 0);
    }

    #[test]
    fn log_lines_of_failures_name_the_event() {
        let error = ApiError::Timeout { what: "POST /x".into(), limit: Duration::from_secs(1) };
        assert_eq!(
            failure_text(&draft("text"), &error),
            "Failed to post an event. Ignoring and continuing. Message: POST /x: no answer in 1 seconds. \
             Event: type='Normal', reason='Reason', message='text'."
        );
    }
}
