//! The object after the last patch, as far as it was read.

use bytes::Bytes;
use kopf_object::Body;

use super::PatchError;

/// An object after the last patch. Usually, there is nothing left to do for it, and the most of it is never parsed.
#[derive(Debug)]
pub(crate) struct Latest {
    /// The whole object, or what matters of it after a patch.
    pub(super) seen: Body,
    /// The text of the object, if only a part of it was looked at.
    pub(super) unread: Option<Bytes>,
}

impl Latest {
    pub(crate) fn read(body: Body) -> Self {
        Self { seen: body, unread: None }
    }

    pub(crate) fn resource_version(&self) -> Option<&str> {
        self.seen.resource_version()
    }

    /// Under deletion with nothing that holds it: it will be gone in an instant.
    pub(crate) fn is_released(&self) -> bool {
        self.seen.deletion_timestamp().is_some() && self.seen.finalizers().next().is_none()
    }

    /// The JSON text.
    pub(crate) fn raw(&self) -> &[u8] {
        self.unread.as_deref().unwrap_or_else(|| self.seen.raw())
    }

    /// The whole of it.
    pub(crate) fn into_body(self) -> Result<Body, PatchError> {
        match self.unread {
            Some(text) => Ok(Body::parse(text.as_ref())?),
            None => Ok(self.seen),
        }
    }
}
