//! One peering object: what the other operators announce there, and what we announce.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{EventType, Peer, PeeringDecision, Resource, decide_peering, keepalive_pause};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{PeeringDeps, Shared, TARGET};
use crate::stream::{OnForbidden, StreamHealth, StreamItem, WatchStream};
use crate::support::Env;
use crate::{ApiError, PatchKind};

/// Events of peering objects that wait for us.
const EVENTS_AT_MOST: usize = 64;

/// An operator for which the peering is not mandatory waits no longer for the announcements of others.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon we announce again that we are alive if it has failed.
const RETRY_SECONDS: f64 = 1.0;

/// The longest wait for anything; then it is looked at again.
const A_DAY: f64 = 24.0 * 3600.0;

pub(super) struct PeeringObject {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<Arc<str>>,
}

/// What is known of the peering object.
#[derive(Default)]
struct ObservedPeers {
    /// None if the object is not there.
    object: Option<Value>,
    /// The objects were listed at least once.
    listed: bool,
    /// The object was met in the listing under way.
    met: bool,
    /// As it was logged last.
    paused: bool,
    /// The conflicts that were logged last, by their identities.
    logged: BTreeSet<String>,
    warned: BTreeSet<String>,
}

impl PeeringObject {
    pub(super) fn new(shared: Arc<Shared>, resource: Arc<Resource>, namespace: Option<Arc<str>>) -> Self {
        Self { shared, resource, namespace }
    }

    /// The name under which it makes the operator pause.
    pub(super) fn reason(&self) -> String {
        format!("{} {} {}", self.resource, self.shared.deps.settings.peering.name, self.location())
    }

    /// Watches and announces for ever. Its reason to pause was given before, and holds until the peers are known.
    pub(super) async fn run(self: Arc<Self>) {
        let Shared { deps: PeeringDeps { env: Env { clock, .. }, settings, .. }, .. } = &*self.shared;
        let mut streams = JoinSet::new();
        let mut items = self.observe(&mut streams);
        let mut observed = ObservedPeers::default();
        let patience = clock.instant() + PATIENCE;
        let mut keepalive = clock.instant();
        let mut until: Option<Instant> = None;
        // The object did not exist when we wanted to announce something.
        let mut in_vain = false;
        loop {
            tokio::select! {
                biased;
                () = clock.sleep_until(keepalive) => {
                    let announced = self.announce(None).await;
                    let pause = match &announced {
                        Ok(_) => keepalive_pause(settings.peering.lifetime as f64, clock.jitter(1.0)),
                        Err(_) => RETRY_SECONDS,
                    };
                    in_vain = matches!(announced, Ok(false));
                    if let Err(error) = announced {
                        self.shared.deps.env.log.warn(TARGET, format!("Cannot announce to the peers that this operator is alive; will retry: {error}"));
                    }
                    keepalive = clock.instant() + crate::seconds(pause);
                }
                item = items.recv() => match item {
                    Some(item) => {
                        observed.learn(item, &settings.peering.name);
                        if observed.object.is_some() && std::mem::take(&mut in_vain) {
                            keepalive = clock.instant();
                        }
                    }
                    // The stream ends only with this task.
                    None => return,
                },
                () = clock.sleep_until(until.unwrap_or(keepalive)) => {}
                () = clock.sleep_until(patience), if !observed.listed && !settings.peering.mandatory => {
                    observed.listed = true;
                }
            }
            until = self.decide(&mut observed).await;
        }
    }

    fn observe(&self, streams: &mut JoinSet<()>) -> mpsc::Receiver<StreamItem> {
        let PeeringDeps { api, settings, env, selector_callbacks, .. } = &self.shared.deps;
        let Env { clock, log, crashes } = env;
        let (sender, receiver) = mpsc::channel(EVENTS_AT_MOST);
        let stream = WatchStream {
            api: api.clone(),
            settings: Arc::new(settings.watching.clone()),
            clock: clock.clone(),
            log: log.clone(),
            resource: Arc::clone(&self.resource),
            namespace: self.namespace.clone(),
            health: Arc::new(StreamHealth::default()),
            on_forbidden: OnForbidden::Warn,
            selector_callbacks: Arc::clone(selector_callbacks),
        };
        let title = format!("The watch-stream of {}", self.resource);
        streams.spawn(crashes.clone().guard(title, stream.run(sender)));
        receiver
    }

    /// Pauses or goes on. Returns when to decide again if no event comes.
    async fn decide(&self, observed: &mut ObservedPeers) -> Option<Instant> {
        let Shared { deps: PeeringDeps { api, env: Env { clock, log, .. }, settings, pauses, .. }, own_peer } =
            &*self.shared;
        if !observed.listed || (settings.peering.mandatory && observed.object.is_none()) {
            pauses.set(&self.reason(), true);
            return None;
        }
        let now = clock.now();
        let status = observed.object.as_ref().and_then(|object| object.get("status"));
        let decision = decide_peering(status, own_peer, now);
        for problem in &decision.unreadable {
            if observed.warned.insert(problem.clone()) {
                log.warn(TARGET, format!("Ignoring a peer that cannot be understood: {problem}"));
            }
        }
        self.log_changes(observed, &decision);
        if observed.object.is_some() {
            // A peer may have handled objects since their pages were asked for, also if it is gone by now.
            api.forget_pages();
        }
        pauses.set(&self.reason(), decision.must_pause());
        self.remove(observed, &decision.dead).await;
        decision.until.map(|until| {
            let seconds = until.duration_since(now).as_secs_f64().clamp(0.0, A_DAY);
            clock.instant() + crate::seconds(seconds)
        })
    }

    fn log_changes(&self, observed: &mut ObservedPeers, decision: &PeeringDecision) {
        let log = &self.shared.deps.env.log;
        let conflicts: BTreeSet<String> = decision.conflicts.iter().map(|peer| peer.identity.clone()).collect();
        let (was_paused, is_paused) = (observed.paused, decision.must_pause());
        if is_paused && decision.same_priority && conflicts != observed.logged {
            let same = list(&decision.conflicts);
            log.warn(TARGET, format!("Possibly conflicting operators with the same priority: {same}."));
        }
        match (was_paused, is_paused) {
            (false, true) if decision.same_priority => {
                log.warn(TARGET, format!("Pausing all operators, including self: {}", list(&decision.peers)));
            }
            (false, true) => {
                log.info(TARGET, format!("Pausing operations in favour of {}.", list(&decision.conflicts)));
            }
            (true, false) => {
                let text = "Resuming operations after the pause. \
                            Conflicting operators with the same priority are gone.";
                log.info(TARGET, text.to_owned());
            }
            _ => {}
        }
        (observed.paused, observed.logged) = (is_paused, conflicts);
    }

    /// Removes those who are not heard of any more. If it fails, the next one to look at it will do it.
    async fn remove(&self, observed: &mut ObservedPeers, dead: &[String]) {
        let own_peer = &self.shared.own_peer.identity;
        let dead: Vec<&String> = dead.iter().filter(|identity| *identity != own_peer).collect();
        if dead.is_empty() {
            return;
        }
        if let Some(Value::Object(status)) = observed.object.as_mut().and_then(|object| object.get_mut("status")) {
            status.retain(|identity, _| !dead.contains(&identity));
        }
        let nobody: Map<String, Value> = dead.iter().map(|identity| (identity.to_string(), Value::Null)).collect();
        if let Err(error) = self.patch(nobody).await {
            self.shared.deps.env.log.warn(TARGET, format!("Cannot remove the dead peers: {error}"));
        }
    }

    /// Announces that we are alive, or gone if the lifetime is zero. Returns false if the object does not exist.
    pub(super) async fn announce(&self, lifetime: Option<i64>) -> Result<bool, ApiError> {
        let Shared { deps: PeeringDeps { env: Env { clock, log, .. }, settings, .. }, own_peer } = &*self.shared;
        let lifetime = lifetime.unwrap_or(settings.peering.lifetime);
        let (identity, priority) = (own_peer.identity.clone(), own_peer.priority);
        let announced = match lifetime {
            ..=0 => Value::Null,
            lifetime => Peer { identity: identity.clone(), priority, lifetime, lastseen: clock.now() }.to_value(),
        };
        let found = self.patch(Map::from_iter([(identity, announced)])).await?;
        if !settings.peering.stealth || !found {
            let (name, place) = (&settings.peering.name, self.location());
            let result = if found { "ok" } else { "not found" };
            log.debug(TARGET, format!("Keep-alive in '{name}' {place}: {result}."));
        }
        Ok(found)
    }

    async fn patch(&self, status: Map<String, Value>) -> Result<bool, ApiError> {
        let has_status = self.resource.subresources.iter().any(|subresource| subresource == "status");
        let subresource = has_status.then_some("status");
        let name = &self.shared.deps.settings.peering.name;
        let path = self.resource.path(self.namespace.as_deref(), Some(name), subresource);
        let body = json!({"status": status}).to_string().into();
        match self.shared.deps.api.patch(&path, PatchKind::Merge, body).await {
            Ok(_) => Ok(true),
            Err(ApiError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn location(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("in '{namespace}'"),
            None => "cluster-wide".to_owned(),
        }
    }
}

impl ObservedPeers {
    fn learn(&mut self, item: StreamItem, name: &str) {
        match item {
            StreamItem::ListStarted => self.met = false,
            StreamItem::Rewound => {}
            StreamItem::ListDone => {
                self.listed = true;
                if !self.met {
                    self.object = None;
                }
            }
            StreamItem::Event { event, raw } => {
                // What cannot be read is none of ours: the API server gives JSON only.
                let Ok(object) = serde_json::from_slice::<Value>(&raw) else { return };
                if object["metadata"]["name"] == name {
                    self.met = true;
                    self.object = (event != EventType::Deleted).then_some(object);
                }
            }
            StreamItem::Forbidden { .. } => {}
        }
    }
}

fn list(peers: &[Peer]) -> String {
    let texts: Vec<String> = peers.iter().map(ToString::to_string).collect();
    format!("[{}]", texts.join(", "))
}
