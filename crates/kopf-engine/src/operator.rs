//! The running operator: starts everything, keeps it going, stops everything in bounded time.
//!
//! Called by the fronts. In order: the startup handlers, the login, the discovery; then the streams and
//! their queue, until a stop is requested; then all of it backwards, and the cleanup handlers.

mod streams;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_reaction::{
    Activity, Handler, HandlerType, ReactionSettings, Resource, ServedSelector, find_duplicate_conversion,
};
use regex_lite::Regex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admission::Reviews;
use crate::admission::managed::{Managed, Managing};
use crate::background::Background;
use crate::calls::Gates;
use crate::calls::{ActivityError, run_activity, target_of};
use crate::front::{Configuration, Front, FrontFailure, Services};
use crate::metrics::Metrics;
use crate::peering::{self, Peering, PeeringCommand};
use crate::probes::{Endpoint, EndpointError, Health, Phase, Probes};
use crate::queue::Queue;
use crate::stream::first_page;
use crate::support::crashes::Crashes;
use crate::support::idle::Rest;
use crate::support::pacing::Pacing;
use crate::support::pauses::Pauses;
use crate::worker::Reactor;
use crate::{
    Api, Clock, ConnectionInfo, Discovery, Insight, Judge, Log, Login, NamespacePattern, Poster, Settings, Sink, Stop,
    Vault, Wanted,
};
use streams::Serving;

const TARGET: &str = "kopf.engine.operator";

/// How long events may be posted after everything else has stopped.
const POSTING_PATIENCE: Duration = Duration::from_secs(2);

/// How long the emptying of the managed configurations may take.
const CLEANING_PATIENCE: Duration = Duration::from_secs(10);

/// The delay after errors in activities that come before the settings are known.
const ACTIVITY_BACKOFF_SECONDS: f64 = 60.0;

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
    /// Where to tell about the health, such as `http://0.0.0.0:8080/healthz`.
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

/// Runs an operator until it is asked to stop, or cannot go on.
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
    let handlers = options.activities.clone();
    let (metrics, health, pauses) = (Metrics::default(), Arc::new(Health::default()), Pauses::default());
    let (crashes, mut probing) = (Crashes::new(log.clone()), JoinSet::new());
    if let Some(url) = &options.liveness {
        let refused = |error: EndpointError| OperatorError::Configuration(error.to_string());
        let endpoint = Endpoint::parse(url).map_err(refused)?;
        let probes = Probes::new(
            Arc::clone(&front),
            clock.clone(),
            log.clone(),
            handlers.clone(),
            Arc::clone(&health),
            metrics.clone(),
            pauses.clone(),
        );
        probes.start(&endpoint, &crashes, &mut probing).await.map_err(refused)?;
    }
    let logins = AtomicU64::new(0);
    let activities = Arc::new(Activities { front, clock, log, handlers, metrics, health, pauses, crashes, logins });

    let started = tokio::select! {
        biased;
        _ = stop.requested() => None,
        started = activities.run(Activity::Startup) => Some(started),
    };
    match started {
        Some(started) => started.map_err(OperatorError::Startup)?,
        // What was not started in full cannot be cleaned up by those who rely on that.
        None => return Ok(()),
    };
    let served = serve(&activities, &options, &stop).await;
    activities.health.enter(Phase::Stopping);
    let cleaned = activities.run(Activity::Cleanup).await;
    served.and(cleaned.map(drop).map_err(OperatorError::Cleanup))
}

/// Tells the front of the end of the operator, also if the operator is dropped instead of being asked to stop.
struct Connected {
    front: Arc<dyn Front>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.front.disconnected();
    }
}

/// From the end of the startup to the request to stop.
async fn serve(activities: &Arc<Activities>, options: &OperatorOptions, stop: &Stop) -> Result<(), OperatorError> {
    let Activities { front, clock, log, metrics, health, pauses, crashes, .. } = activities.as_ref();
    let configuration = front.configure().await?;
    let settings = &configuration.settings;
    let mut tasks = JoinSet::new();

    let vault = match &options.client {
        Some(client) => Vault::with_client(client.clone(), clock.clone(), log.clone()),
        None => {
            let connect_timeout = settings.networking.connect_timeout.map(crate::seconds);
            let vault = Vault::new(clock.clone(), log.clone(), connect_timeout);
            tokio::select! {
                biased;
                _ = stop.requested() => return Ok(()),
                logged_in = vault.login(activities.as_ref()) => logged_in?,
            }
            let (serving, login) = (vault.clone(), Arc::clone(activities));
            let logging_in = async move { serving.serve(login.as_ref()).await };
            tasks.spawn(crashes.clone().guard("The login".to_owned(), logging_in));
            vault
        }
    };
    let api =
        Api::new(vault.clone(), &settings.networking, clock.clone(), log.clone()).paced_by(options.pacing.clone());
    metrics.connect(api.clone());
    health.connect(api.clone());
    let (poster, posting) =
        Poster::start(api.clone(), &settings.posting, settings.posting.source.clone(), clock.clone(), log.clone());
    front.connected(Services { poster, vault });

    let handlers: Arc<[Arc<Handler>]> = served_handlers(&configuration).into();
    let webhooks = webhook_handlers(&configuration);
    if let Some((one, other)) = find_duplicate_conversion(&webhooks) {
        let options = one.webhook.clone();
        let (from, to) = options.map(|options| (options.from, options.to)).unwrap_or_default();
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let text = format!("{} and {} are for the same conversion, from {from} to {to}", one.title(), other.title());
        return Err(OperatorError::Configuration(text));
    }
    let expressions = options.namespace_expressions.iter().map(|expression| whole_name(expression));
    let expressions = expressions.collect::<Result<Vec<Regex>, _>>()?;
    let globs = options.namespaces.iter().cloned().map(NamespacePattern::Globs);
    let wanted = Wanted {
        selectors: handlers.iter().map(|handler| served_selector(handler)).collect(),
        passive: webhooks.iter().map(|handler| handler.selector.clone().unwrap_or_default()).collect(),
        namespaces: expressions.iter().map(|_| NamespacePattern::Callback).chain(globs).collect(),
        groups: Peering::groups(settings),
        clusterwide: options.clusterwide,
    };
    for path in wanted.foreseeable_paths() {
        if let Some(page) = first_page(&path, &settings.watching) {
            api.foresee_page(page);
        }
    }
    let judge: Arc<dyn Judge> = Arc::new(FrontJudge {
        front: Arc::clone(front),
        handlers: handlers.iter().chain(&webhooks).cloned().collect(),
        expressions,
        log: log.clone(),
    });
    let (discovery, insights) =
        Discovery::new(api.clone(), settings, clock.clone(), log.clone(), wanted, Arc::clone(&judge));
    let schemas = discovery.schemas();
    tasks.spawn(crashes.clone().guard("The discovery".to_owned(), discovery.run()));

    let settings = Arc::new(settings.clone());
    let identity = options.identity.clone().unwrap_or_else(|| own_identity(clock));
    let peering = Peering::new(
        api.clone(),
        Arc::clone(&settings),
        clock.clone(),
        crashes.clone(),
        identity,
        pauses.clone(),
        Arc::clone(&judge),
    );
    if let Some(command) = options.command {
        return tokio::select! {
            biased;
            _ = stop.requested() => Ok(()),
            done = peering::command(&peering, insights, command) => done.map_err(OperatorError::Command),
        };
    }
    tasks.spawn(crashes.clone().guard("The peering".to_owned(), peering.clone().follow(insights.clone())));
    let reaction = ReactionSettings {
        finalizer: settings.persistence.finalizer.clone(),
        progress: settings.persistence.progress_storage.clone(),
        diffbase: settings.persistence.diffbase_storage.clone(),
        lifecycle: settings.lifecycle,
        default_backoff: settings.execution.default_backoff,
    };
    let background = Background::new(&settings, clock.clone(), log.clone());
    let reactor = Arc::new(Reactor {
        api: api.clone(),
        front: Arc::clone(front),
        clock: clock.clone(),
        log: log.clone(),
        reaction: Arc::new(reaction.expanded()),
        compact_reaction: settings.persistence.compact.then(|| Arc::new(reaction.compacted())),
        finalizer: settings.persistence.finalizer.as_str().into(),
        gates: Gates::new(&handlers),
        metrics: metrics.clone(),
        schemas,
        warned: Mutex::new(BTreeSet::new()),
        background: background.clone(),
        settings: Arc::clone(&settings),
        rest: Rest::default(),
    });
    let queue = Queue::new(Arc::clone(&reactor), settings.queueing.worker_limit, clock.clone(), log.clone());
    let _guard = KilledOnDrop(queue.clone(), background.clone());
    background.attach(&reactor, &queue);
    let mut ticking = JoinSet::new();
    ticking.spawn(crashes.clone().guard("The schedule of timers".to_owned(), background.clone().run()));
    let pausing = background.clone().follow(pauses.subscribe());
    ticking.spawn(crashes.clone().guard("The pausing of daemons".to_owned(), pausing));
    let resting = Arc::clone(front);
    let resting = reactor.rest.clone().follow(clock.clone(), move || resting.at_rest());
    ticking.spawn(crashes.clone().guard("The look-out for rests".to_owned(), resting));
    let observed = queue.downgrade();
    metrics.watch_queue(move || observed.upgrade().map(|queue| queue.figures()).unwrap_or_default());
    let managing = start_admission(activities, webhooks, &settings, &api, insights.clone(), queue.clone(), &mut tasks);
    let serving =
        Serving::new(api, Arc::clone(&settings), clock.clone(), log.clone(), queue.clone(), handlers, pauses.clone());
    let mut serving = serving.report_to(crashes.clone()).judged_by(judge);
    let mut ending = Ok(());
    tokio::select! {
        biased;
        _ = stop.requested() => {}
        crash = crashes.reported() => ending = Err(OperatorError::Crashed(crash)),
        () = serving.follow(insights, || {
            health.enter(Phase::Working);
            front.ready();
        }) => {}
    }
    if let Some(managing) = managing {
        managing.finish(clock, CLEANING_PATIENCE).await;
    }
    drop(serving);
    let closing = queue.close(crate::seconds(settings.queueing.exit_timeout));
    // After a crash, there may be nobody to tell when the daemons have ended: they are dropped.
    let exiting = async {
        if ending.is_ok() {
            background.exit().await
        }
    };
    tokio::join!(exiting, closing);
    queue.kill();
    tasks.abort_all();
    // Not before the last handler is done: until then, the others have to wait.
    peering.leave().await;
    posting.finish(POSTING_PATIENCE).await;
    ending
}

/// A name for an operator that was given none: the machine's, and when it was started.
fn own_identity(clock: &Clock) -> String {
    if let Ok(pod) = std::env::var("POD_ID") {
        return pod;
    }
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "operator".to_owned());
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.unwrap_or_else(|_| "localhost".to_owned());
    let (started, number) = (clock.now().strftime("%Y%m%d%H%M%S"), clock.jitter(46656.0) as u32);
    format!("{user}@{}/{started}/{number:05}", host.trim())
}

/// Ends the workers also if the operator is dropped instead of being asked to stop.
struct KilledOnDrop(Queue, Background);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill();
        self.1.kill();
    }
}

/// The handlers of objects that this engine serves.
fn served_handlers(configuration: &Configuration) -> Vec<Arc<Handler>> {
    let served = |handler: &&Arc<Handler>| {
        matches!(
            handler.handler_type,
            HandlerType::Event | HandlerType::Change | HandlerType::Index | HandlerType::Daemon | HandlerType::Timer
        )
    };
    configuration.handlers.iter().filter(served).cloned().collect()
}

/// The handlers of webhooks.
fn webhook_handlers(configuration: &Configuration) -> Vec<Arc<Handler>> {
    let handlers = configuration.handlers.iter().filter(|handler| handler.handler_type == HandlerType::Webhook);
    handlers.filter(|handler| handler.webhook.is_some()).cloned().collect()
}

/// Lets the front receive requests of the cluster as soon as the resources are known; keeps the configurations.
fn start_admission(
    activities: &Activities,
    handlers: Vec<Arc<Handler>>,
    settings: &Settings,
    api: &Api,
    insights: watch::Receiver<Arc<Insight>>,
    queue: Queue,
    tasks: &mut JoinSet<()>,
) -> Option<Managing> {
    let Activities { front, clock, log, metrics, crashes, .. } = activities;
    let memos = Box::new(move |uid: &str| queue.memo_of(uid));
    let (front, clock, log) = (Arc::clone(front), clock.clone(), log.clone());
    let reviews = Arc::new(Reviews::new(
        Arc::clone(&front),
        clock.clone(),
        log.clone(),
        metrics.clone(),
        handlers.clone(),
        insights.clone(),
        memos,
    ));
    let managing = settings.admission.managed.clone().map(|name| {
        let (client_configs, insights) = (reviews.client_configs(), insights.clone());
        let state = Default::default();
        let (api, handlers) = (api.clone(), handlers.clone());
        let managed = Managed { api, clock, log, name, handlers, insights, client_configs, state };
        Managing::start(managed, crashes.clone())
    });
    if !handlers.is_empty() {
        let mut insights = insights;
        let starting = async move {
            if insights.wait_for(|insight| insight.ready).await.is_ok() {
                front.admission(reviews.admission());
            }
        };
        tasks.spawn(crashes.clone().guard("The start of the webhooks".to_owned(), starting));
    }
    managing
}

fn served_selector(handler: &Handler) -> ServedSelector {
    ServedSelector {
        selector: handler.selector.clone().unwrap_or_default(),
        patching: matches!(handler.handler_type, HandlerType::Change | HandlerType::Daemon | HandlerType::Timer),
    }
}

fn whole_name(expression: &str) -> Result<Regex, OperatorError> {
    let invalid = |error| OperatorError::Configuration(format!("the namespace pattern {expression}: {error}"));
    Regex::new(&format!("^(?:{expression})$")).map_err(invalid)
}

/// The activities of one operator; the login is one of them.
struct Activities {
    front: Arc<dyn Front>,
    clock: Clock,
    log: Log,
    handlers: Vec<Arc<Handler>>,
    metrics: Metrics,
    health: Arc<Health>,
    pauses: Pauses,
    crashes: Crashes,
    /// How often it was logged in.
    logins: AtomicU64,
}

type Results = Vec<(Arc<str>, serde_json::Value)>;

impl Activities {
    async fn run(&self, activity: Activity) -> Result<Results, ActivityError> {
        let Self { front, clock, log, metrics, handlers, .. } = self;
        let handlers = match activity {
            // They may be declared by then as resources are taken up which are to be cleaned up.
            Activity::Cleanup => &front.activities().await.unwrap_or_else(|| handlers.clone()),
            Activity::Startup | Activity::Authentication | Activity::Probe => handlers,
        };
        run_activity(front, clock, log, metrics, activity, handlers, ACTIVITY_BACKOFF_SECONDS).await
    }
}

impl Login for Activities {
    fn login(&self) -> BoxFuture<'_, Result<Vec<ConnectionInfo>, String>> {
        Box::pin(async move {
            let target = target_of(Activity::Authentication);
            let first = self.logins.fetch_add(1, Ordering::Relaxed) == 0;
            let title = if first { "Initial authentication" } else { "Re-authentication" };
            self.log.info(target, format!("{title} has been initiated."));
            let results = self.run(Activity::Authentication).await.map_err(|error| error.to_string())?;
            if results.is_empty() {
                let reason = "no credentials were retrieved from the login handlers";
                self.log.warn(target, format!("{title} has failed: {reason}."));
            } else {
                self.log.info(target, format!("{title} has finished."));
            }
            let mut infos = Vec::with_capacity(results.len());
            for (id, result) in results {
                match serde_json::from_value::<ConnectionInfo>(result) {
                    Ok(info) => infos.push(info),
                    // The text of the error could show a part of a secret: only the handler is named.
                    Err(_) => {
                        let text = format!("The credentials of the login handler {id} cannot be understood.");
                        self.log.error(target, text);
                    }
                }
            }
            Ok(infos)
        })
    }
}

/// Callbacks on resources and patterns of namespaces, as the discovery asks for them.
struct FrontJudge {
    front: Arc<dyn Front>,
    handlers: Arc<[Arc<Handler>]>,
    /// They come first among the patterns.
    expressions: Vec<Regex>,
    log: Log,
}

impl Judge for FrontJudge {
    fn resource(&self, selector: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(handler) = self.handlers.get(selector) else { return false };
            let answer = self.front.select(handler.index, resource).await;
            answer.unwrap_or_else(|failure| {
                let text = format!("The selector of {} has failed: {}", handler.title(), failure.message);
                self.log.error(TARGET, text);
                false
            })
        })
    }

    fn setting(&self, index: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.front.select(index, resource).await.unwrap_or_else(|failure| {
                self.log.error(TARGET, format!("A selector in the settings has failed: {}", failure.message));
                false
            })
        })
    }

    fn namespace(&self, pattern: usize, name: String) -> BoxFuture<'_, bool> {
        let matching = self.expressions.get(pattern).is_some_and(|expression| expression.is_match(&name));
        Box::pin(async move { matching })
    }
}
