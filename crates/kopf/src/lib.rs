//! Kubernetes operators in Rust.
//!
//! A handler is a plain async function. Its parameters are extractors: each takes what it needs from
//! the object that is handled. Handlers are declared for causes (creation, update, deletion, …) of
//! kinds of objects, and are called again until they succeed; their progress is stored on the objects,
//! so that it survives restarts.
//!
//! ```no_run
//! use kopf::{Client, Logger, Meta, New, Old, Operator, Patch, Spec, create_of, delete_of, field_of};
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
//!     println!("{} is going", meta.name());
//!     Ok(())
//! }
//!
//! fn main() -> kopf::ExitCode {
//!     Operator::new()
//!         .on(create_of::<Memcached>().retries(5), create)
//!         .on(field_of::<Memcached>("spec.size"), resize)
//!         .on(delete_of::<Memcached>(), delete)
//!         .main()
//! }
//! ```
//!
//! # Parameters of handlers
//!
//! | extractor | what it is |
//! | --- | --- |
//! | [`Spec<T>`], [`Status<T>`], [`Meta`] | the stanzas of the object |
//! | [`Object<K>`], [`Body`], [`Context`] | the whole object: typed, as JSON, and with what has happened to it |
//! | [`Old<T>`], [`New<T>`], [`Diff`], [`Reason`], [`EventType`] | what has happened |
//! | [`Patch`] | what is to be changed in the object |
//! | [`Retry`], [`Started`], [`Runtime`] | how often and how long it was tried |
//! | [`Logger`], [`Events`] | what to tell to people |
//! | [`Client`], [`State<T>`], [`Memo`] | the cluster, the application, the memory of the object |
//! | [`Index<K, V>`] | what is known of all objects, by keys |
//! | [`Children`] | sub-handlers |
//! | [`Stopped`], [`Latest`] | of daemons and timers: the request to stop, the object as it is now |
//!
//! Own ones implement [`FromCall`]. What does not fit (such as a spec of another type) is a permanent
//! error of the handler, which names the object and the field; a `Result<T>` of an extractor leaves it
//! to the handler.
//!
//! # In the background
//!
//! [`daemon_of`] starts a function for each object, and stops it with the object; [`timer_of`] calls a function
//! for each object again and again: `timer_of::<Memcached>().every(Duration::from_secs(60))`.
//!
//! # Errors
//!
//! [`Error::temporary`] asks for another try, [`Error::permanent`] for none, and any other error by `?`
//! is treated as the declaration says: `.errors(…)`, `.backoff(…)`, `.retries(…)`, `.timeout(…)`.
//! A panic is such an error, too.
//!
//! # Tests
//!
//! Handlers are functions: call them with values of your own, such as `Spec(MemcachedSpec { size: 3 })`,
//! [`Patch::new`] and [`Meta::new`], and look into the patch afterwards.

#![warn(missing_docs)]

mod operator;
mod register;
mod selector;
mod filter;
mod handler;
mod extract;
mod call;
mod context;
mod patch;
mod memo;
mod index;
mod children;
mod events;
mod logger;
mod client;
mod error;
mod review;
mod registry;
mod front;
mod cli;
mod logging;

pub use std::process::ExitCode;

pub use kopf_engine::{ClientCertificates, ConnectionInfo, OperatorError, ServerOptions, Settings};
pub use kopf_object::{Body, Diff, DiffItem, DiffOp, FieldPath};
pub use kopf_reaction::{ErrorsMode, EventType, Lifecycle, Reason, Resource, Selector, StopReasons};
pub use kube::Client;

pub use call::{ActivityCall, AnyCall, Call, Invocation};
pub use children::Children;
pub use context::Context;
pub use error::{Error, Result};
pub use events::Events;
pub use extract::{
    FromCall, FromRef, Latest, Meta, New, Object, Old, Retry, Runtime, Spec, Started, State, Status, Stopped,
};
pub use filter::{Presence, TextFilter, ValueFilter, absent, present};
pub use handler::{Handler, IntoOutcome};
pub use index::{Entries, Index, Indexer, IntoEntries};
pub use logger::Logger;
pub use memo::Memo;
pub use operator::{Operator, ProvideState, RunError, Stateful, Stateless};
pub use patch::Patch;
pub use register::{
    DeclarationError, Exponential, Registration, Schedule, cleanup, convert, convert_of, create, create_of, daemon,
    daemon_of, delete, delete_of, event, event_of, exponential, field, field_of, index, index_of, login, mutate,
    mutate_of, probe, resume, resume_of, startup, subhandler, timer, timer_of, update, update_of, validate,
    validate_of,
};
pub use review::{Review, Warnings};
pub use selector::{Everything, IntoSelector};

/// The kinds of handlers, as types: what [`Registration`] is a declaration of.
pub mod kinds {
    pub use crate::register::{
        BackgroundKind, ChangeKind, Cleanup, Create, Daemon, Delete, Event, Field, Indexing, Kind, Login, ObjectKind,
        Probe, Resume, Startup, Subhandler, Timer, Update,
    };
}
