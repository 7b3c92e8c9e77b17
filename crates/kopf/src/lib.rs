//! Kubernetes operators in Rust.
//!
//! A handler is a plain async function. Its parameters are [extractors](extract): each takes what it needs from the
//! object. [`on`] says what handlers react to: creation, update, deletion, and more. The operator calls a handler again
//! until it succeeds, and stores its progress on the object, so that the progress survives restarts.
//!
//! ```no_run
//! use kopf::extract::{Logger, Meta, New, Old, Patch, Spec};
//! use kopf::{Client, Operator, of, on};
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", namespaced)]
//! struct MemcachedSpec {
//!     size: u32,
//! }
//!
//! async fn create(spec: Spec<MemcachedSpec>, meta: Meta, patch: Patch, logger: Logger) -> kopf::Result<()> {
//!     logger.info(format_args!("{} gets {} pods.", meta.name(), spec.size));
//!     patch.status("size", spec.size)?;
//!     Ok(())
//! }
//!
//! async fn resize(old: Old<Option<u32>>, new: New<Option<u32>>, client: Client) -> kopf::Result<()> {
//!     if new.is_some_and(|size| size > 100) {
//!         return Err(kopf::Error::permanent("that is too many"));
//!     }
//!     println!("{} resizes from {:?} to {:?}", client.default_namespace(), *old, *new);
//!     Ok(())
//! }
//!
//! async fn delete(meta: Meta) -> kopf::Result<()> {
//!     println!("{} is going away", meta.name());
//!     Ok(())
//! }
//!
//! fn main() -> kopf::ExitCode {
//!     Operator::new()
//!         .on(on::create(of::<Memcached>()).retries(5), create)
//!         .on(on::field(of::<Memcached>(), "spec.size"), resize)
//!         .on(on::delete(of::<Memcached>()), delete)
//!         .main()
//! }
//! ```
//!
//! # Where to look
//!
//! - [`on`]: what handlers react to, and their options: filters, retries, timeouts.
//! - [`extract`]: the parameters of handlers. An extractor that makes no sense for a handler does not compile.
//! - [`Operator`]: puts the handlers together and runs them. [`settings`] are its settings.
//! - [`Error`]: how handlers fail. [`Error::temporary`] asks for another attempt, [`Error::permanent`] for none, and the
//!   options `.errors(…)`, `.backoff(…)`, `.retries(…)` and `.timeout(…)` decide about any other error by `?`.
//!   A panic is such an error, too.
//! - [`selector`], [`filter`]: which objects handlers are for. [`webhook`]: the server for admission and conversion.
//! - [`call`], [`handler`]: the traits behind, for extractors and wrappers of your own.
//!
//! # Tests
//!
//! Handlers are functions: call them with your own values, such as `Spec(MemcachedSpec { size: 3 })`,
//! [`Patch::new`](extract::Patch::new) and [`Meta::new`](extract::Meta::new), and look at the patch afterwards.
//!
//! # Versions of other crates
//!
//! Types of kube 5, k8s-openapi 0.29 and schemars 1 are part of this crate's API: a new major version of any of them
//! (a new minor version of k8s-openapi) is a new major version of kopf. They are re-exported as [`kube`],
//! [`k8s_openapi`] and [`schemars`]. The derives of custom resources look for these crates among your dependencies,
//! unless you name the re-exports:
//!
//! ```
//! use kopf::kube::CustomResource;
//! use kopf::schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[schemars(crate = "kopf::schemars")]
//! #[kube(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", namespaced)]
//! #[kube(crates(kube_core = "kopf::kube::core", k8s_openapi = "kopf::k8s_openapi", schemars = "kopf::schemars"))]
//! struct MemcachedSpec {
//!     size: u32,
//! }
//! ```

#![warn(missing_docs, unreachable_pub)]

pub mod operator;
pub mod on;
pub mod extract;
pub mod selector;
pub mod filter;
pub mod settings;
pub mod webhook;
pub mod handler;
pub mod call;
mod context;
mod index;
mod error;
mod run;
mod front;
mod cli;
mod logging;

pub use std::process::ExitCode;

pub use {k8s_openapi, kube, schemars};

pub use kopf_engine::{ConnectionInfo, OperatorError};
pub use kube::Client;

pub use error::{Error, Result};
pub use operator::{Operator, RunError};
pub use selector::of;
pub use settings::Settings;
