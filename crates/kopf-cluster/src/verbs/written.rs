//! What came of a write: the object as it is in the store now, or as it would be.
//!
//! What was stored is answered by its text; it is only decoded for those who look into it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::builtin::{convert, rules};
use crate::catalog::ResourceType;
use crate::publish::render::{Renderer, decode};
use crate::request::Response;
use crate::store::Stored;

/// An object after it was written.
pub(crate) enum Written {
    /// It is in the store.
    Stored(Arc<Stored>),
    /// It is not in the store, or is there in another version than the one that was asked for.
    Shown(Value),
}

impl Written {
    /// An object that is in the store now; `shown` is the same in the version of the request, if that is another one.
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

    /// The answer to the request that has written it.
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
