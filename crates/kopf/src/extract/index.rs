//! Indexes as parameters of handlers.

use std::any::type_name;
use std::hash::Hash;

use super::{FromCall, Index, Requirements};
use crate::call::AnyCall;
use crate::error::{Error, Result};

impl<S, C, K, V> FromCall<S, C> for Index<K, V>
where
    S: Sync,
    C: AnyCall,
    K: Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        let index = call.invocation().operator.indexes.get();
        index.ok_or_else(|| Error::permanent(format!("the operator has no {}", type_name::<Self>())))
    }

    fn require(requirements: &mut Requirements) {
        requirements.index::<K, V>();
    }
}
