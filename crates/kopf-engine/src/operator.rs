//! The running operator: starts everything, keeps it going, stops everything in bounded time.
//!
//! Called by the fronts. In order: the startup handlers, the login, the discovery; then the streams and
//! their queue, until a stop is requested; then all of it backwards, and the cleanup handlers.

mod serve;
mod plan;
mod streams;
mod activities;
mod selectors;

use std::sync::Arc;

use kopf_reaction::{Activity, Handler};
use tokio::task::JoinSet;

use self::activities::Activities;
use self::serve::serve;
use crate::calls::{ActivityError, Caller};
use crate::front::{Front, FrontFailure};
use crate::metrics::Metrics;
use crate::peering::PeeringCommand;
use crate::probes::{Endpoint, EndpointError, Health, OperatorPhase, Probes};
use crate::support::crashes::Crashes;
use crate::support::{Clock, Env, Log, Pacing, Pauses, Sink, Stop};

const TARGET: &str = "kopf.engine.operator";

/// What is known before the startup.
#[derive(Clone, Default)]
pub struct OperatorOptions {
    /// The handlers of startup, cleanup and login.
    pub activities: Vec<Arc<Handler>>,
    /// Globs of namespaces to be served.
    pub namespaces: Vec<String>,
    /// Regular expressions of namespaces to be served, each for the whole name.
    pub namespace_expressions: Vec<String>,
    /// All namespaces, by one stream per kind.
    pub clusterwide: bool,
    /// Where to serve the health, such as `http://0.0.0.0:8080/healthz`.
    pub liveness: Option<String>,
    /// How this operator is called among its peers; a new name in every run by default.
    pub identity: Option<String>,
    /// Only do this to the peering, and end.
    pub command: Option<PeeringCommand>,
    /// Instead of a login.
    pub client: Option<kube::Client>,
    /// Of the runtime that the operator runs on, if that has one.
    pub pacing: Pacing,
}

/// Why an operator could not go on.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("the startup has failed: {0}")]
    Startup(ActivityError),
    #[error("the cleanup has failed: {0}")]
    Cleanup(ActivityError),
    #[error("the configuration cannot be used: {0}")]
    Configuration(String),
    #[error("the command has failed: {0}")]
    Command(String),
    #[error("{0}")]
    Login(#[from] crate::LoginError),
    /// A bug of ours has ended something that the operator cannot do without.
    #[error("{0}")]
    Crashed(String),
}

impl From<FrontFailure> for OperatorError {
    fn from(failure: FrontFailure) -> Self {
        Self::Configuration(failure.message)
    }
}

/// Runs an operator until somebody stops it, or it cannot go on.
pub async fn run(front: Arc<dyn Front>, options: OperatorOptions, stop: Stop) -> Result<(), OperatorError> {
    run_by(Clock::system(), front, options, stop).await
}

/// As [`run`], by another clock than that of the machine: for tests and simulations.
pub async fn run_by(
    clock: Clock,
    front: Arc<dyn Front>,
    options: OperatorOptions,
    stop: Stop,
) -> Result<(), OperatorError> {
    let _connected = Connected { front: Arc::clone(&front) };
    let log = Log::new(Arc::clone(&front) as Arc<dyn Sink>);
    let env = Env { crashes: Crashes::new(log.clone()), clock, log };
    let (health, pauses) = (Arc::new(Health::default()), Pauses::default());
    let handlers = options.activities.clone();
    let caller = Caller::new(front, env.clock.clone(), env.log.clone(), Metrics::default(), &handlers);
    let caller = Arc::new(caller);
    let mut probing = JoinSet::new();
    if let Some(url) = &options.liveness {
        let refused = |error: EndpointError| OperatorError::Configuration(error.to_string());
        let endpoint = Endpoint::parse(url).map_err(refused)?;
        let probes = Probes::new(Arc::clone(&caller), handlers.clone(), Arc::clone(&health), pauses.clone());
        probes.start(&endpoint, &env.crashes, &mut probing).await.map_err(refused)?;
    }
    let activities = Arc::new(Activities::new(Arc::clone(&caller), handlers));
    let operator = Operator { env, caller, activities, health, pauses };

    let started = tokio::select! {
        biased;
        _ = stop.requested() => None,
        started = operator.activities.run(Activity::Startup) => Some(started),
    };
    match started {
        Some(started) => started.map_err(OperatorError::Startup)?,
        // The cleanup handlers rely on a complete startup.
        None => return Ok(()),
    };
    let served = serve(&operator, &options, &stop).await;
    operator.health.enter(OperatorPhase::Stopping);
    let cleaned = operator.activities.run(Activity::Cleanup).await;
    served.and(cleaned.map(drop).map_err(OperatorError::Cleanup))
}

/// What an operator has from its start to its end.
struct Operator {
    env: Env,
    /// For the activities and the probes. The handlers of objects have another one, with their limits.
    caller: Arc<Caller>,
    activities: Arc<Activities>,
    health: Arc<Health>,
    pauses: Pauses,
}

/// Notifies the front of the end of the operator, even if the operator is dropped instead of stopped.
struct Connected {
    front: Arc<dyn Front>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.front.disconnected();
    }
}
