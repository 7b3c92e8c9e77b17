//! What index functions may return: keys with values.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::{Handler, Parameters};
use crate::call::registry::Function;
use crate::call::{AnyCall, IndexCall, ObjectCall};
use crate::error::{Error, Result};
use crate::index::{self, Index};

/// What index functions may return: the keys of the object, each with a value.
#[diagnostic::on_unimplemented(
    message = "an index function cannot return `{Self}`",
    label = "this function returns `{Self}`",
    note = "index functions return `(K, V)`, `Option<(K, V)>`, `Vec<(K, V)>`, `HashMap<K, V>`, `BTreeMap<K, V>`, or a `kopf::Result` of these"
)]
pub trait IntoEntries {
    /// The type of the keys.
    type Key: Eq + Hash + Send + Sync + 'static;
    /// The type of the values.
    type Value: Send + Sync + 'static;

    /// The entries of the object; none of them means that the index does not have the object.
    fn into_entries(self) -> Result<Vec<(Self::Key, Self::Value)>>;
}

macro_rules! collections {
    ($($collection:ty),*) => {$(
        impl<K: Eq + Hash + Send + Sync + 'static, V: Send + Sync + 'static> IntoEntries for $collection {
            type Key = K;
            type Value = V;

            fn into_entries(self) -> Result<Vec<(K, V)>> {
                Ok(self.into_iter().collect())
            }
        }
    )*};
}

collections!(Option<(K, V)>, Vec<(K, V)>, HashMap<K, V>, BTreeMap<K, V>);

impl<K: Eq + Hash + Send + Sync + 'static, V: Send + Sync + 'static> IntoEntries for (K, V) {
    type Key = K;
    type Value = V;

    fn into_entries(self) -> Result<Vec<(K, V)>> {
        Ok(vec![self])
    }
}

impl<T: IntoEntries, E: Into<Error>> IntoEntries for Result<T, E> {
    type Key = T::Key;
    type Value = T::Value;

    fn into_entries(self) -> Result<Vec<(T::Key, T::Value)>> {
        self.map_err(Into::into)?.into_entries()
    }
}

/// Removes the types of an index function: what it returns goes to the index.
pub(crate) fn erase_index<P, S, H, R>(function: H, index: Index<R::Key, R::Value>) -> Function<IndexCall>
where
    S: Send + Sync + 'static,
    P: Parameters<S, IndexCall>,
    H: Handler<P, Output = R, Future: Send>,
    R: IntoEntries,
{
    Arc::new(move |call: Arc<IndexCall>| {
        let (function, index) = (function.clone(), index.clone());
        Box::pin(async move {
            let source = index::source(call.invocation().id(), &call.context().uid());
            let parameters = {
                let state = call.invocation().state::<S>()?;
                P::extract(&call, &state).await?
            };
            drop(call);
            index.replace(&source, function.call(parameters).await.into_entries()?);
            Ok(None)
        })
    })
}
