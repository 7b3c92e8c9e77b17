//! The latest state of an object, as a daemon or a timer sees it while it is called.

use std::sync::{Arc, PoisonError, RwLock};

use kopf_object::Body;

/// The latest state of an object, for as long as its daemon or timer is called.
#[derive(Debug)]
pub struct LiveBody {
    latest: RwLock<(u64, Arc<[u8]>)>,
}

impl LiveBody {
    /// With the JSON text of the object.
    pub fn new(raw: Arc<[u8]>) -> Self {
        Self { latest: RwLock::new((0, raw)) }
    }

    pub(crate) fn replace(&self, raw: Arc<[u8]>) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        *latest = (latest.0 + 1, raw);
    }

    /// The JSON text and its number, if it is newer than the one with that number.
    pub fn newer_than(&self, seen: Option<u64>) -> Option<(u64, Arc<[u8]>)> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        (seen != Some(latest.0)).then(|| (latest.0, Arc::clone(&latest.1)))
    }

    /// The current object.
    pub fn body(&self) -> Result<Body, serde_json::Error> {
        let raw = Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner).1);
        Body::parse(raw)
    }
}
