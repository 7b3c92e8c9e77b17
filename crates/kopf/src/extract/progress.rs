//! How often and how long the handler has been tried, over restarts of the operator.

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

use super::FromCall;
use crate::Result;
use crate::call::AnyCall;

/// How often the handler was tried before: zero in its first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retry(pub u32);

/// When the handler was tried for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started(pub Timestamp);

/// How long ago the handler was tried for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Runtime(pub Duration);

macro_rules! of_invocation {
    ($($name:ident($inner:ty) by $field:ident;)*) => {$(
        impl Deref for $name {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.0
            }
        }

        impl<S: Sync, C: AnyCall> FromCall<S, C> for $name {
            async fn from_call(call: &C, _: &S) -> Result<Self> {
                Ok(Self(call.invocation().$field))
            }
        }
    )*};
}

of_invocation! {
    Retry(u32) by retry;
    Started(Timestamp) by started;
    Runtime(Duration) by runtime;
}
