//! What happened to the object: the reason, the states before and after, the difference, the type of the event.

use std::ops::Deref;

use kopf_object::Diff;
use kopf_reaction::{EventType, Reason};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{FromCall, read};
use crate::call::{ChangeCall, ComparingCall, EventCall};
use crate::error::Result;

/// The object as it was handled last, or before the change under review; for handlers with a field, that field.
///
/// Use `Old<Option<T>>` where there may be no old value (creation, new fields).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Old<T>(pub T);

/// The essence of the object now, or the object after the change under review; for handlers with a field, that field.
///
/// Use `New<Option<T>>` where there may be no new value (removed fields, deletion).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New<T>(pub T);

impl<T> Deref for Old<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for New<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<S: Sync, C: ComparingCall, T: DeserializeOwned> FromCall<S, C> for Old<T> {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        read(call, "old", call.old_value().unwrap_or(&Value::Null)).map(Self)
    }
}

impl<S: Sync, C: ComparingCall, T: DeserializeOwned> FromCall<S, C> for New<T> {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        read(call, "new", call.new_value().unwrap_or(&Value::Null)).map(Self)
    }
}

/// The changes from old to new.
impl<S: Sync, C: ComparingCall> FromCall<S, C> for Diff {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.diff().clone())
    }
}

/// Why the handler is called.
impl<S: Sync> FromCall<S, ChangeCall> for Reason {
    async fn from_call(call: &ChangeCall, _: &S) -> Result<Self> {
        Ok(call.reason())
    }
}

/// How the object came.
impl<S: Sync> FromCall<S, EventCall> for EventType {
    async fn from_call(call: &EventCall, _: &S) -> Result<Self> {
        Ok(call.event_type())
    }
}
