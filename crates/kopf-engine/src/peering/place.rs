//! One peering object: what the others tell there, and what we tell.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{Peer, PeeringDecision, Resource, decide_peering, keepalive_pause};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Parts, TARGET};
use crate::stream::{EventKind, OnForbidden, StreamHealth, StreamItem, WatchStream};
use crate::{ApiError, PatchKind};

/// Events of peering objects that wait for us.
const EVENTS_AT_MOST: usize = 64;

/// An operator for which the peering is not mandatory waits no longer for what the others have told.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon we tell again that we are alive if it has failed.
const RETRY_SECONDS: f64 = 1.0;

/// The longest wait for anything; then it is looked at again.
const A_DAY: f64 = 24.0 * 3600.0;

pub(super) struct Place {
    parts: Arc<Parts>,
    resource: Arc<Resource>,
    namespace: Option<Arc<str>>,
}

/// What is known of the peering object.
#[derive(Default)]
struct Sight {
    /// None if the object is not there.
    object: Option<Value>,
    /// The objects were listed at least once.
    listed: bool,
    /// The object was met in the listing under way.
    met: bool,
    /// As it was told last.
    paused: bool,
    /// The conflicts that were told last, by their identities.
    told: BTreeSet<String>,
    warned: BTreeSet<String>,
}

impl Place {
    pub fn new(parts: Arc<Parts>, resource: Arc<Resource>, namespace: Option<Arc<str>>) -> Self {
        Self { parts, resource, namespace }
    }

    /// The name under which it makes the operator pause.
    pub fn reason(&self) -> String {
        format!("{} {} {}", self.resource, self.parts.settings.peering.name, self.whereabouts())
    }

    /// Watches and tells for ever. Its reason to pause was given before, and holds until the peers are known.
    pub async fn run(self: Arc<Self>) {
        let Parts { clock, settings, .. } = &*self.parts;
        let mut streams = JoinSet::new();
        let mut items = self.observe(&mut streams);
        let mut sight = Sight::default();
        let patience = clock.instant() + PATIENCE;
        let mut keepalive = clock.instant();
        let mut until: Option<Instant> = None;
        // The object was not there when we wanted to tell something.
        let mut in_vain = false;
        loop {
            tokio::select! {
                biased;
                () = clock.sleep_until(keepalive) => {
                    let told = self.tell(None).await;
                    let pause = match &told {
                        Ok(_) => keepalive_pause(settings.peering.lifetime as f64, clock.jitter(1.0)),
                        Err(_) => RETRY_SECONDS,
                    };
                    in_vain = matches!(told, Ok(false));
                    if let Err(error) = told {
                        self.parts.log.warn(TARGET, format!("Cannot tell the peers that we are alive: {error}"));
                    }
                    keepalive = clock.instant() + crate::seconds(pause);
                }
                item = items.recv() => match item {
                    Some(item) => {
                        sight.learn(item, &settings.peering.name);
                        if sight.object.is_some() && std::mem::take(&mut in_vain) {
                            keepalive = clock.instant();
                        }
                    }
                    // The stream ends only with this task.
                    None => return,
                },
                () = clock.sleep_until(until.unwrap_or(keepalive)) => {}
                () = clock.sleep_until(patience), if !sight.listed && !settings.peering.mandatory => {
                    sight.listed = true;
                }
            }
            until = self.decide(&mut sight).await;
        }
    }

    fn observe(&self, streams: &mut JoinSet<()>) -> mpsc::Receiver<StreamItem> {
        let Parts { api, settings, clock, log, judge, crashes, .. } = &*self.parts;
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
            judge: Arc::clone(judge),
        };
        let title = format!("The watch-stream of {}", self.resource);
        streams.spawn(crashes.clone().guard(title, stream.run(sender)));
        receiver
    }

    /// Pauses or goes on. Tells when to decide anew if nothing is heard.
    async fn decide(&self, sight: &mut Sight) -> Option<Instant> {
        let Parts { api, clock, log, own_peer, settings, pauses, .. } = &*self.parts;
        if !sight.listed || (settings.peering.mandatory && sight.object.is_none()) {
            pauses.set(&self.reason(), true);
            return None;
        }
        let now = clock.now();
        let status = sight.object.as_ref().and_then(|object| object.get("status"));
        let verdict = decide_peering(status, own_peer, now);
        for problem in &verdict.unreadable {
            if sight.warned.insert(problem.clone()) {
                log.warn(TARGET, format!("Ignoring a peer that cannot be understood: {problem}"));
            }
        }
        self.speak(sight, &verdict);
        if sight.object.is_some() {
            // A peer may have handled objects since their pages were asked for, also if it is gone by now.
            api.forget_pages();
        }
        pauses.set(&self.reason(), verdict.must_pause());
        self.remove(sight, &verdict.dead).await;
        verdict.until.map(|until| {
            let seconds = until.duration_since(now).as_secs_f64().clamp(0.0, A_DAY);
            clock.instant() + crate::seconds(seconds)
        })
    }

    fn speak(&self, sight: &mut Sight, verdict: &PeeringDecision) {
        let log = &self.parts.log;
        let conflicts: BTreeSet<String> = verdict.conflicts.iter().map(|peer| peer.identity.clone()).collect();
        let (was_paused, is_paused) = (sight.paused, verdict.must_pause());
        if is_paused && verdict.same_priority && conflicts != sight.told {
            let same = list(&verdict.conflicts);
            log.warn(TARGET, format!("Possibly conflicting operators with the same priority: {same}."));
        }
        match (was_paused, is_paused) {
            (false, true) if verdict.same_priority => {
                log.warn(TARGET, format!("Pausing all operators, including self: {}", list(&verdict.peers)));
            }
            (false, true) => {
                log.info(TARGET, format!("Pausing operations in favour of {}.", list(&verdict.conflicts)));
            }
            (true, false) => {
                let text = "Resuming operations after the pause. \
                            Conflicting operators with the same priority are gone.";
                log.info(TARGET, text.to_owned());
            }
            _ => {}
        }
        (sight.paused, sight.told) = (is_paused, conflicts);
    }

    /// Removes those who are not heard of any more. If it fails, the next one to look at it will do it.
    async fn remove(&self, sight: &mut Sight, dead: &[String]) {
        let own_peer = &self.parts.own_peer.identity;
        let dead: Vec<&String> = dead.iter().filter(|identity| *identity != own_peer).collect();
        if dead.is_empty() {
            return;
        }
        if let Some(Value::Object(status)) = sight.object.as_mut().and_then(|object| object.get_mut("status")) {
            status.retain(|identity, _| !dead.contains(&identity));
        }
        let nobody: Map<String, Value> = dead.iter().map(|identity| (identity.to_string(), Value::Null)).collect();
        if let Err(error) = self.patch(nobody).await {
            self.parts.log.warn(TARGET, format!("Cannot remove the dead peers: {error}"));
        }
    }

    /// Tells the others that we are alive, or gone if the lifetime is zero. False if the object is not there.
    pub async fn tell(&self, lifetime: Option<i64>) -> Result<bool, ApiError> {
        let Parts { clock, log, own_peer, settings, .. } = &*self.parts;
        let lifetime = lifetime.unwrap_or(settings.peering.lifetime);
        let (identity, priority) = (own_peer.identity.clone(), own_peer.priority);
        let told = match lifetime {
            ..=0 => Value::Null,
            lifetime => Peer { identity: identity.clone(), priority, lifetime, lastseen: clock.now() }.to_value(),
        };
        let found = self.patch(Map::from_iter([(identity, told)])).await?;
        if !settings.peering.stealth || !found {
            let (name, place) = (&settings.peering.name, self.whereabouts());
            let result = if found { "ok" } else { "not found" };
            log.debug(TARGET, format!("Keep-alive in '{name}' {place}: {result}."));
        }
        Ok(found)
    }

    async fn patch(&self, status: Map<String, Value>) -> Result<bool, ApiError> {
        let has_status = self.resource.subresources.iter().any(|subresource| subresource == "status");
        let subresource = has_status.then_some("status");
        let name = &self.parts.settings.peering.name;
        let path = self.resource.path(self.namespace.as_deref(), Some(name), subresource);
        let body = json!({"status": status}).to_string().into();
        match self.parts.api.patch(&path, PatchKind::Merge, body).await {
            Ok(_) => Ok(true),
            Err(ApiError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn whereabouts(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("in '{namespace}'"),
            None => "cluster-wide".to_owned(),
        }
    }
}

impl Sight {
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
            StreamItem::Event { kind, raw } => {
                // What cannot be read is none of ours: the API server gives JSON only.
                let Ok(object) = serde_json::from_slice::<Value>(&raw) else { return };
                if object["metadata"]["name"] == name {
                    self.met = true;
                    self.object = (kind != EventKind::Deleted).then_some(object);
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
