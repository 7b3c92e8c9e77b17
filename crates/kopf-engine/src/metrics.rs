//! What the operator counts: atomics, which the engine increments while it works, and the metrics page reads.
//!
//! Counting costs a few atomic additions per call of a handler. Nothing is rendered until somebody asks for it.

mod page;
mod process;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use kopf_reaction::{CallError, Handler, HandlerType, Resource};

use crate::front::CallReply;
use crate::{Api, Clock, StreamHealth, StreamState};

pub(crate) use page::{CONTENT_TYPE, render};

/// The upper bounds of the durations of calls, in seconds.
const DURATIONS: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0];

/// How many handlers are counted by their own names; sub-handlers can be as many as there are objects.
const HANDLERS_AT_MOST: usize = 1000;

/// The counts of one operator; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    handlers: RwLock<BTreeMap<HandlerKey, Arc<HandlerCounts>>>,
    streams: Mutex<Vec<ObservedStream>>,
    patches: [AtomicU64; 3],
    /// Once connected.
    api: RwLock<Option<Api>>,
    queue: RwLock<Option<Box<dyn Fn() -> QueueFigures + Send + Sync>>>,
}

/// The type and the id of a handler.
type HandlerKey = (&'static str, Arc<str>);

/// The calls of one handler.
#[derive(Default)]
pub(crate) struct HandlerCounts {
    started: AtomicU64,
    retries: AtomicU64,
    succeeded: AtomicU64,
    /// By the types of errors, see [`FAILURES`].
    failed: [AtomicU64; 4],
    /// By the upper bounds of their durations; the last one is for all that are longer.
    durations: [AtomicU64; DURATIONS.len() + 1],
    microseconds: AtomicU64,
}

const FAILURES: [&str; 4] = ["temporary", "permanent", "timeout", "error"];

/// The outcome of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchResult {
    Applied,
    Gone,
    Failed,
}

const PATCHES: [&str; 3] = ["applied", "gone", "failed"];

/// The queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueFigures {
    /// Objects with something to be done now.
    pub waiting: usize,
    /// Objects that wait for the indexes, or for the end of a pause.
    pub blocked: usize,
    /// Objects that are being handled.
    pub running: usize,
    /// Objects that are known.
    pub objects: usize,
    /// How long the first of the waiting ones has waited.
    pub oldest_seconds: f64,
    /// The handlers have to wait: the indexes are not complete, or the operator pauses.
    pub closed: bool,
}

struct ObservedStream {
    resource: Arc<Resource>,
    namespace: Option<Arc<str>>,
    /// Gone with the stream.
    health: Weak<StreamHealth>,
}

/// A stream that should run, as it was seen last.
pub(crate) struct ObservedStreamHealth {
    pub resource: String,
    pub namespace: String,
    pub health: Arc<StreamHealth>,
}

impl Metrics {
    /// A call of a handler begins; [`CallCount::finish`] ends it.
    pub(crate) fn begin(&self, handler: &Handler, retry: u32, clock: &Clock) -> CallCount {
        let counts = self.of(handler);
        counts.started.fetch_add(1, Ordering::Relaxed);
        if retry > 0 {
            counts.retries.fetch_add(1, Ordering::Relaxed);
        }
        CallCount { counts, began: clock.instant() }
    }

    fn of(&self, handler: &Handler) -> Arc<HandlerCounts> {
        let kind = kind_of(handler);
        let key = (kind, Arc::clone(&handler.id));
        if let Some(counts) = self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(counts);
        }
        let mut handlers = self.inner.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let key = if handlers.len() < HANDLERS_AT_MOST { key } else { (kind, "(others)".into()) };
        Arc::clone(handlers.entry(key).or_default())
    }

    pub(crate) fn count_patch(&self, result: PatchResult) {
        self.inner.patches[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Shows the stream on the page while anybody holds its health.
    pub(crate) fn observe(&self, resource: &Arc<Resource>, namespace: Option<&Arc<str>>, health: &Arc<StreamHealth>) {
        let mut streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| stream.health.strong_count() > 0);
        let (resource, namespace) = (Arc::clone(resource), namespace.cloned());
        streams.push(ObservedStream { resource, namespace, health: Arc::downgrade(health) });
    }

    pub(crate) fn streams(&self) -> Vec<ObservedStreamHealth> {
        let streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = streams.iter().filter_map(|stream| {
            Some(ObservedStreamHealth {
                resource: stream.resource.to_string(),
                namespace: stream.namespace.as_deref().unwrap_or_default().to_owned(),
                health: stream.health.upgrade()?,
            })
        });
        alive.collect()
    }

    /// The streams that have ended though nobody stopped them.
    pub(crate) fn dead_streams(&self) -> Vec<String> {
        let streams = self.streams().into_iter();
        let dead = streams.filter(|stream| stream.health.state() == StreamState::Stopped);
        dead.map(|stream| format!("{} {}", stream.resource, stream.namespace).trim().to_owned()).collect()
    }

    pub(crate) fn connect(&self, api: Api) {
        *self.inner.api.write().unwrap_or_else(PoisonError::into_inner) = Some(api);
    }

    /// The handlers have to wait for something.
    pub(crate) fn is_closed(&self) -> bool {
        let queue = self.inner.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().is_some_and(|figures| figures().closed)
    }

    pub(crate) fn watch_queue(&self, figures: impl Fn() -> QueueFigures + Send + Sync + 'static) {
        *self.inner.queue.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(figures));
    }
}

/// One call under way.
pub(crate) struct CallCount {
    counts: Arc<HandlerCounts>,
    began: tokio::time::Instant,
}

impl CallCount {
    /// The outcome of the call.
    pub(crate) fn finish(self, reply: &CallReply, clock: &Clock) {
        self.counts.finish(&reply.result, clock.instant().saturating_duration_since(self.began));
    }
}

impl HandlerCounts {
    fn finish<T>(&self, result: &Result<T, CallError>, duration: Duration) {
        let failure = match result {
            // A refusal is a normal outcome of a webhook.
            Ok(_) | Err(CallError::Denied { .. }) => None,
            // Neither failures nor successes: the engine calls the handler again when its sub-handlers are done.
            Err(CallError::ChildrenRetry { .. } | CallError::Abandoned) => return,
            Err(CallError::Temporary { .. }) => Some(0),
            Err(CallError::Permanent { .. } | CallError::Exhausted { .. }) => Some(1),
            Err(CallError::TimedOut) => Some(2),
            Err(CallError::Arbitrary { .. }) => Some(3),
        };
        let counter = failure.map_or(&self.succeeded, |kind: usize| &self.failed[kind]);
        counter.fetch_add(1, Ordering::Relaxed);
        let seconds = duration.as_secs_f64();
        let bucket = DURATIONS.iter().position(|bound| seconds <= *bound).unwrap_or(DURATIONS.len());
        self.durations[bucket].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }
}

const fn kind_of(handler: &Handler) -> &'static str {
    match handler.handler_type {
        HandlerType::Activity => "activity",
        HandlerType::Event => "event",
        HandlerType::Change => "change",
        HandlerType::Daemon => "daemon",
        HandlerType::Timer => "timer",
        HandlerType::Index => "index",
        HandlerType::Webhook => "webhook",
    }
}
