//! A complete operator runs: the declarations are checked, the front is made, the engine is started.
//!
//! `Operator::run` calls it directly, `Operator::main` and `Operator::run_cli` through the command line (`cli.rs`).

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_engine::{Clock, Configuration, OperatorError, OperatorOptions, Pacing, Stop};
use kopf_reaction::{ErrorsMode, Handler as Declaration, HandlerType};
use kube::Client;

use crate::call::OperatorParts;
use crate::call::connection::Connection;
use crate::call::registry::{AnyFunction, RegisteredFunction, Registry};
use crate::front::RustFront;
use crate::index::{Indexes, Requirements};
use crate::on::trigger::Trigger;
use crate::on::{DeclarationError, Registration};
use crate::settings::Settings;
use crate::webhook::Server;

/// Why an operator could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Some registrations have mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Declarations(Vec<DeclarationError>),
    /// The engine ended with an error.
    #[error(transparent)]
    Engine(#[from] OperatorError),
}

/// Everything that the user said about an operator, besides its state.
#[derive(Default)]
pub(crate) struct OperatorSpec {
    handlers: Vec<Arc<Declaration>>,
    registry: Registry,
    indexes: Indexes,
    /// What the parameters of each handler need.
    requirements: Vec<(Arc<str>, Requirements)>,
    errors: Vec<DeclarationError>,
    pub(crate) settings: Settings,
    pub(crate) webhooks: Option<Server>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) clusterwide: bool,
    pub(crate) liveness: Option<String>,
    pub(crate) stop_when: Option<BoxFuture<'static, ()>>,
    /// Whether the wall clock goes with tokio's time.
    pub(crate) simulated_time: bool,
}

impl OperatorSpec {
    /// Adds a handler or an index function `H`. Mistakes are kept until the start.
    pub(crate) fn add<T: Trigger, H: 'static>(
        &mut self,
        registration: Registration<T>,
        requirements: Requirements,
        erase: impl FnOnce(&mut Indexes, &Arc<str>) -> AnyFunction,
    ) {
        let index = self.registry.allocate_index();
        match registration.finish::<H>(index, None) {
            Ok((declaration, callbacks)) => {
                let function = erase(&mut self.indexes, &declaration.id);
                self.registry.insert(index, RegisteredFunction { function, callbacks: Arc::new(callbacks) });
                self.requirements.push((Arc::clone(&declaration.id), requirements));
                self.handlers.push(Arc::new(declaration));
            }
            Err(error) => self.errors.push(error),
        }
    }

    /// All mistakes in the registrations.
    fn take_errors(&mut self) -> Vec<DeclarationError> {
        let missing = self.requirements.iter().filter_map(|(id, requirements)| {
            let index = self.indexes.missing(requirements)?.to_owned();
            Some(DeclarationError::NoIndex { id: id.to_string(), index })
        });
        std::mem::take(&mut self.errors).into_iter().chain(missing).collect()
    }
}

/// Where the operator works, and with which client.
#[derive(Default)]
pub(crate) struct RunOptions {
    pub(crate) namespaces: Vec<String>,
    pub(crate) clusterwide: bool,
    /// Instead of a login.
    pub(crate) client: Option<Client>,
    /// What the command line says about other operators; it overrides the settings.
    pub(crate) peering: PeeringOptions,
    /// Where to serve the health.
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
    fn apply(self, settings: &mut kopf_engine::Settings, clusterwide: bool) {
        let peering = &mut settings.peering;
        peering.clusterwide = clusterwide;
        peering.standalone |= self.standalone;
        peering.priority = self.priority.unwrap_or(peering.priority);
        if let Some(name) = self.name {
            (peering.name, peering.mandatory) = (name, true);
        }
    }
}

/// An operator with its state.
pub(crate) struct ReadyOperator {
    pub(crate) state: Arc<dyn Any + Send + Sync>,
    pub(crate) spec: OperatorSpec,
}

impl ReadyOperator {
    pub(crate) async fn run(mut self, options: RunOptions, stop: Stop) -> Result<(), RunError> {
        let stopping = self.spec.stop_when.take().map(|done| {
            let stop = stop.clone();
            tokio::spawn(async move {
                done.await;
                stop.request("as the application asked");
            })
        });
        let clock = match self.spec.simulated_time {
            true => Clock::simulated(Timestamp::now(), 0),
            false => Clock::system(),
        };
        let liveness = options.liveness.or(self.spec.liveness.take());
        let (mut front, activities) = self.into_front(options.client.clone())?;
        options.peering.apply(&mut front.configuration.settings, options.clusterwide);
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

    /// The front, and the handlers of activities, which the engine needs before the configuration.
    pub(crate) fn into_front(mut self, client: Option<Client>) -> Result<(RustFront, Vec<Arc<Declaration>>), RunError> {
        let errors = self.spec.take_errors();
        if !errors.is_empty() {
            return Err(RunError::Declarations(errors));
        }
        let OperatorSpec { handlers, registry, indexes, settings, webhooks, .. } = self.spec;
        let mut settings = settings.to_engine();
        settings.admission.managed = webhooks.as_ref().and_then(|server| server.managed.clone());
        let webhooks = webhooks.map(|server| server.options);
        let is_activity = |handler: &Arc<Declaration>| handler.handler_type == HandlerType::Activity;
        let (mut activities, handlers): (Vec<_>, Vec<_>) = handlers.into_iter().partition(is_activity);
        activities.push(default_login(&registry));
        let connection = Connection::new(client);
        let operator = Arc::new(OperatorParts { state: self.state, connection, registry, indexes });
        let configuration = Configuration { settings, handlers };
        Ok((RustFront { operator, configuration, webhooks, stop: Stop::new() }, activities))
    }
}

/// The login of operators without login handlers: by the kubeconfig, or by the pod.
fn default_login(registry: &Registry) -> Arc<Declaration> {
    let index = registry.allocate_index();
    let mut declaration = Declaration::new(index, "login_via_environment", HandlerType::Activity);
    declaration.activity = Some(kopf_reaction::Activity::Authentication);
    declaration.errors = Some(ErrorsMode::Ignored);
    declaration.fallback = true;
    // The engine reads it as `ConnectionInfo::from_environment()`.
    let info = || Box::pin(async { Ok(Some(serde_json::json!({"kubeconfig": true, "trust_env": true}))) });
    let function = AnyFunction::Activity(Arc::new(move |_| info()));
    registry.insert(index, RegisteredFunction { function, callbacks: Arc::default() });
    Arc::new(declaration)
}
