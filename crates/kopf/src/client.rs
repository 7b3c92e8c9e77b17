//! The client of the handlers: the one with which the engine itself talks to the cluster.

use std::sync::{PoisonError, RwLock};

use kopf_engine::{Services, Vault};
use kube::Client;

use crate::call::AnyCall;
use crate::extract::FromCall;
use crate::{Error, Result};

/// Where handlers get their clients from, and where they put their events.
#[derive(Default)]
pub(crate) struct Connection {
    /// The client that the operator was started with, if it was.
    given: Option<Client>,
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

    /// The operator has ended. Its services log through the front, which would hold itself by them.
    pub(crate) fn end(&self) {
        let services = self.services.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(services);
    }

    pub(crate) fn services(&self) -> Option<Services> {
        self.services.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn vault(&self) -> Option<Vault> {
        self.services().map(|services| services.vault)
    }
}

/// A client with the credentials of the operator. There is none before the login, in startup and
/// login handlers, unless the operator was started with one.
impl<S: Sync, C: AnyCall> FromCall<S, C> for Client {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        let connection = &call.invocation().operator.connection;
        if let Some(client) = &connection.given {
            return Ok(client.clone());
        }
        let Some(vault) = connection.vault() else {
            let id = call.invocation().id();
            return Err(Error::permanent(format!("handler '{id}' cannot have a client: there was no login yet")));
        };
        match vault.current() {
            Some(session) => Ok(session.connection.client().clone()),
            // Nobody logs in any more when the operator is cleaning up.
            None if call.invocation().handler.activity.is_some() => {
                Err(Error::temporary("the credentials have expired, and there are no new ones"))
            }
            None => Ok(vault.client().await.connection.client().clone()),
        }
    }
}
