//! Which functions can be handlers: async ones, of up to twelve extractors, with any JSON result.
//!
//! Operators and [`Children`](crate::Children) take them by this trait, and keep them erased.

use std::any::{TypeId, type_name};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::call::AnyCall;
use crate::extract::FromCall;
use crate::{Call, Error, Result};

/// A function of the user. Implemented for async functions and closures whose parameters are extractors.
///
/// `P` are the parameters, `S` is the state of the operator, `C` the kind of calls.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be this handler",
    note = "a handler is an async function of up to 12 extractors which returns `()` or a `kopf::Result` of something serializable",
    note = "startup, cleanup and login handlers have no object: they take `State`, `Client`, `Logger`, `Retry`, `Started`, `Runtime`"
)]
pub trait Handler<P, S, C = Call>: Clone + Send + Sync + 'static {
    /// Extracts the parameters and calls the function.
    fn call(self, call: Arc<C>, state: Arc<S>) -> BoxFuture<'static, Result<Option<Value>>>;
}

/// What handlers may return.
pub trait IntoOutcome {
    /// The result as JSON; None if there is none.
    fn into_outcome(self) -> Result<Option<Value>>;
}

/// A handler without its types: the state is found in the call.
pub(crate) type Function<C> = Arc<dyn Fn(Arc<C>) -> BoxFuture<'static, Result<Option<Value>>> + Send + Sync>;

macro_rules! handlers_of {
    ($($extractor:ident)*) => {
        impl<F, Fut, R, S, C, $($extractor,)*> Handler<($($extractor,)*), S, C> for F
        where
            F: FnOnce($($extractor),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = R> + Send,
            R: IntoOutcome,
            S: Send + Sync + 'static,
            C: AnyCall,
            $($extractor: FromCall<S, C> + Send,)*
        {
            #[allow(non_snake_case, unused_variables)]
            fn call(self, call: Arc<C>, state: Arc<S>) -> BoxFuture<'static, Result<Option<Value>>> {
                Box::pin(async move {
                    $(let $extractor = $extractor::from_call(&call, &state).await?;)*
                    // The handler may run for long, and has taken what it needs.
                    drop((call, state));
                    self($($extractor),*).await.into_outcome()
                })
            }
        }
    };
}

macro_rules! handlers_up_to {
    ($($extractor:ident)*) => { handlers_up_to!(@ [] $($extractor)*); };
    (@ [$($taken:ident)*]) => { handlers_of!($($taken)*); };
    (@ [$($taken:ident)*] $next:ident $($rest:ident)*) => {
        handlers_of!($($taken)*);
        handlers_up_to!(@ [$($taken)* $next] $($rest)*);
    };
}

handlers_up_to!(T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12);

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

/// Forgets the types of a handler.
pub(crate) fn erase<P, S, C, H>(handler: H) -> Function<C>
where
    S: Send + Sync + 'static,
    C: AnyCall,
    H: Handler<P, S, C>,
{
    Arc::new(move |call: Arc<C>| {
        let handler = handler.clone();
        match call.invocation().state::<S>() {
            Ok(state) => handler.call(call, state),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    })
}

/// The name of a function, which is its default id; None for closures and pointers, which have none.
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

    fn name<H: Handler<P, (), Call>, P>(_: H) -> Option<&'static str> {
        function_name::<H>()
    }

    #[test]
    fn names() {
        async fn inner() {}
        assert_eq!(name(create), Some("create"));
        assert_eq!(name(inner), Some("inner"));
        assert_eq!(name(generic::<std::collections::HashMap<String, u32>>), Some("generic"));
        assert_eq!(name(|| async {}), None);
    }

    #[test]
    fn identities() {
        fn identity<H: 'static>(_: &H) -> u64 {
            function_identity::<H>()
        }
        async fn other() {}
        assert_eq!(identity(&create), identity(&create));
        assert_ne!(identity(&create), identity(&other));
        assert_ne!(identity(&generic::<u8>), identity(&generic::<u16>));
    }

    #[test]
    fn results() {
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
