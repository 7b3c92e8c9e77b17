//! Which functions can be handlers: async functions of up to twelve extractors, with any JSON result.
//!
//! `Operator::on`, `Operator::index` and `Children::on` demand the parts one by one: [`Handler`] for the shape of the
//! function, [`Parameters`] for its extractors, [`IntoOutcome`] or [`IntoEntries`] for its result. So the compiler
//! names the parameter or the result that is wrong, without the help of a macro.

mod entries;

use std::any::{TypeId, type_name};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::call::AnyCall;
use crate::call::from_call::FromCall;
use crate::call::registry::Function;
use crate::error::{Error, Result};
use crate::index::Requirements;

pub use entries::IntoEntries;
pub(crate) use entries::erase_index;

/// A function of the user. Implemented for all async functions and closures of up to twelve parameters.
///
/// `P` is the tuple of the parameters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async function of up to 12 parameters",
    label = "this must be an async function, or a closure that returns a future",
    note = "a handler is a function such as `async fn create(spec: Spec<MySpec>, patch: Patch) -> kopf::Result<()>`"
)]
pub trait Handler<P>: Clone + Send + Sync + 'static {
    /// What the function returns in the end.
    type Output;

    /// What the function returns at once.
    type Future: Future<Output = Self::Output>;

    /// Calls the function.
    fn call(self, parameters: P) -> Self::Future;
}

/// The parameters of a handler. Implemented for tuples of extractors.
///
/// `S` is the state of the operator, `C` the call that the handler gets.
pub trait Parameters<S, C>: Sized + Send + 'static {
    /// Takes all parameters from the call. The first error ends the call.
    fn extract(call: &C, state: &S) -> impl Future<Output = Result<Self>> + Send;

    /// Adds what the parameters need from the operator.
    fn require(requirements: &mut Requirements);
}

/// What handlers may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "this function returns `{Self}`",
    note = "handlers return `()`, or a `kopf::Result<T>` where `T` implements `serde::Serialize`"
)]
pub trait IntoOutcome {
    /// The result as JSON; None if there is none.
    fn into_outcome(self) -> Result<Option<Value>>;
}

macro_rules! functions_of {
    ($($parameter:ident)*) => {
        impl<F, Fut, $($parameter,)*> Handler<($($parameter,)*)> for F
        where
            F: FnOnce($($parameter),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future,
        {
            type Output = Fut::Output;
            type Future = Fut;

            #[allow(non_snake_case, reason = "the parameters are named as their types")]
            fn call(self, ($($parameter,)*): ($($parameter,)*)) -> Fut {
                self($($parameter),*)
            }
        }

        impl<S, C, $($parameter,)*> Parameters<S, C> for ($($parameter,)*)
        where
            S: Sync,
            C: Sync,
            $($parameter: FromCall<S, C> + Send + 'static,)*
        {
            #[allow(unused_variables, clippy::unused_unit, reason = "functions without parameters need no call")]
            async fn extract(call: &C, state: &S) -> Result<Self> {
                Ok(($($parameter::from_call(call, state).await?,)*))
            }

            #[allow(unused_variables, reason = "functions without parameters require nothing")]
            fn require(requirements: &mut Requirements) {
                $($parameter::require(requirements);)*
            }
        }
    };
}

macro_rules! functions_up_to {
    ($($parameter:ident)*) => { functions_up_to!(@ [] $($parameter)*); };
    (@ [$($taken:ident)*]) => { functions_of!($($taken)*); };
    (@ [$($taken:ident)*] $next:ident $($rest:ident)*) => {
        functions_of!($($taken)*);
        functions_up_to!(@ [$($taken)* $next] $($rest)*);
    };
}

functions_up_to!(T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12);

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Option<Value>> {
        Ok(None)
    }
}

impl<T: Serialize, E: Into<Error>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<Option<Value>> {
        let result = self.map_err(Into::into)?;
        let result = serde_json::to_value(result)
            .map_err(|error| Error::permanent(format!("the result of the handler is not JSON: {error}")))?;
        Ok(Some(result).filter(|result| !result.is_null()))
    }
}

/// Removes the types of a handler.
pub(crate) fn erase<P, S, C, H>(handler: H) -> Function<C>
where
    S: Send + Sync + 'static,
    C: AnyCall,
    P: Parameters<S, C>,
    H: Handler<P, Future: Send, Output: IntoOutcome>,
{
    Arc::new(move |call: Arc<C>| {
        let handler = handler.clone();
        Box::pin(async move {
            let parameters = {
                let state = call.invocation().state::<S>()?;
                P::extract(&call, &state).await?
            };
            // The function may run for long, and has what it needs.
            drop(call);
            handler.call(parameters).await.into_outcome()
        })
    })
}

/// The name of a function, which is its default id; None for closures and function pointers.
pub(crate) fn function_name<H: 'static>() -> Option<&'static str> {
    let full = type_name::<H>();
    let plain = full.split('<').next().filter(|plain| !plain.is_empty()).unwrap_or(full);
    let name = plain.rsplit("::").next()?;
    let is_identifier = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    is_identifier.then_some(name)
}

/// The identity of a function: the same function with the same id counts once.
pub(crate) fn function_identity<H: 'static>() -> u64 {
    let mut hasher = DefaultHasher::new();
    TypeId::of::<H>().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn create() {}
    async fn generic<T>() {
        let _ = std::marker::PhantomData::<T>;
    }

    fn name<H: Handler<P>, P>(_: H) -> Option<&'static str> {
        function_name::<H>()
    }

    #[test]
    fn functions_have_names_and_closures_have_none() {
        async fn inner() {}
        assert_eq!(name(create), Some("create"));
        assert_eq!(name(inner), Some("inner"));
        assert_eq!(name(generic::<std::collections::HashMap<String, u32>>), Some("generic"));
        assert_eq!(name(|| async {}), None);
    }

    #[test]
    fn each_function_has_its_identity() {
        fn identity<H: 'static>(_: &H) -> u64 {
            function_identity::<H>()
        }
        async fn other() {}
        assert_eq!(identity(&create), identity(&create));
        assert_ne!(identity(&create), identity(&other));
        assert_ne!(identity(&generic::<u8>), identity(&generic::<u16>));
    }

    #[test]
    fn results_become_json() {
        let check = |outcome: Result<Option<Value>>, expected: Option<Value>| assert_eq!(outcome.unwrap(), expected);
        check(().into_outcome(), None);
        check(Ok::<_, Error>(()).into_outcome(), None);
        check(Ok::<_, Error>(None::<u32>).into_outcome(), None);
        check(Ok::<_, std::fmt::Error>("text").into_outcome(), Some("text".into()));
        let refused = Ok::<_, Error>(std::collections::HashMap::from([(vec![1], 2)])).into_outcome().unwrap_err();
        assert!(refused.is_permanent(), "{refused}");
        assert!(!Err::<(), _>("boo").into_outcome().unwrap_err().is_permanent());
    }
}
