//! The object, as a whole or by its stanzas, and what belongs to it: the patch and the memo.

use std::ops::{Deref, DerefMut};

use kopf_object::Body;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Context, FromCall, Memo, Patch, misfit, read};
use crate::call::ObjectCall;
use crate::error::Result;

/// The spec of the object. An absent spec is an empty one.
///
/// A spec that does not fit the type is a permanent error of the handler, which names the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec<T>(pub T);

/// The status of the object; to change it, use [`Patch::status`].
/// An absent status is an empty one, or `None` in `Status<Option<T>>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status<T>(pub T);

/// The whole object, as one of kube's types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<K>(pub K);

macro_rules! transparent {
    ($($name:ident)*) => {$(
        impl<T> Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }
    )*};
}

transparent!(Spec Status Object);

impl<S: Sync, C: ObjectCall, T: DeserializeOwned> FromCall<S, C> for Spec<T> {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        stanza(call, "spec").map(Self)
    }
}

impl<S: Sync, C: ObjectCall, T: DeserializeOwned> FromCall<S, C> for Status<T> {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        stanza(call, "status").map(Self)
    }
}

impl<S: Sync, C: ObjectCall, K: DeserializeOwned> FromCall<S, C> for Object<K> {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        read(call, "", call.context().body().value()).map(Self)
    }
}

/// The whole object, untyped.
impl<S: Sync, C: ObjectCall> FromCall<S, C> for Body {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.context().body().clone())
    }
}

/// The object and what happened to it.
impl<S: Sync, C: ObjectCall> FromCall<S, C> for Context {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.context().clone())
    }
}

impl<S: Sync, C: ObjectCall> FromCall<S, C> for Patch {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.context().patch())
    }
}

impl<S: Sync, C: ObjectCall> FromCall<S, C> for Memo {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.context().memo())
    }
}

fn stanza<T: DeserializeOwned>(call: &impl ObjectCall, name: &str) -> Result<T> {
    if let Some(value) = call.context().body().without_managed_fields().get(name).filter(|value| !value.is_null()) {
        return read(call, name, value);
    }
    // Types that cannot be empty may still be optional.
    serde_path_to_error::deserialize(&Value::Object(Map::new()))
        .or_else(|error| T::deserialize(&Value::Null).map_err(|_| misfit(call, name, &error)))
}
