//! Other operators of the same cluster: we tell them that we are alive, and pause while a more important one is.
//!
//! The operator runs one [`Peering`]. It has one place per peering object: one in each served namespace, or one for the
//! whole cluster; and twice that where both API groups are there. Who pauses is decided in `kopf-reaction`.

mod place;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kopf_reaction::{OwnPeer, Resource};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::crashes::Crashes;
use crate::support::pauses::Pauses;
use crate::{Api, Clock, Insight, Judge, Log, Settings};
use place::Place;

const TARGET: &str = "kopf.engine.peering";

/// The groups in which peering objects are defined, of now and of old.
const GROUPS: [&str; 2] = ["kopf.dev", "zalando.org"];

/// How long the removal from the peering may take at the exit.
const LEAVING_PATIENCE: Duration = Duration::from_secs(5);

/// Nothing is served before the peering objects were looked for.
const UNKNOWN: &str = "the peering is not known yet";
const MISSING: &str = "the peering is mandatory, but not there";

/// What a command does to the peering, instead of running an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeeringCommand {
    /// For how many seconds the others have to pause; zero withdraws it.
    pub lifetime: i64,
}

/// The peering of one operator; clones share it.
#[derive(Clone)]
pub(crate) struct Peering {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Arc<Parts>,
    places: Mutex<HashMap<PlaceKey, Running>>,
}

type PlaceKey = (Arc<Resource>, Option<Arc<str>>);

/// A place and its task; dropped, it ends.
struct Running {
    place: Arc<Place>,
    _task: JoinSet<()>,
}

/// What all places share.
struct Parts {
    api: Api,
    settings: Arc<Settings>,
    clock: Clock,
    log: Log,
    own_peer: OwnPeer,
    pauses: Pauses,
    judge: Arc<dyn Judge>,
    crashes: Crashes,
}

impl Peering {
    pub fn new(
        api: Api,
        settings: Arc<Settings>,
        clock: Clock,
        crashes: Crashes,
        identity: String,
        pauses: Pauses,
        judge: Arc<dyn Judge>,
    ) -> Self {
        let log = crashes.log();
        let priority = settings.peering.priority;
        let sharded = !settings.watching.shard_selectors.is_empty();
        let own_peer = OwnPeer { identity, priority, sharded };
        pauses.set(UNKNOWN, !settings.peering.standalone);
        let parts = Arc::new(Parts { api, settings, clock, log, own_peer, pauses, judge, crashes });
        Self { inner: Arc::new(Inner { parts, places: Mutex::default() }) }
    }

    /// The groups that discovery has to look into, besides those of the handlers.
    pub fn groups(settings: &Settings) -> Vec<String> {
        if settings.peering.standalone { Vec::new() } else { GROUPS.map(str::to_owned).to_vec() }
    }

    /// Takes part for ever, as the peering objects come and go.
    pub async fn follow(self, mut insights: watch::Receiver<Arc<Insight>>) {
        if self.inner.parts.settings.peering.standalone {
            return;
        }
        loop {
            let insight = Arc::clone(&insights.borrow_and_update());
            if insight.ready {
                self.adjust(&insight);
            }
            if insights.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn adjust(&self, insight: &Insight) {
        let Parts { api, settings, log, pauses, .. } = &*self.inner.parts;
        let keys = place_keys(insight, settings);
        let missing = settings.peering.mandatory && keys.is_empty();
        if missing && !pauses.is_blocked_by(MISSING) {
            api.forget_pages();
            log.warn(
                TARGET,
                "Pausing operations: the peering is mandatory, but there is no resource for it.".to_owned(),
            );
        }
        pauses.set(MISSING, missing);
        let mut places = self.places();
        places.retain(|key, running| {
            let served = keys.contains(key);
            if !served {
                pauses.set(&running.place.reason(), false);
            }
            served
        });
        for key in keys {
            places.entry(key).or_insert_with_key(|(resource, namespace)| {
                let place =
                    Arc::new(Place::new(Arc::clone(&self.inner.parts), Arc::clone(resource), namespace.clone()));
                // Before its task runs, and before the reason of all places is withdrawn below: nothing may start
                // in between, since the peers of this place are not known yet.
                pauses.set(&place.reason(), true);
                let mut task = JoinSet::new();
                // Without its task, the others would take us for dead and work beside us, or we would pause for ever.
                let title = format!("The peering by {}", place.reason());
                task.spawn(self.inner.parts.crashes.clone().guard(title, Arc::clone(&place).run()));
                Running { place, _task: task }
            });
        }
        // Each place has its own reason now, until it knows its peers.
        pauses.set(UNKNOWN, false);
    }

    /// Tells the others that we are gone. Whatever fails, they will find it out by themselves.
    pub async fn leave(&self) {
        let running: Vec<Running> = self.places().drain().map(|(_, running)| running).collect();
        let places: Vec<Arc<Place>> = running.iter().map(|running| Arc::clone(&running.place)).collect();
        // So that nothing is told after the farewell.
        for mut running in running {
            running._task.shutdown().await;
        }
        let Parts { clock, log, .. } = &*self.inner.parts;
        let leaving = join_all(places.iter().map(|place| place.tell(Some(0))));
        match clock.timeout(LEAVING_PATIENCE, leaving).await {
            Ok(answers) => {
                for error in answers.into_iter().filter_map(Result::err) {
                    log.warn(TARGET, format!("Couldn't remove self from the peering. Ignoring: {error}"));
                }
            }
            Err(_) => log.warn(TARGET, "Couldn't remove self from the peering in time. Ignoring.".to_owned()),
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<PlaceKey, Running>> {
        self.inner.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out a command on all peering objects: for `kopf freeze` and `kopf resume`.
pub(crate) async fn command(
    peering: &Peering,
    mut insights: watch::Receiver<Arc<Insight>>,
    command: PeeringCommand,
) -> Result<(), String> {
    let insight = match insights.wait_for(|insight| insight.ready).await {
        Ok(insight) => Arc::clone(&insight),
        Err(_) => return Err("the cluster could not be looked at".to_owned()),
    };
    let parts = &peering.inner.parts;
    let keys = place_keys(&insight, &parts.settings);
    if keys.is_empty() {
        return Err(format!("cannot find the peering resource {}", plural(&parts.settings)));
    }
    let place = |(resource, namespace): PlaceKey| Place::new(Arc::clone(parts), resource, namespace);
    let places: Vec<Place> = keys.into_iter().map(place).collect();
    let told = join_all(places.iter().map(|place| place.tell(Some(command.lifetime)))).await;
    let results = told.into_iter().collect::<Result<Vec<bool>, _>>().map_err(|error| error.to_string())?;
    match results.iter().any(|found| *found) {
        true => Ok(()),
        false => Err(format!("there is no peering object named {:?}", parts.settings.peering.name)),
    }
}

/// Where the peering objects are, by the mode of the operator.
fn place_keys(insight: &Insight, settings: &Settings) -> Vec<PlaceKey> {
    let is_peering = |resource: &&Arc<Resource>| {
        GROUPS.contains(&resource.group.as_str()) && resource.version == "v1" && resource.plural == plural(settings)
    };
    let resources: Vec<&Arc<Resource>> = insight.known.iter().filter(is_peering).collect();
    let mut keys = Vec::new();
    for resource in resources {
        if resource.namespaced {
            keys.extend(insight.namespaces.iter().map(|namespace| (Arc::clone(resource), namespace.clone())));
        } else {
            keys.push((Arc::clone(resource), None));
        }
    }
    keys
}

fn plural(settings: &Settings) -> &'static str {
    if settings.peering.clusterwide { "clusterkopfpeerings" } else { "kopfpeerings" }
}
