//! An embedded Kubernetes API, for development and tests: what it answers, a real one answers.
//!
//! In process, without any network:
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//! use kopf_cluster::{Cluster, Options};
//! use kube::{Api, Client};
//!
//! let cluster = Cluster::new(Options::default());
//! let client = Client::new(cluster.service(), "default");
//! let namespaces = Api::<Namespace>::all(client).list(&Default::default()).await?;
//! assert_eq!(namespaces.items.len(), 4);
//! # Ok(())
//! # }
//! ```
//! For other processes: [`Cluster::serve`] listens with TLS and hands out a kubeconfig.
//!
//! A request goes through these folders in this order:
//! `http` → `request` → `verbs` → `admit` → `webhooks` → `store` → `controllers`.

// What programs hold in their hands.
mod cluster;

// The way of a request.
mod http;
mod request;
mod codec;
mod verbs;
mod admit;
mod webhooks;
mod state;
mod store;

// What is served, and how it is shown.
mod catalog;
mod publish;

// What is known about kinds.
mod builtin;
mod schema;
mod patching;

// What happens after a write.
mod controllers;

// What tests can do with it.
mod testing;

// Helpers.
mod values;
mod go;
mod support;

#[cfg(feature = "fuzzing")]
pub use crate::cluster::fuzzing;
pub use crate::cluster::{Applied, Cluster, LocalResponse, ManifestError, ServedResource};
pub use crate::http::{ClusterBody, ClusterService, ServeError, Server, is_own_kubeconfig};
pub use crate::request::Interrupted;
pub use crate::store::persistence::OpenError;
pub use crate::support::capture::KUBERNETES_VERSION;
pub use crate::support::options::{Options, Workloads};
pub use crate::testing::{ActiveFault, Effect, Fault, FaultError, Faults, Match, RequestCount};
