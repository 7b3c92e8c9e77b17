//! 1. Which streams run: one per kind and namespace, as the discovery tells. Their events go to the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kopf_reaction::{EventType, Handler, HandlerSet, Resource};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::queue::{Blocker, Expected, KindKey, Queue};
use crate::stream::{EventKind, OnForbidden, StreamHealth, StreamItem, WatchStream};
use crate::support::crashes::Crashes;
use crate::support::pauses::Pauses;
use crate::{Api, Clock, Insight, Judge, Log, NoJudge, Settings};

/// Events between a stream and the queue; a full channel slows the reading down.
const EVENTS_AT_MOST: usize = 256;

/// The streams of one operator. Dropped, it ends all of them.
pub(crate) struct Serving {
    api: Api,
    settings: Arc<Settings>,
    clock: Clock,
    log: Log,
    queue: Queue,
    handlers: Arc<[Arc<Handler>]>,
    kinds: HashMap<Arc<Resource>, Kind>,
    next_stream: u64,
    pauses: Pauses,
    crashes: Crashes,
    judge: Arc<dyn Judge>,
    /// As the streams know it.
    paused: Option<Blocker>,
}

/// One kind that is served.
struct Kind {
    key: KindKey,
    streams: HashMap<Option<Arc<str>>, Stream>,
}

/// One stream; dropped, it ends.
struct Stream {
    number: u64,
    /// How often the objects were listed so far, over all pauses.
    listings: Arc<AtomicU64>,
    /// Empty during pauses.
    tasks: JoinSet<()>,
    /// Kept as long as the stream is to run.
    health: Option<Arc<StreamHealth>>,
}

impl Serving {
    pub fn new(
        api: Api,
        settings: Arc<Settings>,
        clock: Clock,
        log: Log,
        queue: Queue,
        handlers: Arc<[Arc<Handler>]>,
        pauses: Pauses,
    ) -> Self {
        let (kinds, next_stream, paused, crashes) = (HashMap::new(), 0, None, Crashes::new(log.clone()));
        let judge = Arc::new(NoJudge);
        Self { api, settings, clock, log, queue, handlers, kinds, next_stream, pauses, crashes, judge, paused }
    }

    /// Who is asked about the resources that the settings select by functions.
    pub fn judged_by(self, judge: Arc<dyn Judge>) -> Self {
        Self { judge, ..self }
    }

    /// Where the crashes of streams are to be reported.
    pub fn report_to(self, crashes: Crashes) -> Self {
        Self { crashes, ..self }
    }

    /// Starts and stops streams as the cluster changes; it ends only with the discovery.
    pub async fn follow(&mut self, mut insights: watch::Receiver<Arc<Insight>>, ready: impl FnOnce()) {
        let mut ready = Some(ready);
        let mut paused = self.pauses.subscribe();
        loop {
            let must_pause = *paused.borrow_and_update();
            self.pause(must_pause);
            let insight = Arc::clone(&insights.borrow_and_update());
            if insight.ready {
                self.adjust(&insight);
                if let Some(ready) = ready.take() {
                    ready();
                }
            }
            tokio::select! {
                // The pauses outlive us.
                _ = paused.changed() => {}
                changed = insights.changed() => if changed.is_err() {
                    // The discovery is gone, which happens only when everything stops.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Ends all streams for the time of a pause; then they begin anew, with a listing.
    fn pause(&mut self, must_pause: bool) {
        if must_pause == self.paused.is_some() {
            return;
        }
        // Also until all streams are there again: what has happened meanwhile comes before what was put off.
        let _blocker = self.queue.block();
        self.paused = must_pause.then(|| self.queue.block());
        let mut kinds = std::mem::take(&mut self.kinds);
        for (resource, kind) in &mut kinds {
            for (namespace, stream) in &mut kind.streams {
                if must_pause {
                    (stream.tasks, stream.health) = (JoinSet::new(), None);
                } else {
                    self.queue.expect(kind.key, stream.number, Expected::News);
                    self.run(kind.key, resource, namespace.clone(), stream);
                }
            }
        }
        self.kinds = kinds;
        let text = if must_pause { "The watch-streams are paused." } else { "The watch-streams are resumed." };
        self.log.debug("kopf.engine.serving", text.to_owned());
    }

    fn adjust(&mut self, insight: &Insight) {
        // Until all streams are there: the first objects must not be handled before the last kind is indexed.
        let _blocker = self.queue.block();
        let (log, queue) = (&self.log, &self.queue);
        self.kinds.retain(|resource, kind| {
            let served = insight.resources.contains(resource);
            if !served {
                log.debug("kopf.engine.serving", format!("Stopped serving {resource}."));
                queue.remove_kind(kind.key);
            }
            served
        });
        for resource in &insight.resources {
            self.serve(resource, insight);
        }
    }

    fn serve(&mut self, resource: &Arc<Resource>, insight: &Insight) {
        let matching = insight.selectors_of(resource).iter().filter_map(|index| self.handlers.get(*index).cloned());
        let served = Arc::new(self.queue.reactor().served_kind(resource, HandlerSet::from_handlers(matching)));
        // The same kind may have changed in its details, such as its subresources.
        let mut kind = match self.kinds.remove_entry(resource) {
            Some((_, kind)) => {
                self.queue.replace_kind(kind.key, served);
                kind
            }
            None => Kind { key: self.queue.add_kind(served), streams: HashMap::new() },
        };
        let cluster = [None];
        let namespaces = if resource.namespaced { insight.namespaces.as_slice() } else { &cluster };
        kind.streams.retain(|namespace, stream| {
            let served = namespaces.contains(namespace);
            if !served {
                self.queue.forget_stream(kind.key, stream.number);
            }
            served
        });
        for namespace in namespaces {
            if !kind.streams.contains_key(namespace) {
                let stream = self.start(kind.key, resource, namespace.clone());
                kind.streams.insert(namespace.clone(), stream);
            }
        }
        self.kinds.insert(Arc::clone(resource), kind);
    }

    fn start(&mut self, key: KindKey, resource: &Arc<Resource>, namespace: Option<Arc<str>>) -> Stream {
        let number = self.next_stream;
        self.next_stream += 1;
        self.queue.expect(key, number, Expected::Index);
        let mut stream = Stream { number, listings: Arc::default(), tasks: JoinSet::new(), health: None };
        if self.paused.is_none() {
            self.run(key, resource, namespace, &mut stream);
        }
        stream
    }

    /// Lets the stream run.
    fn run(&self, key: KindKey, resource: &Arc<Resource>, namespace: Option<Arc<str>>, stream: &mut Stream) {
        let health = Arc::new(StreamHealth::default());
        self.queue.metrics().observe(resource, namespace.as_ref(), &health);
        let watching = WatchStream {
            api: self.api.clone(),
            settings: Arc::new(self.settings.watching.clone()),
            clock: self.clock.clone(),
            log: self.log.clone(),
            resource: Arc::clone(resource),
            namespace,
            health: Arc::clone(&health),
            on_forbidden: OnForbidden::Warn,
            judge: Arc::clone(&self.judge),
        };
        let (sender, receiver) = mpsc::channel(EVENTS_AT_MOST);
        let mut tasks = JoinSet::new();
        stream.health = Some(health);
        let title = format!("The watch-stream of {resource}");
        let feeding = feed(self.queue.clone(), key, stream.number, Arc::clone(&stream.listings), receiver);
        tasks.spawn(self.crashes.clone().guard(title.clone(), watching.run(sender)));
        tasks.spawn(self.crashes.clone().guard(title, feeding));
        stream.tasks = tasks;
    }
}

/// Carries the items of one stream to the queue.
async fn feed(
    queue: Queue,
    key: KindKey,
    stream: u64,
    listings: Arc<AtomicU64>,
    mut items: mpsc::Receiver<StreamItem>,
) {
    let mut listing = listings.load(Ordering::Relaxed);
    while let Some(item) = items.recv().await {
        match item {
            StreamItem::ListStarted => listing = listings.fetch_add(1, Ordering::Relaxed) + 1,
            StreamItem::Rewound => queue.rewind(key, stream),
            StreamItem::ListDone => queue.listed(key, stream, listing),
            StreamItem::Event { kind, raw } => {
                let room = if kind == EventKind::Listed { queue.room(key, raw.len()).await } else { None };
                queue.push(key, stream, listing, event_type(kind), raw, room);
            }
            StreamItem::Forbidden { .. } => {}
        }
    }
}

fn event_type(kind: EventKind) -> EventType {
    match kind {
        EventKind::Listed => EventType::Listed,
        EventKind::Added => EventType::Added,
        EventKind::Modified => EventType::Modified,
        EventKind::Deleted => EventType::Deleted,
    }
}
