//! What a cluster is, shared by all its requests: the store, the catalog, the clock.
//!
//! Locks are held for single reads and writes only, never over a decision or an await; who
//! decides on an object writes it with the version it has seen, and tries again if it lost a race.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use jiff::Timestamp;
use serde_json::Value;

use crate::Options;
use crate::catalog::{Catalog, ResourceType};
use crate::clock::{Clock, Randomness};
use crate::crd;
use crate::store::{Event, Place, Store, StoreError, Stored, Write};

/// The group and the plural name of CRDs.
pub const CRDS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The heart of a cluster.
#[derive(Debug)]
pub struct State {
    store: Mutex<Store>,
    /// The current resources; replaced as a whole when a CRD changes.
    catalog: RwLock<Arc<Catalog>>,
    clock: Clock,
    randomness: Mutex<Randomness>,
    pub options: Options,
    /// The certificate of the authority, as it is shown to pods.
    pub certificate_authority: String,
}

impl State {
    pub fn new(options: Options, certificate_authority: String) -> Self {
        Self {
            store: Mutex::new(Store::new(options.history_limit)),
            catalog: RwLock::new(Arc::new(Catalog::built_in())),
            clock: Clock::new(),
            randomness: Mutex::new(Randomness::new(options.seed)),
            options,
            certificate_authority,
        }
    }

    /// The store, for one read or one write.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        // A panic in a handler leaves the store whole: every change is one call.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn randomness(&self) -> MutexGuard<'_, Randomness> {
        self.randomness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, resource: &ResourceType, place: &Place) -> Option<Arc<Stored>> {
        self.store().get(&resource.storage, place)
    }

    /// A resource that is always there.
    pub fn built_in(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceType>> {
        self.catalog().get(group, version, plural).cloned()
    }

    /// Makes a change; if a CRD was changed, the catalog follows before anybody sees it.
    pub fn apply(&self, resource: &ResourceType, write: Write) -> Result<Arc<Event>, StoreError> {
        let mut store = self.store();
        let event = store.apply(&resource.storage, write)?;
        if resource.is(CRDS.0, CRDS.1) {
            let crds: Vec<Value> =
                store.list(&resource.storage, None, None).iter().map(|stored| stored.decode()).collect();
            let catalog = Catalog::with_custom(crds.iter().flat_map(crd::resource_types));
            *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
        }
        Ok(event)
    }
}
