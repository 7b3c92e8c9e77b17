//! Where handlers get their client from: the engine's client, with the credentials of the operator.

use std::sync::{PoisonError, RwLock};

use kopf_engine::{Services, Vault};
use kube::Client;

/// The clients and the poster of events, from the login until the operator ends.
#[derive(Default)]
pub(crate) struct Connection {
    /// The client that the operator was started with, if any.
    pub(crate) given: Option<Client>,
    /// What the engine offers between the login and the end.
    services: RwLock<Option<Services>>,
}

impl Connection {
    pub(crate) fn new(given: Option<Client>) -> Self {
        Self { given, services: RwLock::default() }
    }

    pub(crate) fn establish(&self, services: Services) {
        *self.services.write().unwrap_or_else(PoisonError::into_inner) = Some(services);
    }

    /// The operator has ended. Its services hold the front, for the log: keeping them would be a reference cycle.
    pub(crate) fn end(&self) {
        let services = self.services.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(services);
    }

    pub(crate) fn services(&self) -> Option<Services> {
        self.services.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn vault(&self) -> Option<Vault> {
        self.services().map(|services| services.vault)
    }
}
