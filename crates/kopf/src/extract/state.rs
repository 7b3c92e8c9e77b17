//! The state of the application, shared by all handlers, as in axum.

use std::ops::{Deref, DerefMut};

use super::FromCall;
use crate::call::AnyCall;
use crate::error::Result;

/// The state from [`Operator::with_state`](crate::Operator::with_state), or a part of it.
///
/// Each call gets a clone: put what is expensive or mutable into an `Arc`.
///
/// ```
/// use kopf::extract::State;
/// use kopf::{Operator, on};
///
/// #[derive(Clone)]
/// struct App {
///     zone: &'static str,
/// }
///
/// async fn place(State(app): State<App>) -> kopf::Result<&'static str> {
///     Ok(app.zone)
/// }
///
/// let operator = Operator::new().on(on::create("kopfexamples"), place).with_state(App { zone: "a" });
/// # drop(operator);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// Takes a part of the state from the whole, for `State<Part>`.
pub trait FromRef<S> {
    /// The part.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for State<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<S: Sync, C: AnyCall, T: FromRef<S>> FromCall<S, C> for State<T> {
    async fn from_call(_: &C, state: &S) -> Result<Self> {
        Ok(Self(T::from_ref(state)))
    }
}
