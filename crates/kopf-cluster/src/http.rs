//! HTTP: the listener, the service from requests to responses, and the controls for tests.

mod server;
mod service;
mod warnings;
mod control;

pub use server::{ServeError, Server, is_own_kubeconfig};
pub(crate) use service::Access;
pub use service::{ClusterBody, ClusterService};
