//! The attempts of the handler so far, also before the operator was restarted.

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

use super::{FromCall, Logger};
use crate::call::AnyCall;
use crate::error::Result;

/// The number of earlier attempts: zero in the first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retry(pub u32);

/// The time of the first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started(pub Timestamp);

/// The time since the first attempt.
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

/// The logger of the handler.
impl<S: Sync, C: AnyCall> FromCall<S, C> for Logger {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.logger())
    }
}

of_invocation! {
    Retry(u32) by retry;
    Started(Timestamp) by started;
    Runtime(Duration) by runtime;
}
