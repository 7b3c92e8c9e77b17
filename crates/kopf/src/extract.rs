//! The parameters of handlers: each type says how it is taken from a call.
//!
//! | extractor | what the handler gets | where |
//! | --- | --- | --- |
//! | [`Spec<T>`], [`Status<T>`], [`Meta`] | the stanzas of the object | all handlers of objects |
//! | [`Object<K>`], [`Body`], [`Context`] | the whole object: typed, as JSON, and with what happened to it | all handlers of objects |
//! | [`Patch`], [`Memo`], [`Events`] | changes to the object, values in memory, Kubernetes Events | all handlers of objects |
//! | [`Old<T>`], [`New<T>`], [`Diff`] | the states before and after | changes (create, update, delete, resume, field, sub-handlers) and admission |
//! | [`Reason`], [`Children`] | why the handler is called; its sub-handlers | changes |
//! | [`EventType`] | how the object came | event handlers |
//! | [`Stopped`], [`Latest`] | the request to stop, the latest state of the object | daemons and timers |
//! | [`Review`], [`Warnings`] | who requests which change; messages for them | validating and mutating handlers |
//! | [`Conversion`] | from which version to which | converting handlers |
//! | [`Client`](crate::Client), [`State<T>`], [`Index<K, V>`] | the cluster, the application, all objects by keys | all handlers |
//! | [`Logger`], [`Retry`], [`Started`], [`Runtime`] | the log, the attempts of the handler so far | all handlers |
//!
//! An extractor in another handler does not compile. An [`Index<K, V>`] that no function fills is an error at the start.
//! Values that do not fit the type (such as a spec of another shape) are a permanent error of the handler, which names
//! the object and the field; with a `Result<T>` of an extractor, the handler decides.

mod stanza;
mod meta;
mod change;
mod background;
mod admission;
mod state;
mod index;
mod client;
mod children;
mod events;
mod progress;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::ObjectCall;
use crate::error::{Error, Result};

pub use kopf_object::{Body, Diff, DiffItem, DiffOp, FieldPath};
pub use kopf_reaction::{EventType, Reason, StopReasons};

pub use self::background::{Latest, Stopped};
pub use self::change::{New, Old};
pub use self::children::Children;
pub use self::events::Events;
pub use self::meta::Meta;
pub use self::progress::{Retry, Runtime, Started};
pub use self::stanza::{Object, Spec, Status};
pub use self::state::{FromRef, State};
pub use crate::call::from_call::FromCall;
pub use crate::context::Context;
pub use crate::context::memo::Memo;
pub use crate::context::patch::Patch;
pub use crate::context::review::{Conversion, Review, Warnings};
pub use crate::index::{Index, Requirements};
pub use crate::logging::Logger;

/// Reads a typed value; an error names the object, the field and the handler.
fn read<T: DeserializeOwned>(call: &impl ObjectCall, place: &str, value: &Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| misfit(call, place, &error))
}

fn misfit(call: &impl ObjectCall, place: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let path = error.path().to_string();
    let field = match (place, path.as_str()) {
        ("", ".") => "the object".to_owned(),
        ("", path) => path.to_owned(),
        (place, ".") => place.to_owned(),
        (place, path) if path.starts_with('[') => format!("{place}{path}"),
        (place, path) => format!("{place}.{path}"),
    };
    call.reject(format!("{field}: {}", error.inner()))
}
