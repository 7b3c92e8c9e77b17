//! The operator as the user builds it: declarations, settings, state; then it runs.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_engine::{Clock, Configuration, OperatorError, OperatorOptions, Pacing, ServerOptions, Settings, Stop};
use kopf_reaction::{ErrorsMode, Handler as Declaration, HandlerType};
use kube::Client;

use crate::call::OperatorParts;
use crate::cli;
use crate::client::Connection;
use crate::front::RustFront;
use crate::handler::{self, Handler};
use crate::index::{self, Indexer, Indexes};
use crate::register::sealed::Erased;
use crate::register::{self, Cleanup, DeclarationError, Indexing, Kind, Login, Registration, Startup};
use crate::registry::{AnyFunction, Entry, Registry};

/// A Kubernetes operator: handlers, and how to run them.
///
/// `S` is the type of its state, which [`with_state`](Self::with_state) provides, before or after
/// the handlers that use it. `P` tells whether that was done.
#[must_use = "an operator does nothing until it is run"]
pub struct Operator<S = (), P = Stateless> {
    parts: Parts,
    provided: P,
    state: PhantomData<fn(S)>,
}

/// The operator has no state, or it is not provided yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stateless;

/// The operator has its state.
#[derive(Clone, Copy, Debug)]
pub struct Stateful<S>(S);

/// Where the state of an operator comes from.
pub trait ProvideState<S> {
    /// The state itself.
    fn provide(self) -> S;
}

impl ProvideState<()> for Stateless {
    fn provide(self) {}
}

impl<S> ProvideState<S> for Stateful<S> {
    fn provide(self) -> S {
        self.0
    }
}

/// Why an operator could not be started, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Some handlers are not declared properly.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Declarations(Vec<DeclarationError>),
    /// The engine has given up.
    #[error(transparent)]
    Engine(#[from] OperatorError),
}

/// What is known of an operator besides its state.
#[derive(Default)]
struct Parts {
    handlers: Vec<Arc<Declaration>>,
    registry: Registry,
    indexes: Indexes,
    errors: Vec<DeclarationError>,
    settings: Settings,
    webhooks: Option<ServerOptions>,
    namespaces: Vec<String>,
    clusterwide: bool,
    liveness: Option<String>,
    stop_when: Option<BoxFuture<'static, ()>>,
    /// Whether the wall clock goes with tokio's time.
    simulated_time: bool,
}

/// Where the operator works, and with which client.
#[derive(Default)]
pub(crate) struct RunOptions {
    pub(crate) namespaces: Vec<String>,
    pub(crate) clusterwide: bool,
    /// Instead of a login.
    pub(crate) client: Option<Client>,
    /// What the command line says about the peers; it goes over the settings.
    pub(crate) peering: PeeringOptions,
    /// Where to tell about the health.
    pub(crate) liveness: Option<String>,
    pub(crate) pacing: Pacing,
}

/// The options about other operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeeringOptions {
    pub(crate) standalone: bool,
    /// The name of a peering that must be there.
    pub(crate) name: Option<String>,
    pub(crate) priority: Option<i64>,
}

impl PeeringOptions {
    fn apply(self, settings: &mut Settings, clusterwide: bool) {
        let peering = &mut settings.peering;
        peering.clusterwide = clusterwide;
        peering.standalone |= self.standalone;
        peering.priority = self.priority.unwrap_or(peering.priority);
        if let Some(name) = self.name {
            (peering.name, peering.mandatory) = (name, true);
        }
    }
}

impl<S> Operator<S> {
    /// An operator without handlers.
    ///
    /// What it stores on objects goes to their status, in one request with the results, where the schema keeps it there
    /// (`settings.persistence.compact`); otherwise to annotations.
    pub fn new() -> Self {
        let mut parts = Parts::default();
        parts.settings.persistence.compact = true;
        Self { parts, provided: Stateless, state: PhantomData }
    }

    /// Provides the state for [`State`](crate::State).
    pub fn with_state(self, state: S) -> Operator<S, Stateful<S>> {
        Operator { parts: self.parts, provided: Stateful(state), state: PhantomData }
    }
}

impl<S> Default for Operator<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Send + Sync + 'static, P> Operator<S, P> {
    /// Adds a handler: what it is for, and the function.
    pub fn on<K: Kind, T, H: Handler<T, S, K::Call>>(mut self, registration: Registration<K>, handler: H) -> Self {
        let index = self.parts.registry.allocate_index();
        match registration.finish::<H>(index, None) {
            Ok((declaration, _)) if declaration.handler_type == HandlerType::Index => {
                self.parts.errors.push(DeclarationError::NotIndexing { id: declaration.id.to_string() });
            }
            Ok((declaration, callbacks)) => {
                let function = K::wrap(Erased(handler::erase(handler))).0;
                self.parts.registry.insert(index, Entry { function, callbacks: Arc::new(callbacks) });
                self.parts.handlers.push(Arc::new(declaration));
            }
            Err(error) => self.parts.errors.push(error),
        }
        self
    }

    /// Fills an [`Index`](crate::Index) with what the function returns for the objects, before other handlers are called.
    ///
    /// Several functions with the same types of keys and values fill the same index.
    pub fn index<T, I: Indexer<T, S>>(mut self, registration: Registration<Indexing>, indexer: I) -> Self {
        let number = self.parts.registry.allocate_index();
        match registration.finish::<I>(number, None) {
            Ok((declaration, callbacks)) => {
                let function = AnyFunction::Object(index::erase(indexer, self.parts.indexes.add(&declaration.id)));
                self.parts.registry.insert(number, Entry { function, callbacks: Arc::new(callbacks) });
                self.parts.handlers.push(Arc::new(declaration));
            }
            Err(error) => self.parts.errors.push(error),
        }
        self
    }

    /// Adds a handler for when the operator starts. The same as `on(startup(), handler)`.
    pub fn on_startup<T, H: Handler<T, S, <Startup as Kind>::Call>>(self, handler: H) -> Self {
        self.on(register::startup(), handler)
    }

    /// Adds a handler for when the operator stops. The same as `on(cleanup(), handler)`.
    pub fn on_cleanup<T, H: Handler<T, S, <Cleanup as Kind>::Call>>(self, handler: H) -> Self {
        self.on(register::cleanup(), handler)
    }

    /// Adds a handler which gives the credentials, as a [`ConnectionInfo`](crate::ConnectionInfo). The same as `on(login(), handler)`.
    ///
    /// Without such handlers, they are those of the kubeconfig or of the pod.
    ///
    /// ```
    /// use kopf::{ConnectionInfo, Operator};
    ///
    /// async fn login() -> kopf::Result<ConnectionInfo> {
    ///     let token = std::fs::read_to_string("token.txt")?;
    ///     Ok(ConnectionInfo { server: "https://localhost:6443".into(), token: Some(token), ..Default::default() })
    /// }
    /// # let _: Operator = Operator::new().on_login(login);
    /// ```
    pub fn on_login<T, H: Handler<T, S, <Login as Kind>::Call>>(self, handler: H) -> Self {
        self.on(register::login(), handler)
    }

    /// Serves webhooks: for [`validate`](crate::validate), [`mutate`](crate::mutate) and
    /// [`convert`](crate::convert). `managed` is the name of the configurations in the cluster which the operator
    /// keeps up to date, such as `example.com`; None leaves them to others.
    ///
    /// ```
    /// use kopf::{Error, Operator, Review, ServerOptions, Spec};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct CacheSpec {
    ///     size: u32,
    /// }
    ///
    /// async fn check(spec: Spec<CacheSpec>, review: Review) -> kopf::Result<()> {
    ///     if spec.size > 5 && !review.dry_run {
    ///         return Err(Error::denied(400, "That is too much."));
    ///     }
    ///     Ok(())
    /// }
    /// # let _: Operator =
    /// Operator::new()
    ///     .webhooks(ServerOptions::default(), Some("validation.example.com"))
    ///     .on(kopf::validate("caches").operations(["CREATE", "UPDATE"]), check)
    /// # ;
    /// ```
    pub fn webhooks(mut self, server: ServerOptions, managed: Option<&str>) -> Self {
        self.parts.webhooks = Some(server);
        self.parts.settings.admission.managed = managed.map(str::to_owned);
        self
    }

    /// Changes the settings.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self
    }

    /// Serves this namespace; may be repeated, and be a glob pattern. The command line overrides it.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.parts.namespaces.push(namespace.into());
        self
    }

    /// Serves all namespaces. The command line overrides it.
    pub fn all_namespaces(mut self) -> Self {
        self.parts.clusterwide = true;
        self
    }

    /// Lets the time of the day go with tokio's time from now on. In a test with paused time, on the embedded
    /// cluster, hours of retries pass in milliseconds, since nothing waits for a network.
    pub fn simulated_time(mut self) -> Self {
        self.parts.simulated_time = true;
        self
    }

    /// Tells about its health at this address, such as `http://0.0.0.0:8080/healthz`: the results of [`probe`](crate::probe)
    /// handlers as JSON, with `/readyz` and `/metrics` beside it. The command line overrides it.
    pub fn liveness(mut self, endpoint: impl Into<String>) -> Self {
        self.parts.liveness = Some(endpoint.into());
        self
    }

    /// Stops the operator when the future is done.
    pub fn stop_when(mut self, done: impl Future<Output = ()> + Send + 'static) -> Self {
        self.parts.stop_when = Some(Box::pin(done));
        self
    }
}

impl<S: Send + Sync + 'static, P: ProvideState<S>> Operator<S, P> {
    /// Runs until [`stop_when`](Self::stop_when), with this client and without any login.
    pub async fn run(self, client: Client) -> Result<(), RunError> {
        let options = RunOptions {
            namespaces: self.parts.namespaces.clone(),
            clusterwide: self.parts.clusterwide,
            client: Some(client),
            peering: PeeringOptions::default(),
            liveness: None,
            pacing: Pacing::default(),
        };
        self.into_ready().run(options, Stop::new()).await
    }

    /// Runs as a command line program, with the options of `kopf run`, until SIGINT or SIGTERM.
    ///
    /// It configures the log, unless a subscriber of `tracing` is installed already.
    pub async fn run_cli(self) -> crate::ExitCode {
        let options = self.options();
        cli::run(self.into_ready(), options).await
    }

    /// The whole program: as [`run_cli`](Self::run_cli), on a runtime that suits operators.
    ///
    /// That runtime has one thread, which takes the answers of a busy server several at a time. It costs less than the one of
    /// `#[tokio::main]`, which is better where handlers keep the processor busy.
    ///
    /// ```no_run
    /// # use kopf::Operator;
    /// fn main() -> kopf::ExitCode {
    ///     Operator::new().main()
    /// }
    /// ```
    pub fn main(self) -> crate::ExitCode {
        let pacing = Pacing::default();
        let runtime = match pacing.runtime().thread_name("kopf").build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("The operator cannot run: its thread cannot be started: {error}");
                return crate::ExitCode::FAILURE;
            }
        };
        let options = RunOptions { pacing, ..self.options() };
        let running = runtime.spawn(cli::run(self.into_ready(), options));
        let code = match runtime.block_on(running) {
            Ok(code) => code,
            Err(crash) => {
                eprintln!("The operator has crashed: {crash}");
                crate::ExitCode::FAILURE
            }
        };
        // What still runs in threads of its own does not keep the program from ending.
        runtime.shutdown_background();
        code
    }

    fn options(&self) -> RunOptions {
        let (namespaces, clusterwide) = (self.parts.namespaces.clone(), self.parts.clusterwide);
        RunOptions { namespaces, clusterwide, ..RunOptions::default() }
    }

    /// Joins the parts with the state; from here on, no types are needed.
    pub(crate) fn into_ready(self) -> ReadyOperator {
        ReadyOperator { state: Arc::new(self.provided.provide()), parts: self.parts }
    }
}

/// An operator with everything that it needs.
pub(crate) struct ReadyOperator {
    state: Arc<dyn Any + Send + Sync>,
    parts: Parts,
}

impl ReadyOperator {
    pub(crate) async fn run(mut self, options: RunOptions, stop: Stop) -> Result<(), RunError> {
        let stopping = self.parts.stop_when.take().map(|done| {
            let stop = stop.clone();
            tokio::spawn(async move {
                done.await;
                stop.request("as asked by the application");
            })
        });
        let clock = match self.parts.simulated_time {
            true => Clock::simulated(Timestamp::now(), 0),
            false => Clock::system(),
        };
        options.peering.apply(&mut self.parts.settings, options.clusterwide);
        let liveness = options.liveness.or(self.parts.liveness.take());
        let (mut front, activities) = self.into_front(options.client.clone())?;
        front.stop = stop.clone();
        let options = OperatorOptions {
            activities,
            namespaces: options.namespaces,
            clusterwide: options.clusterwide,
            client: options.client,
            liveness,
            pacing: options.pacing,
            ..OperatorOptions::default()
        };
        let ended = kopf_engine::run_by(clock, Arc::new(front), options, stop).await;
        if let Some(stopping) = stopping {
            stopping.abort();
        }
        Ok(ended?)
    }

    /// The front, and the handlers that are needed before its configuration.
    pub(crate) fn into_front(self, client: Option<Client>) -> Result<(RustFront, Vec<Arc<Declaration>>), RunError> {
        let Parts { handlers, registry, indexes, errors, settings, webhooks, .. } = self.parts;
        if !errors.is_empty() {
            return Err(RunError::Declarations(errors));
        }
        let is_activity = |handler: &Arc<Declaration>| handler.handler_type == HandlerType::Activity;
        let (mut activities, handlers): (Vec<_>, Vec<_>) = handlers.into_iter().partition(is_activity);
        activities.push(default_login(&registry));
        let connection = Connection::new(client);
        let operator = Arc::new(OperatorParts { state: self.state, connection, registry, indexes });
        let configuration = Configuration { settings, handlers };
        Ok((RustFront { operator, configuration, webhooks, stop: Stop::new() }, activities))
    }
}

/// The login of operators that have no other: by the kubeconfig, or by the pod.
fn default_login(registry: &Registry) -> Arc<Declaration> {
    let index = registry.allocate_index();
    let mut declaration = Declaration::new(index, "login_via_environment", HandlerType::Activity);
    declaration.activity = Some(kopf_reaction::Activity::Authentication);
    declaration.errors = Some(ErrorsMode::Ignored);
    declaration.fallback = true;
    // Read by the engine as `ConnectionInfo::from_environment()`.
    let info = || Box::pin(async { Ok(Some(serde_json::json!({"kubeconfig": true, "trust_env": true}))) });
    let function = AnyFunction::Activity(Arc::new(move |_| info()));
    registry.insert(index, Entry { function, callbacks: Arc::default() });
    Arc::new(declaration)
}
