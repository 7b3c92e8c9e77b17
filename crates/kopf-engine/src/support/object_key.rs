//! How the parts of one operator refer to a served resource, and to one of its objects.

use std::sync::Arc;

/// One served resource. The queue numbers them; a number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResourceKey(u64);

impl ResourceKey {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// One object of a served resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    pub resource: ResourceKey,
    pub uid: Arc<str>,
}
