//! The client of the cluster as a parameter of handlers.

use kube::Client;

use super::FromCall;
use crate::call::AnyCall;
use crate::error::{Error, Result};

/// A client with the credentials of the operator. There is none before the login, in startup and login handlers,
/// unless the operator was started with one.
impl<S: Sync, C: AnyCall> FromCall<S, C> for Client {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        let connection = &call.invocation().operator.connection;
        if let Some(client) = &connection.given {
            return Ok(client.clone());
        }
        let Some(vault) = connection.vault() else {
            let id = call.invocation().id();
            return Err(Error::permanent(format!(
                "handler '{id}' cannot have a client: the operator has not logged in yet"
            )));
        };
        match vault.current() {
            Some(session) => Ok(session.connection.client().clone()),
            // Nobody logs in any more while the operator cleans up.
            None if call.invocation().handler.activity.is_some() => {
                Err(Error::temporary("the credentials have expired, and there are no new ones"))
            }
            None => Ok(vault.client().await.connection.client().clone()),
        }
    }
}
