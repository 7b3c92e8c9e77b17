//! The operator as the user builds it: handlers, settings, state; then it runs.

use std::future::Future;
use std::marker::PhantomData;
use std::process::ExitCode;
use std::sync::Arc;

use kopf_engine::{Pacing, Stop};
use kube::Client;

use crate::call::IndexCall;
use crate::call::registry::AnyFunction;
use crate::call::sealed::Sealed as _;
use crate::cli;
use crate::handler::{self, Handler, IntoEntries, IntoOutcome, Parameters};
use crate::index::Requirements;
use crate::on::Registration;
use crate::on::trigger::{HandlerTrigger, Index};
use crate::run::{OperatorSpec, ReadyOperator, RunOptions};
use crate::settings::Settings;
use crate::webhook::Server;

pub use crate::run::RunError;

/// A Kubernetes operator: handlers, and how to run them.
///
/// `S` is the type of its state, which [`with_state`](Self::with_state) provides, before or after
/// the handlers that use it. `P` says whether that was done.
#[must_use = "an operator does nothing until it is run"]
pub struct Operator<S = (), P = Stateless> {
    spec: OperatorSpec,
    provided: P,
    state: PhantomData<fn(S)>,
}

/// The operator has no state, or not yet.
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

impl<S> Operator<S> {
    /// An operator without handlers.
    ///
    /// It stores its records in the status of the objects, in one request with the results, where the schema keeps them
    /// there (`settings.persistence.compact`); otherwise in annotations.
    pub fn new() -> Self {
        Self { spec: OperatorSpec::default(), provided: Stateless, state: PhantomData }
    }

    /// Provides the state for [`State`](crate::extract::State).
    pub fn with_state(self, state: S) -> Operator<S, Stateful<S>> {
        Operator { spec: self.spec, provided: Stateful(state), state: PhantomData }
    }
}

impl<S> Default for Operator<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Send + Sync + 'static, P> Operator<S, P> {
    /// Adds a handler: what it reacts to, and the function.
    ///
    /// ```
    /// use kopf::extract::Meta;
    /// use kopf::{Operator, on};
    ///
    /// async fn greet(meta: Meta) {
    ///     println!("Hello, {}!", meta.name());
    /// }
    ///
    /// let operator: Operator = Operator::new().on(on::create("memcacheds").retries(5), greet);
    /// # drop(operator);
    /// ```
    pub fn on<T, E, H>(mut self, registration: Registration<T>, handler: H) -> Self
    where
        T: HandlerTrigger,
        H: Handler<E>,
        H::Future: Send,
        H::Output: IntoOutcome,
        E: Parameters<S, T::Call>,
    {
        let mut requirements = Requirements::default();
        E::require(&mut requirements);
        self.spec.add::<T, H>(registration, requirements, |_, _| T::Call::wrap(handler::erase(handler)));
        self
    }

    /// Fills an [`Index`](crate::extract::Index) with what the function returns for the objects, before any handler is
    /// called.
    ///
    /// Functions with the same types of keys and values fill the same index.
    pub fn index<E, H, R>(mut self, registration: Registration<Index>, function: H) -> Self
    where
        H: Handler<E, Output = R>,
        H::Future: Send,
        R: IntoEntries,
        E: Parameters<S, IndexCall>,
    {
        let mut requirements = Requirements::default();
        E::require(&mut requirements);
        self.spec.add::<Index, H>(registration, requirements, |indexes, id| {
            AnyFunction::Index(handler::erase_index(function, indexes.add(id)))
        });
        self
    }

    /// Serves webhooks, for [`on::validate`](crate::on::validate), [`on::mutate`](crate::on::mutate) and
    /// [`on::convert`](crate::on::convert).
    ///
    /// ```
    /// use kopf::extract::{Review, Spec};
    /// use kopf::webhook::{Operation, Server};
    /// use kopf::{Error, Operator, on};
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
    ///     .webhooks(Server::new().managed("validation.example.com"))
    ///     .on(on::validate("caches").operations([Operation::Create, Operation::Update]), check)
    /// # ;
    /// ```
    pub fn webhooks(mut self, server: Server) -> Self {
        self.spec.webhooks = Some(server);
        self
    }

    /// Changes the settings.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.spec.settings);
        self
    }

    /// Serves this namespace; may be repeated, and be a glob pattern. The command line overrides it.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.spec.namespaces.push(namespace.into());
        self
    }

    /// Serves all namespaces. The command line overrides it.
    pub fn all_namespaces(mut self) -> Self {
        self.spec.clusterwide = true;
        self
    }

    /// Moves the time of day with tokio's time from now on. In a test with paused time, on the embedded cluster, hours
    /// of retries pass in milliseconds, since nothing waits for a network.
    pub fn simulated_time(mut self) -> Self {
        self.spec.simulated_time = true;
        self
    }

    /// Serves the health of the operator at this address, such as `http://0.0.0.0:8080/healthz`: the results of
    /// [`on::probe`](crate::on::probe) handlers as JSON, with `/readyz` and `/metrics` beside it. The command line
    /// overrides it.
    pub fn liveness(mut self, endpoint: impl Into<String>) -> Self {
        self.spec.liveness = Some(endpoint.into());
        self
    }

    /// Stops the operator when the future is done.
    pub fn stop_when(mut self, done: impl Future<Output = ()> + Send + 'static) -> Self {
        self.spec.stop_when = Some(Box::pin(done));
        self
    }
}

impl<S: Send + Sync + 'static, P: ProvideState<S>> Operator<S, P> {
    /// Runs until [`stop_when`](Self::stop_when), with this client and without a login.
    pub async fn run(self, client: Client) -> Result<(), RunError> {
        let options = RunOptions { client: Some(client), ..self.options() };
        self.into_ready().run(options, Stop::new()).await
    }

    /// Runs as a command line program, with the options of `kopf run`, until SIGINT or SIGTERM.
    ///
    /// It installs a subscriber of `tracing` for the log, unless there is one already.
    pub async fn run_cli(self) -> ExitCode {
        let options = self.options();
        cli::run(self.into_ready(), options).await
    }

    /// The whole program: as [`run_cli`](Self::run_cli), on a runtime that suits operators.
    ///
    /// This runtime has one thread, which takes the answers of a busy server several at a time. It costs less than the
    /// runtime of `#[tokio::main]`, which is better where handlers keep the processor busy.
    ///
    /// ```no_run
    /// # use kopf::Operator;
    /// fn main() -> kopf::ExitCode {
    ///     Operator::new().main()
    /// }
    /// ```
    pub fn main(self) -> ExitCode {
        let pacing = Pacing::default();
        let runtime = match pacing.runtime().thread_name("kopf").build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("The operator cannot run: it cannot start its thread: {error}");
                return ExitCode::FAILURE;
            }
        };
        let options = RunOptions { pacing, ..self.options() };
        let running = runtime.spawn(cli::run(self.into_ready(), options));
        let code = match runtime.block_on(running) {
            Ok(code) => code,
            Err(crash) => {
                eprintln!("The operator has crashed: {crash}");
                ExitCode::FAILURE
            }
        };
        // Blocking threads that still run do not keep the program from ending.
        runtime.shutdown_background();
        code
    }

    fn options(&self) -> RunOptions {
        let (namespaces, clusterwide) = (self.spec.namespaces.clone(), self.spec.clusterwide);
        RunOptions { namespaces, clusterwide, ..RunOptions::default() }
    }

    /// Adds the state; from here on, no types are needed.
    pub(crate) fn into_ready(self) -> ReadyOperator {
        ReadyOperator { state: Arc::new(self.provided.provide()), spec: self.spec }
    }
}
