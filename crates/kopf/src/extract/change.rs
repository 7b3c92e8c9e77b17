//! What has happened to the object: the reason, the states before and after, the difference.

use std::ops::Deref;

use kopf_object::Diff;
use kopf_reaction::{EventType, Reason};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{FromCall, read};
use crate::{Call, Result};

/// The object as it was handled last; for handlers with a field, that field.
///
/// It is null where there was nothing: use `Old<Option<T>>` if that may happen (creation, new fields).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Old<T>(pub T);

/// The object as it is now, without what does not matter for changes; for handlers with a field,
/// that field.
///
/// It is null where there is nothing: use `New<Option<T>>` if that may happen (removed fields).
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

impl<S: Sync, T: DeserializeOwned> FromCall<S> for Old<T> {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        read(call, "old", call.old().unwrap_or(&Value::Null)).map(Self)
    }
}

impl<S: Sync, T: DeserializeOwned> FromCall<S> for New<T> {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        read(call, "new", call.new_value().unwrap_or(&Value::Null)).map(Self)
    }
}

/// The changes from old to new; empty for event handlers.
impl<S: Sync> FromCall<S> for Diff {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        Ok(call.diff().cloned().unwrap_or_default())
    }
}

impl<S: Sync> FromCall<S> for Reason {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        call.context().reason().ok_or_else(|| call.reject("it is not known what has happened"))
    }
}

/// How the object has come, in event handlers; elsewhere, use `Option<EventType>`.
impl<S: Sync> FromCall<S> for EventType {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        call.context().event_type().ok_or_else(|| call.reject("it has not come by an event"))
    }
}

impl<S: Sync> FromCall<S> for Option<EventType> {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        Ok(call.context().event_type())
    }
}
