//! The key of an object within its resource.

use std::cmp::Ordering;
use std::sync::Arc;

/// The namespace and the name of an object. The order is that of the keys `namespace/name` in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectKey {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        // The slash after the namespace counts, too: "a-b/x" comes before "a/x".
        let key = |object_key: &'_ Self| object_key.namespace.bytes().chain([b'/']).collect::<Vec<u8>>();
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
