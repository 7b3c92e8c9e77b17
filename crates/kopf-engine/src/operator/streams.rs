//! 1. Which streams run: one per served resource and namespace, as discovery publishes them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kopf_reaction::{Handler, HandlerSet, Resource, ResourceId};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::front::SelectorCallbacks;
use crate::metrics::Metrics;
use crate::queue::{Blocker, Expected, Queue, QueueSink};
use crate::stream::{OnForbidden, StreamHealth, WatchStream};
use crate::support::{Env, ResourceKey};
use crate::{Api, Insight, Pauses, Settings};

const TARGET: &str = "kopf.engine.serving";

/// The streams of one operator. Dropped, it ends all of them.
pub(crate) struct Streams {
    deps: StreamDeps,
    resources: HashMap<ResourceId, WatchedResource>,
    next_stream: u64,
    /// As the streams know it.
    paused: Option<Blocker>,
}

/// What the streams work with.
pub(crate) struct StreamDeps {
    pub env: Env,
    pub api: Api,
    pub settings: Arc<Settings>,
    pub metrics: Metrics,
    pub queue: Queue,
    pub handlers: Arc<[Arc<Handler>]>,
    pub pauses: Pauses,
    /// Asked about the resources that the settings select by functions.
    pub selector_callbacks: Arc<dyn SelectorCallbacks>,
}

/// One resource that is watched.
struct WatchedResource {
    key: ResourceKey,
    /// As discovery has described it last.
    resource: Arc<Resource>,
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

impl Streams {
    pub(super) fn new(deps: StreamDeps) -> Self {
        Self { deps, resources: HashMap::new(), next_stream: 0, paused: None }
    }

    /// Starts and stops streams as the cluster changes; it ends only with the discovery.
    pub(super) async fn follow(&mut self, mut insights: watch::Receiver<Arc<Insight>>, ready: impl FnOnce()) {
        let mut ready = Some(ready);
        let mut paused = self.deps.pauses.subscribe();
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

    /// Ends all streams for the time of a pause; then they start again, with a listing.
    fn pause(&mut self, must_pause: bool) {
        if must_pause == self.paused.is_some() {
            return;
        }
        // Also until all streams are there again: what has happened meanwhile comes before what was put off.
        let _blocker = self.deps.queue.block();
        self.paused = must_pause.then(|| self.deps.queue.block());
        let mut resources = std::mem::take(&mut self.resources);
        for watched in resources.values_mut() {
            for (namespace, stream) in &mut watched.streams {
                if must_pause {
                    (stream.tasks, stream.health) = (JoinSet::new(), None);
                } else {
                    self.deps.queue.expect(watched.key, stream.number, Expected::Objects);
                    self.run(watched.key, &watched.resource, namespace.clone(), stream);
                }
            }
        }
        self.resources = resources;
        let text = if must_pause { "The watch-streams are paused." } else { "The watch-streams are resumed." };
        self.deps.env.log.debug(TARGET, text.to_owned());
    }

    fn adjust(&mut self, insight: &Insight) {
        // Until all streams are there: the first objects must not be handled before the last resource is indexed.
        let _blocker = self.deps.queue.block();
        let (log, queue) = (&self.deps.env.log, &self.deps.queue);
        self.resources.retain(|_, watched| {
            let served = insight.resources.iter().any(|resource| resource.is_same(&watched.resource));
            if !served {
                log.debug(TARGET, format!("Stopped serving {}.", watched.resource));
                queue.remove_resource(watched.key);
            }
            served
        });
        for resource in &insight.resources {
            self.serve(resource, insight);
        }
    }

    fn serve(&mut self, resource: &Arc<Resource>, insight: &Insight) {
        let matching =
            insight.selectors_of(resource).iter().filter_map(|index| self.deps.handlers.get(*index).cloned());
        let served = Arc::new(self.deps.queue.reactor().serve(resource, HandlerSet::for_resource(resource, matching)));
        // The same resource may have changed in its details, such as its subresources.
        let mut watched = match self.resources.remove(&resource.id()) {
            Some(watched) => {
                self.deps.queue.replace_resource(watched.key, served);
                WatchedResource { resource: Arc::clone(resource), ..watched }
            }
            None => WatchedResource {
                key: self.deps.queue.add_resource(served),
                resource: Arc::clone(resource),
                streams: HashMap::new(),
            },
        };
        let cluster = [None];
        let namespaces = if resource.namespaced { insight.namespaces.as_slice() } else { &cluster };
        watched.streams.retain(|namespace, stream| {
            let served = namespaces.contains(namespace);
            if !served {
                self.deps.queue.forget_stream(watched.key, stream.number);
            }
            served
        });
        for namespace in namespaces {
            if !watched.streams.contains_key(namespace) {
                let stream = self.start(watched.key, resource, namespace.clone());
                watched.streams.insert(namespace.clone(), stream);
            }
        }
        self.resources.insert(resource.id(), watched);
    }

    fn start(&mut self, key: ResourceKey, resource: &Arc<Resource>, namespace: Option<Arc<str>>) -> Stream {
        let number = self.next_stream;
        self.next_stream += 1;
        self.deps.queue.expect(key, number, Expected::Index);
        let mut stream = Stream { number, listings: Arc::default(), tasks: JoinSet::new(), health: None };
        if self.paused.is_none() {
            self.run(key, resource, namespace, &mut stream);
        }
        stream
    }

    /// Lets the stream run.
    fn run(&self, key: ResourceKey, resource: &Arc<Resource>, namespace: Option<Arc<str>>, stream: &mut Stream) {
        let health = Arc::new(StreamHealth::default());
        self.deps.metrics.observe(resource, namespace.as_ref(), &health);
        let StreamDeps { env, api, settings, queue, selector_callbacks, .. } = &self.deps;
        let watching = WatchStream {
            api: api.clone(),
            settings: Arc::new(settings.watching.clone()),
            clock: env.clock.clone(),
            log: env.log.clone(),
            resource: Arc::clone(resource),
            namespace,
            health: Arc::clone(&health),
            on_forbidden: OnForbidden::Warn,
            selector_callbacks: Arc::clone(selector_callbacks),
        };
        let sink = QueueSink::new(queue.clone(), key, stream.number, Arc::clone(&stream.listings));
        let mut tasks = JoinSet::new();
        let title = format!("The watch-stream of {resource}");
        tasks.spawn(env.crashes.clone().guard(title, watching.run(sink)));
        (stream.health, stream.tasks) = (Some(health), tasks);
    }
}
