//! How the background has an object looked at again. The queue implements it.

use crate::support::ObjectKey;

/// Brings an object to its next pass although no event has come.
pub(crate) trait Requeue: Send + Sync {
    fn requeue(&self, object: &ObjectKey);
}
