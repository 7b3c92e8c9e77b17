//! The trait of all extractors, which are the parameters of handlers.

use std::future::Future;

use crate::error::Result;
use crate::index::Requirements;

/// A type that can be a parameter of handlers.
///
/// `S` is the state of the operator, `C` the call that the handler gets: each trigger has its type of calls, see
/// [`call`](crate::call). An extractor for all handlers of objects:
///
/// ```
/// use kopf::call::ObjectCall;
/// use kopf::extract::FromCall;
/// use kopf::{Operator, on};
///
/// struct Team(String);
///
/// impl<S: Sync, C: ObjectCall> FromCall<S, C> for Team {
///     async fn from_call(call: &C, _: &S) -> kopf::Result<Self> {
///         let team = call.context().label("example.com/team");
///         Ok(Self(team.ok_or_else(|| call.reject("it has no team"))?.to_owned()))
///     }
/// }
///
/// async fn create(team: Team) -> kopf::Result<()> {
///     println!("{} has a new object", team.0);
///     Ok(())
/// }
/// # let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler that is called with `{C}`",
    label = "this function has a parameter of type `{Self}`",
    note = "for create, update, delete, resume and field handlers, and sub-handlers: `Old`, `New`, `Diff`, `Reason`, `Children`",
    note = "for event handlers: `EventType`; for daemons and timers: `Stopped`, `Latest`",
    note = "for validating and mutating handlers: `Review`, `Warnings`, `Old`, `New`, `Diff`; for converting handlers: `Conversion`",
    note = "for all handlers of objects: `Spec`, `Status`, `Meta`, `Object`, `Body`, `Context`, `Patch`, `Memo`, `Events`",
    note = "for all handlers, also startup, cleanup, login and probe: `Client`, `State`, `Logger`, `Index`, `Retry`, `Started`, `Runtime`",
    note = "`State<T>` needs an operator `.with_state(…)` of `T` or of a type with the part `T` (`FromRef`); `Children<S>` needs the state `S` of the operator"
)]
pub trait FromCall<S, C>: Sized {
    /// Takes the value from the call. An error ends the call before the function is called.
    fn from_call(call: &C, state: &S) -> impl Future<Output = Result<Self>> + Send;

    /// Adds what the extractor needs from the operator, so that the operator does not start without it.
    fn require(requirements: &mut Requirements) {
        let _ = requirements;
    }
}

/// The handler decides what to do when its parameter cannot be extracted.
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
