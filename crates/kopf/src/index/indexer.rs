//! Which functions can fill an index: async ones of extractors, as handlers are, that return keys with values.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::Index;
use crate::call::AnyCall;
use crate::extract::FromCall;
use crate::handler::Function;
use crate::{Call, Error, Result};

/// A function that fills an index. Implemented for async functions and closures whose parameters are extractors.
///
/// `P` are the parameters, `S` is the state of the operator.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot fill an index",
    note = "such a function is an async function of up to 8 extractors which returns a `kopf::Result` of a key with its value: `(K, V)`, `Option<(K, V)>`, `Vec<(K, V)>`, `HashMap<K, V>` or `BTreeMap<K, V>`"
)]
pub trait Indexer<P, S>: Clone + Send + Sync + 'static {
    /// The type of the keys.
    type Key: Eq + Hash + Send + Sync + 'static;
    /// The type of the values.
    type Value: Send + Sync + 'static;

    /// Extracts the parameters and calls the function.
    #[doc(hidden)]
    fn call(self, call: Arc<Call>, state: Arc<S>) -> Entries<Self::Key, Self::Value>;
}

/// What comes of a call: the keys and values of one object.
pub type Entries<K, V> = BoxFuture<'static, Result<Vec<(K, V)>>>;

/// What functions that fill an index may return.
pub trait IntoEntries {
    /// The type of the keys.
    type Key;
    /// The type of the values.
    type Value;

    /// What the object has in the index; nothing means that it is not there.
    fn into_entries(self) -> Vec<(Self::Key, Self::Value)>;
}

impl<K, V> IntoEntries for (K, V) {
    type Key = K;
    type Value = V;

    fn into_entries(self) -> Vec<(K, V)> {
        vec![self]
    }
}

macro_rules! entries_of {
    ($($collection:ty),*) => {$(
        impl<K, V> IntoEntries for $collection {
            type Key = K;
            type Value = V;

            fn into_entries(self) -> Vec<(K, V)> {
                self.into_iter().collect()
            }
        }
    )*};
}

entries_of!(Option<(K, V)>, Vec<(K, V)>, HashMap<K, V>, BTreeMap<K, V>);

macro_rules! indexers_of {
    ($($extractor:ident)*) => {
        impl<F, Fut, R, E, S, $($extractor,)*> Indexer<($($extractor,)*), S> for F
        where
            F: FnOnce($($extractor),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Result<R, E>> + Send,
            R: IntoEntries,
            R::Key: Eq + Hash + Send + Sync + 'static,
            R::Value: Send + Sync + 'static,
            E: Into<Error>,
            S: Send + Sync + 'static,
            $($extractor: FromCall<S> + Send,)*
        {
            type Key = R::Key;
            type Value = R::Value;

            #[allow(non_snake_case, unused_variables)]
            fn call(self, call: Arc<Call>, state: Arc<S>) -> Entries<R::Key, R::Value> {
                Box::pin(async move {
                    $(let $extractor = $extractor::from_call(&call, &state).await?;)*
                    drop((call, state));
                    Ok(self($($extractor),*).await.map_err(Into::into)?.into_entries())
                })
            }
        }
    };
}

indexers_of!();
indexers_of!(T1);
indexers_of!(T1 T2);
indexers_of!(T1 T2 T3);
indexers_of!(T1 T2 T3 T4);
indexers_of!(T1 T2 T3 T4 T5);
indexers_of!(T1 T2 T3 T4 T5 T6);
indexers_of!(T1 T2 T3 T4 T5 T6 T7);
indexers_of!(T1 T2 T3 T4 T5 T6 T7 T8);

/// Forgets the types of the function: what it returns goes to the index.
pub(crate) fn erase<P, S, I>(indexer: I, index: Index<I::Key, I::Value>) -> Function<Call>
where
    S: Send + Sync + 'static,
    I: Indexer<P, S>,
{
    Arc::new(move |call: Arc<Call>| {
        let (indexer, index) = (indexer.clone(), index.clone());
        Box::pin(async move {
            let state = call.invocation().state::<S>()?;
            let source = super::source(call.invocation().id(), call.context().uid());
            index.replace(&source, indexer.call(call, state).await?);
            Ok(None)
        })
    })
}
