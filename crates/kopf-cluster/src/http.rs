//! The cluster on the wire: the listener, the service from requests to answers, and the controls of tests.

mod server;
mod service;
mod warnings;
mod control;

pub use server::{ServeError, Server, is_own_kubeconfig};
pub use service::{Access, ClusterBody, ClusterService};
