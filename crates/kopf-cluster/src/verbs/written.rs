//! The result of a write: the stored object, or the one that a dry run would have stored.
//!
//! Responses contain the stored text unchanged; it is decoded only for callers that need its fields.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::builtin::{convert, rules};
use crate::catalog::ResourceType;
use crate::publish::render::{Renderer, decode};
use crate::request::Response;
use crate::store::Stored;

/// An object after it was written.
pub(crate) enum Written {
    /// The object is in the store.
    Stored(Arc<Stored>),
    /// The object is not in the store, or it is stored in another version than that of the request.
    Shown(Value),
}

impl Written {
    /// A stored object; `shown` is the same in the version of the request, if that is another one.
    pub(crate) fn new(stored: &Arc<Stored>, shown: Option<Value>) -> Self {
        match shown {
            Some(mut shown) => {
                shown["metadata"]["resourceVersion"] = json!(stored.version.to_string());
                Self::Shown(shown)
            }
            None => Self::Stored(Arc::clone(stored)),
        }
    }

    /// The object as data.
    pub(crate) fn into_value(self, resource: &ResourceType) -> Value {
        match self {
            Self::Stored(stored) => decode(resource, &stored),
            Self::Shown(value) => value,
        }
    }

    /// The response to the request that has written the object.
    pub(crate) fn answer(self, code: u16, renderer: &Renderer<'_>, mut warnings: Vec<String>) -> Response {
        let resource = renderer.resource;
        let is_as_stored = !convert::is_needed(resource) && resource.conversion().is_none();
        let body = match self {
            Self::Stored(stored) if is_as_stored => {
                if rules::has_warnings(resource) {
                    warnings.extend(rules::warnings(resource, &decode(resource, &stored)));
                }
                renderer.object(&stored)
            }
            other => {
                let value = other.into_value(resource);
                warnings.extend(rules::warnings(resource, &value));
                renderer.value(value)
            }
        };
        Response::bytes(code, body.into()).with_warnings(warnings)
    }
}
