//! What a cluster is, shared by all its requests: the store, the catalog, the clock.
//!
//! Locks are held for single reads and writes only, never over a decision or an await; who
//! decides on an object writes it with the version it has seen, and tries again if it lost a race.

mod service_allocations;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use jiff::Timestamp;
use serde_json::Value;

use crate::catalog::{CRDS, Catalog, ResourceType, Webhooks, resource_types};
use crate::store::persistence::Journal;
use crate::store::{Event, ObjectKey, Store, StoreError, Stored, Write};
use crate::support::clock::{Clock, Randomness};
use crate::support::options::Options;
use crate::testing::{Counts, FaultRegistry};

pub use service_allocations::ServiceAllocations;

/// Under which name CRDs are stored.
const CRDS_STORAGE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The heart of a cluster.
#[derive(Debug)]
pub struct State {
    store: Mutex<Store>,
    /// Where changes are written before they are made. Locked after the store.
    persistence: Mutex<Persistence>,
    /// The current resources; replaced as a whole when a CRD changes.
    catalog: RwLock<Arc<Catalog>>,
    /// The current admission webhooks; replaced as a whole when a configuration changes.
    webhooks: RwLock<Arc<Webhooks>>,
    clock: Clock,
    randomness: Mutex<Randomness>,
    /// What goes wrong on demand.
    pub faults: Arc<FaultRegistry>,
    /// What was asked for.
    pub counts: Counts,
    /// The addresses and ports of services.
    pub service_allocations: ServiceAllocations,
    pub options: Options,
    /// Whether somebody acts on the changes of workloads.
    pub workloads_run: AtomicBool,
    /// The certificate of the authority, as it is shown to pods.
    pub certificate_authority: String,
    /// What happens after a write.
    after_write: &'static dyn AfterWrite,
}

/// What the controllers of a real cluster do after a write, some milliseconds later; here it happens before the
/// request is answered. The verbs call it, and it calls the verbs in turn.
pub trait AfterWrite: std::fmt::Debug + Sync {
    /// An object was created.
    fn created(&self, state: &Arc<State>, resource: &Arc<ResourceType>, stored: &Stored);
    /// An object was changed.
    fn updated(&self, state: &Arc<State>, resource: &Arc<ResourceType>, event: &Event);
    /// An object was marked as deleted.
    fn marked(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value);
    /// An object is gone.
    fn removed(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value);
}

/// Whether a cluster is kept over restarts.
#[derive(Debug)]
enum Persistence {
    /// It is only in memory.
    InMemory,
    /// It is kept in a data directory.
    Directory(Box<Journal>),
    /// It was kept, and is closed: nothing can be changed any more.
    Closed,
}

impl State {
    /// A state that goes on with what was kept, and keeps what changes.
    pub fn new(
        options: Options,
        certificate_authority: String,
        store: Store,
        journal: Option<Journal>,
        after_write: &'static dyn AfterWrite,
    ) -> Self {
        // What was made before must not be made again with the same seed: uids are unique.
        let seed = options.seed.map(|seed| seed.wrapping_add(store.version() - 1));
        let crds = all(&store, CRDS_STORAGE);
        let webhooks = webhooks(&store);
        Self {
            store: Mutex::new(store),
            persistence: Mutex::new(
                journal.map_or(Persistence::InMemory, |journal| Persistence::Directory(Box::new(journal))),
            ),
            catalog: RwLock::new(Arc::new(Catalog::with_custom(crds.iter().flat_map(resource_types)))),
            webhooks: RwLock::new(Arc::new(webhooks)),
            clock: Clock::new(),
            randomness: Mutex::new(Randomness::new(seed)),
            faults: Arc::default(),
            counts: Counts::default(),
            service_allocations: ServiceAllocations::default(),
            options,
            workloads_run: AtomicBool::new(false),
            certificate_authority,
            after_write,
        }
    }

    /// Brings everything to the disk, and lets others use the data directory.
    pub fn close(&self) {
        let mut persistence = self.persistence.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*persistence, Persistence::Directory(_)) {
            *persistence = Persistence::Closed;
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

    pub fn webhooks(&self) -> Arc<Webhooks> {
        Arc::clone(&self.webhooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn after_write(&self) -> &'static dyn AfterWrite {
        self.after_write
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

    pub fn get(&self, resource: &ResourceType, object_key: &ObjectKey) -> Option<Arc<Stored>> {
        self.store().get(&resource.storage, object_key)
    }

    /// A resource that is always there.
    pub fn built_in(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceType>> {
        self.catalog().get(group, version, plural).cloned()
    }

    /// Makes a change; what is derived from objects, such as the catalog, follows before anybody sees it.
    pub fn apply(&self, resource: &ResourceType, write: Write) -> Result<Arc<Event>, StoreError> {
        // The text is made before the lock is taken: others can write in the meantime.
        let write = write.drafted();
        let mut store = self.store();
        let event = store.prepare(&resource.storage, write)?;
        let event = match &mut *self.persistence.lock().unwrap_or_else(PoisonError::into_inner) {
            Persistence::InMemory => store.commit(&resource.storage, event),
            Persistence::Closed => return Err(StoreError::Unwritten("the cluster is closed".into())),
            Persistence::Directory(journal) => {
                let written = journal.append(&resource.storage, &event);
                written.map_err(|error| StoreError::Unwritten(error.to_string()))?;
                let event = store.commit(&resource.storage, event);
                if journal.is_long() {
                    journal.rotate(store.snapshot());
                }
                event
            }
        };
        if resource.is(CRDS.0, CRDS.1) {
            let crds = all(&store, &resource.storage);
            let catalog = Catalog::with_custom(crds.iter().flat_map(resource_types));
            *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
        }
        if Webhooks::are_configured_by(resource) {
            *self.webhooks.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(webhooks(&store));
        }
        Ok(event)
    }
}

fn webhooks(store: &Store) -> Webhooks {
    let configured = |kind: &str| all(store, &format!("{kind}webhookconfigurations.admissionregistration.k8s.io"));
    Webhooks::parse(&configured("mutating"), &configured("validating"))
}

fn all(store: &Store, storage: &str) -> Vec<Value> {
    store.list(storage, None, None).iter().map(|stored| stored.decode()).collect()
}
