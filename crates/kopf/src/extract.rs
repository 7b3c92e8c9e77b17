//! The parameters of handlers: each type says how it is taken from a call.
//!
//! One file per family of extractors; [`Patch`](crate::Patch), [`Memo`](crate::Memo),
//! [`Logger`](crate::Logger) and [`Children`](crate::Children) have files of their own beside.

mod stanza;
mod meta;
mod change;
mod progress;
mod state;
mod background;

use std::future::Future;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Call, Error, Result};

pub use background::{Latest, Stopped};
pub use change::{New, Old};
pub use meta::Meta;
pub use progress::{Retry, Runtime, Started};
pub use stanza::{Object, Spec, Status};
pub use state::{FromRef, State};

/// A type that can be a parameter of handlers.
///
/// `S` is the state of the operator, `C` what kind of calls it works in. An own extractor:
///
/// ```
/// use kopf::{Call, FromCall};
///
/// struct Team(String);
///
/// impl<S: Sync> FromCall<S> for Team {
///     async fn from_call(call: &Call, _: &S) -> kopf::Result<Self> {
///         let team = call.context().label("example.com/team");
///         Ok(Self(team.ok_or_else(|| call.reject("it has no team"))?.to_owned()))
///     }
/// }
///
/// async fn create(team: Team) -> kopf::Result<()> {
///     println!("{} has a new object", team.0);
///     Ok(())
/// }
/// # let _: kopf::Operator = kopf::Operator::new().on(kopf::create("kopfexamples"), create);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of this handler",
    note = "parameters are extractors, such as `Spec<T>`, `Meta`, `Patch`, `Logger`; startup, cleanup and login handlers have no object",
    note = "`State<T>` needs an operator `.with_state(T)`; `Children<S>` needs the same `S` as the operator"
)]
pub trait FromCall<S, C = Call>: Sized {
    /// Takes the value from the call. An error ends the call before the handler is called.
    fn from_call(call: &C, state: &S) -> impl Future<Output = Result<Self>> + Send;
}

/// The handler gets to see why its parameter could not be extracted.
impl<S, C, T> FromCall<S, C> for Result<T>
where
    S: Sync,
    C: Sync,
    T: FromCall<S, C> + Send,
{
    async fn from_call(call: &C, state: &S) -> Result<Self> {
        Ok(T::from_call(call, state).await)
    }
}

/// Reads a typed value; an error names the object, the field and the handler.
fn read<T: DeserializeOwned>(call: &Call, place: &str, value: &Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| misfit(call, place, &error))
}

fn misfit(call: &Call, place: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
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
