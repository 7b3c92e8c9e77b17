//! Other operators of the same cluster: we tell them that we are alive, and pause while a more important one is.
//!
//! The operator runs one [`Peering`]. It has one object per peering object: one in each served namespace, or one for the
//! whole cluster; and twice that where both API groups are there. Who pauses is decided in `kopf-reaction`.

mod peering_object;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kopf_reaction::{OwnPeer, Resource, ResourceId};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::front::SelectorCallbacks;
use crate::support::Env;
use crate::{Api, Insight, Pauses, Settings};
use peering_object::PeeringObject;

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
    shared: Arc<Shared>,
    objects: Mutex<HashMap<PeeringObjectKey, RunningObject>>,
}

/// The resource and the namespace.
type PeeringObjectKey = (ResourceId, Option<Arc<str>>);

/// A object and its task; dropped, it ends.
struct RunningObject {
    object: Arc<PeeringObject>,
    _task: JoinSet<()>,
}

/// What a peering works with; all peering objects share it.
pub(crate) struct PeeringDeps {
    pub env: Env,
    pub api: Api,
    pub settings: Arc<Settings>,
    pub identity: String,
    pub pauses: Pauses,
    pub selector_callbacks: Arc<dyn SelectorCallbacks>,
}

/// What all peering objects share.
struct Shared {
    deps: PeeringDeps,
    own_peer: OwnPeer,
}

impl Peering {
    pub(crate) fn new(deps: PeeringDeps) -> Self {
        let PeeringDeps { settings, pauses, .. } = &deps;
        let own_peer = OwnPeer {
            identity: deps.identity.clone(),
            priority: settings.peering.priority,
            sharded: !settings.watching.shard_selectors.is_empty(),
        };
        pauses.set(UNKNOWN, !settings.peering.standalone);
        let shared = Arc::new(Shared { deps, own_peer });
        Self { inner: Arc::new(Inner { shared, objects: Mutex::default() }) }
    }

    /// The groups that discovery has to look into, besides those of the handlers.
    pub(crate) fn groups(settings: &Settings) -> Vec<String> {
        if settings.peering.standalone { Vec::new() } else { GROUPS.map(str::to_owned).to_vec() }
    }

    /// Takes part for ever, as the peering objects come and go.
    pub(crate) async fn follow(self, mut insights: watch::Receiver<Arc<Insight>>) {
        if self.inner.shared.deps.settings.peering.standalone {
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
        let PeeringDeps { env, api, settings, pauses, .. } = &self.inner.shared.deps;
        let locations = locations(insight, settings);
        let missing = settings.peering.mandatory && locations.is_empty();
        if missing && !pauses.is_blocked_by(MISSING) {
            api.forget_pages();
            env.log.warn(
                TARGET,
                "Pausing operations: the peering is mandatory, but there is no resource for it.".to_owned(),
            );
        }
        pauses.set(MISSING, missing);
        let mut objects = self.objects();
        objects.retain(|key, running| {
            let served = locations.iter().any(|location| location.key() == *key);
            if !served {
                pauses.set(&running.object.reason(), false);
            }
            served
        });
        for location in locations {
            objects.entry(location.key()).or_insert_with(|| {
                let Location { resource, namespace } = location;
                let object = Arc::new(PeeringObject::new(Arc::clone(&self.inner.shared), resource, namespace));
                // Before its task runs, and before the reason of all objects is withdrawn below: nothing may start
                // in between, since the peers of this object are not known yet.
                pauses.set(&object.reason(), true);
                let mut task = JoinSet::new();
                // Without its task, the others would take us for dead and work beside us, or we would pause for ever.
                let title = format!("The peering by {}", object.reason());
                task.spawn(self.inner.shared.deps.env.crashes.clone().guard(title, Arc::clone(&object).run()));
                RunningObject { object, _task: task }
            });
        }
        // Each object has its own reason now, until it knows its peers.
        pauses.set(UNKNOWN, false);
    }

    /// Announces that we are gone. If that fails, the others find it out when our lifetime is over.
    pub(crate) async fn leave(&self) {
        let running: Vec<RunningObject> = self.objects().drain().map(|(_, running)| running).collect();
        let objects: Vec<Arc<PeeringObject>> = running.iter().map(|running| Arc::clone(&running.object)).collect();
        // So that nothing is announced after the farewell.
        for mut running in running {
            running._task.shutdown().await;
        }
        let Env { clock, log, .. } = &self.inner.shared.deps.env;
        let leaving = join_all(objects.iter().map(|object| object.announce(Some(0))));
        match clock.timeout(LEAVING_PATIENCE, leaving).await {
            Ok(answers) => {
                for error in answers.into_iter().filter_map(Result::err) {
                    log.warn(TARGET, format!("Couldn't remove self from the peering. Ignoring: {error}"));
                }
            }
            Err(_) => log.warn(TARGET, "Couldn't remove self from the peering in time. Ignoring.".to_owned()),
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<PeeringObjectKey, RunningObject>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
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
    let shared = &peering.inner.shared;
    let locations = locations(&insight, &shared.deps.settings);
    if locations.is_empty() {
        return Err(format!("cannot find the peering resource {}", plural(&shared.deps.settings)));
    }
    let object = |location: Location| PeeringObject::new(Arc::clone(shared), location.resource, location.namespace);
    let objects: Vec<PeeringObject> = locations.into_iter().map(object).collect();
    let announced = join_all(objects.iter().map(|object| object.announce(Some(command.lifetime)))).await;
    let results = announced.into_iter().collect::<Result<Vec<bool>, _>>().map_err(|error| error.to_string())?;
    match results.iter().any(|found| *found) {
        true => Ok(()),
        false => Err(format!("there is no peering object named {:?}", shared.deps.settings.peering.name)),
    }
}

/// Where one peering object is.
struct Location {
    resource: Arc<Resource>,
    namespace: Option<Arc<str>>,
}

impl Location {
    fn key(&self) -> PeeringObjectKey {
        (self.resource.id(), self.namespace.clone())
    }
}

/// Where the peering objects are, by the mode of the operator.
fn locations(insight: &Insight, settings: &Settings) -> Vec<Location> {
    let is_peering = |resource: &&Arc<Resource>| {
        GROUPS.contains(&resource.group.as_str()) && resource.version == "v1" && resource.plural == plural(settings)
    };
    let cluster = [None];
    let mut locations = Vec::new();
    for resource in insight.known.iter().filter(is_peering) {
        let namespaces = if resource.namespaced { insight.namespaces.as_slice() } else { &cluster };
        let location =
            |namespace: &Option<Arc<str>>| Location { resource: Arc::clone(resource), namespace: namespace.clone() };
        locations.extend(namespaces.iter().map(location));
    }
    locations
}

fn plural(settings: &Settings) -> &'static str {
    if settings.peering.clusterwide { "clusterkopfpeerings" } else { "kopfpeerings" }
}
