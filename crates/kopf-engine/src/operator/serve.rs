//! From the end of the startup to the request to stop, in three parts: assemble, run, shut down.

use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::Handler;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::plan::Plan;
use super::streams::{StreamDeps, Streams};
use super::{Operator, OperatorError, OperatorOptions};
use crate::admission::Reviews;
use crate::admission::managed::{Managed, Managing};
use crate::background::{Background, BackgroundDeps};
use crate::calls::Caller;
use crate::discovery::schema::SchemaBook;
use crate::front::{SelectorCallbacks, Services};
use crate::patching::{PatchDeps, Patcher};
use crate::peering::{self, Peering, PeeringDeps};
use crate::probes::OperatorPhase;
use crate::queue::{Queue, WeakQueue};
use crate::stream::first_page;
use crate::support::idle::IdleDetector;
use crate::support::{Clock, Env, Stop};
use crate::worker::{Reactor, ReactorDeps};
use crate::{Api, Discovery, Insight, Poster, PosterWorkers, Settings, Vault};

/// How long events may be posted after everything else has stopped.
const POSTING_PATIENCE: Duration = Duration::from_secs(2);

/// How long the emptying of the managed configurations may take.
const CLEANING_PATIENCE: Duration = Duration::from_secs(10);

/// Serves the cluster until a stop is requested, or a task that the operator needs crashes.
pub(super) async fn serve(operator: &Operator, options: &OperatorOptions, stop: &Stop) -> Result<(), OperatorError> {
    let configuration = operator.caller.front.configure().await?;
    let settings = Arc::new(configuration.settings.clone());
    let mut tasks = JoinSet::new();
    let Some(connected) = connect(operator, options, &settings, stop, &mut tasks).await? else { return Ok(()) };
    let plan = Plan::new(operator, options, &configuration)?;
    let observed = observe(operator, &connected.api, &settings, plan, &mut tasks);

    let peering = Peering::new(PeeringDeps {
        env: operator.env.clone(),
        api: connected.api.clone(),
        settings: Arc::clone(&settings),
        identity: options.identity.clone().unwrap_or_else(|| own_identity(&operator.env.clock)),
        pauses: operator.pauses.clone(),
        selector_callbacks: Arc::clone(&observed.selector_callbacks),
    });
    if let Some(command) = options.command {
        return tokio::select! {
            biased;
            _ = stop.requested() => Ok(()),
            done = peering::command(&peering, observed.insights, command) => done.map_err(OperatorError::Command),
        };
    }
    let assembled = assemble(operator, connected, settings, observed, peering, tasks);
    run_until_stopped(operator, assembled, stop).await
}

/// The way to the API.
struct Connected {
    api: Api,
    posting: PosterWorkers,
}

/// Logs in; None if the operator is stopped meanwhile.
async fn connect(
    operator: &Operator,
    options: &OperatorOptions,
    settings: &Settings,
    stop: &Stop,
    tasks: &mut JoinSet<()>,
) -> Result<Option<Connected>, OperatorError> {
    let Env { clock, log, crashes } = &operator.env;
    let vault = match &options.client {
        Some(client) => Vault::with_client(client.clone(), clock.clone(), log.clone()),
        None => {
            let connect_timeout = settings.networking.connect_timeout.map(crate::seconds);
            let vault = Vault::new(clock.clone(), log.clone(), connect_timeout);
            tokio::select! {
                biased;
                _ = stop.requested() => return Ok(None),
                logged_in = vault.login(operator.activities.as_ref()) => logged_in?,
            }
            let (serving, login) = (vault.clone(), Arc::clone(&operator.activities));
            let logging_in = async move { serving.serve(login.as_ref()).await };
            tasks.spawn(crashes.clone().guard("The login".to_owned(), logging_in));
            vault
        }
    };
    let api =
        Api::new(vault.clone(), &settings.networking, clock.clone(), log.clone()).paced_by(options.pacing.clone());
    operator.caller.metrics.connect(api.clone());
    operator.health.connect(api.clone());
    let source = settings.posting.source.clone();
    let (poster, posting) = Poster::start(api.clone(), &settings.posting, source, clock.clone(), log.clone());
    operator.caller.front.connected(Services { poster, vault });
    Ok(Some(Connected { api, posting }))
}

/// The plan, and what discovery finds for it.
struct Observed {
    handlers: Arc<[Arc<Handler>]>,
    webhooks: Vec<Arc<Handler>>,
    selector_callbacks: Arc<dyn SelectorCallbacks>,
    insights: watch::Receiver<Arc<Insight>>,
    schemas: SchemaBook,
}

/// Starts the discovery, and prefetches what will be listed.
fn observe(operator: &Operator, api: &Api, settings: &Settings, plan: Plan, tasks: &mut JoinSet<()>) -> Observed {
    let Plan { handlers, webhooks, wanted, selector_callbacks } = plan;
    for path in wanted.prefetchable_paths() {
        if let Some(page) = first_page(&path, &settings.watching) {
            api.prefetch_page(page);
        }
    }
    let Env { clock, log, crashes } = &operator.env;
    let callbacks = Arc::clone(&selector_callbacks);
    let (discovery, insights) = Discovery::new(api.clone(), settings, clock.clone(), log.clone(), wanted, callbacks);
    let schemas = discovery.schemas();
    tasks.spawn(crashes.clone().guard("The discovery".to_owned(), discovery.run()));
    Observed { handlers, webhooks, selector_callbacks, insights, schemas }
}

/// Everything that runs until the operator stops.
struct Assembled {
    settings: Arc<Settings>,
    queue: Queue,
    background: Background,
    streams: Streams,
    insights: watch::Receiver<Arc<Insight>>,
    managing: Option<Managing>,
    peering: Peering,
    posting: PosterWorkers,
    /// The login, the discovery, the peering.
    tasks: JoinSet<()>,
    /// The schedule of timers and the like: they stop last.
    _ticking: JoinSet<()>,
    _killed_on_drop: KilledOnDrop,
}

/// Puts the parts together, and starts all of them but the streams.
fn assemble(
    operator: &Operator,
    connected: Connected,
    settings: Arc<Settings>,
    observed: Observed,
    peering: Peering,
    mut tasks: JoinSet<()>,
) -> Assembled {
    let Operator { env, caller, pauses, .. } = operator;
    let Connected { api, posting } = connected;
    let Observed { handlers, webhooks, selector_callbacks, insights, schemas } = observed;
    let following = peering.clone().follow(insights.clone());
    tasks.spawn(env.crashes.clone().guard("The peering".to_owned(), following));

    let queue = start_queue(operator, &api, &settings, &handlers, schemas);
    let background = queue.reactor().background.clone();
    let killed_on_drop = KilledOnDrop(queue.clone(), background.clone());
    let mut ticking = JoinSet::new();
    ticking.spawn(env.crashes.clone().guard("The schedule of timers".to_owned(), background.clone().run()));
    let pausing = background.clone().follow(pauses.subscribe());
    ticking.spawn(env.crashes.clone().guard("The pausing of daemons".to_owned(), pausing));
    let front = Arc::clone(&caller.front);
    let detecting = queue.reactor().idle.clone().follow(env.clock.clone(), move || front.on_idle());
    ticking.spawn(env.crashes.clone().guard("The detection of idle times".to_owned(), detecting));
    let counted = queue.downgrade();
    caller.metrics.watch_queue(move || counted.upgrade().map(|queue| queue.figures()).unwrap_or_default());

    let reviews = start_reviews(operator, webhooks.clone(), insights.clone(), &queue, &mut tasks);
    let managing = settings.admission.managed.clone().map(|name| {
        let managed = Managed {
            api: api.clone(),
            clock: env.clock.clone(),
            log: env.log.clone(),
            name,
            handlers: webhooks,
            insights: insights.clone(),
            client_configs: reviews.client_configs(),
            state: Default::default(),
        };
        Managing::start(managed, env.crashes.clone())
    });
    let streams = Streams::new(StreamDeps {
        env: env.clone(),
        api,
        settings: Arc::clone(&settings),
        metrics: caller.metrics.clone(),
        queue: queue.clone(),
        handlers,
        pauses: pauses.clone(),
        selector_callbacks,
    });
    Assembled {
        settings,
        queue,
        background,
        streams,
        insights,
        managing,
        peering,
        posting,
        tasks,
        _ticking: ticking,
        _killed_on_drop: killed_on_drop,
    }
}

/// The queue, with the reactor and the background behind it.
fn start_queue(
    operator: &Operator,
    api: &Api,
    settings: &Arc<Settings>,
    handlers: &[Arc<Handler>],
    schemas: SchemaBook,
) -> Queue {
    let Env { clock, log, .. } = &operator.env;
    let front = &operator.caller.front;
    let metrics = operator.caller.metrics.clone();
    let caller = Arc::new(Caller::new(Arc::clone(front), clock.clone(), log.clone(), metrics, handlers));
    let deps = PatchDeps {
        api: api.clone(),
        front: Arc::clone(front),
        clock: clock.clone(),
        log: log.clone(),
        settings: Arc::clone(settings),
    };
    let patcher = Arc::new(Patcher::new(deps, schemas.clone()));
    let idle = IdleDetector::default();
    let make_reactor = |queue: WeakQueue| {
        let deps = BackgroundDeps {
            caller: Arc::clone(&caller),
            patcher: Arc::clone(&patcher),
            requeue: Box::new(queue),
            idle: idle.clone(),
        };
        let background = Background::new(settings, deps);
        let settings = Arc::clone(settings);
        Arc::new(Reactor::new(ReactorDeps { caller, patcher, settings, schemas, background, idle }))
    };
    Queue::new(api.clone(), clock.clone(), log.clone(), settings.queueing.worker_limit, make_reactor)
}

/// Lets the front receive requests of the cluster as soon as the resources are known.
fn start_reviews(
    operator: &Operator,
    handlers: Vec<Arc<Handler>>,
    mut insights: watch::Receiver<Arc<Insight>>,
    queue: &Queue,
    tasks: &mut JoinSet<()>,
) -> Arc<Reviews> {
    let Env { clock, log, crashes } = &operator.env;
    let front = Arc::clone(&operator.caller.front);
    let metrics = operator.caller.metrics.clone();
    let caller = Caller::new(Arc::clone(&front), clock.clone(), log.clone(), metrics, &handlers);
    let queue = queue.clone();
    let memos = Box::new(move |uid: &str| queue.memo_of(uid));
    let has_webhooks = !handlers.is_empty();
    let reviews = Arc::new(Reviews::new(caller, handlers, insights.clone(), memos));
    if has_webhooks {
        let admission = Arc::clone(&reviews).admission();
        let starting = async move {
            if insights.wait_for(|insight| insight.ready).await.is_ok() {
                front.admission(admission);
            }
        };
        tasks.spawn(crashes.clone().guard("The start of the webhooks".to_owned(), starting));
    }
    reviews
}

/// Watches and handles, until a stop is requested; then everything stops, in bounded time.
async fn run_until_stopped(operator: &Operator, mut assembled: Assembled, stop: &Stop) -> Result<(), OperatorError> {
    let mut ending = Ok(());
    let ready = || {
        operator.health.enter(OperatorPhase::Working);
        operator.caller.front.ready();
    };
    tokio::select! {
        biased;
        _ = stop.requested() => {}
        crash = operator.env.crashes.reported() => ending = Err(OperatorError::Crashed(crash)),
        () = assembled.streams.follow(assembled.insights.clone(), ready) => {}
    }
    shut_down(operator, assembled, ending.is_err()).await;
    ending
}

async fn shut_down(operator: &Operator, assembled: Assembled, has_crashed: bool) {
    let Assembled { settings, queue, background, streams, managing, peering, posting, mut tasks, .. } = assembled;
    if let Some(managing) = managing {
        managing.finish(&operator.env.clock, CLEANING_PATIENCE).await;
    }
    drop(streams);
    let closing = queue.close(crate::seconds(settings.queueing.exit_timeout));
    // After a crash, nobody may be there to notice the end of the daemons: they are dropped.
    let exiting = async {
        if !has_crashed {
            background.exit().await
        }
    };
    tokio::join!(exiting, closing);
    queue.kill();
    tasks.abort_all();
    // Not before the last handler is done: until then, the other operators must wait.
    peering.leave().await;
    posting.finish(POSTING_PATIENCE).await;
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

/// Ends the workers even if the operator is dropped instead of stopped.
struct KilledOnDrop(Queue, Background);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill();
        self.1.kill();
    }
}
