//! The state of a cluster, shared by all requests: the store, the catalog, the clock.
//!
//! Locks are held for single reads and writes, never during a decision or an await. A verb writes an object
//! with the version that it has read, and retries if it lost a race.

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

pub(crate) use service_allocations::ServiceAllocations;

/// The storage name of CRDs.
const CRDS_STORAGE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The shared state of a cluster.
#[derive(Debug)]
pub(crate) struct State {
    store: Mutex<Store>,
    /// Where writes are persisted before they are committed. Locked after the store.
    persistence: Mutex<Persistence>,
    /// The current resources; replaced as a whole when a CRD changes.
    catalog: RwLock<Arc<Catalog>>,
    /// The current admission webhooks; replaced as a whole when a configuration changes.
    webhooks: RwLock<Arc<Webhooks>>,
    clock: Clock,
    randomness: Mutex<Randomness>,
    /// The injected faults.
    pub faults: Arc<FaultRegistry>,
    /// The request counts.
    pub counts: Counts,
    /// The addresses and ports of services.
    pub service_allocations: ServiceAllocations,
    pub options: Options,
    /// Whether the driver of the workload controllers runs.
    pub workloads_run: AtomicBool,
    /// The CA certificate, as pods see it.
    pub certificate_authority: String,
    /// The controllers to call after a write.
    after_write: &'static dyn AfterWrite,
}

/// What the controllers of a real cluster do milliseconds after a write; here it happens before the response.
/// The verbs call it, and it calls the verbs in turn.
pub(crate) trait AfterWrite: std::fmt::Debug + Sync {
    /// An object was created.
    fn created(&self, state: &Arc<State>, resource: &Arc<ResourceType>, stored: &Stored);
    /// An object was changed.
    fn updated(&self, state: &Arc<State>, resource: &Arc<ResourceType>, event: &Event);
    /// An object was marked as deleted.
    fn marked(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value);
    /// An object is gone.
    fn removed(&self, state: &Arc<State>, resource: &Arc<ResourceType>, object: &Value);
}

/// Whether a cluster survives restarts.
#[derive(Debug)]
enum Persistence {
    /// It exists in memory only.
    InMemory,
    /// It writes to a data directory.
    Directory(Box<Journal>),
    /// It released its data directory, and rejects writes.
    Closed,
}

impl State {
    /// A state over a store, which may be new or recovered.
    pub(crate) fn new(
        options: Options,
        certificate_authority: String,
        store: Store,
        journal: Option<Journal>,
        after_write: &'static dyn AfterWrite,
    ) -> Self {
        // Uids are unique: a restarted cluster must not repeat the sequence of its seed.
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

    /// Flushes everything to disk, and releases the data directory.
    pub(crate) fn close(&self) {
        let mut persistence = self.persistence.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*persistence, Persistence::Directory(_)) {
            *persistence = Persistence::Closed;
        }
    }

    /// The store, for one read or one write.
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        // A panic in a verb leaves the store consistent: every change is one call.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn webhooks(&self) -> Arc<Webhooks> {
        Arc::clone(&self.webhooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn after_write(&self) -> &'static dyn AfterWrite {
        self.after_write
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn randomness(&self) -> MutexGuard<'_, Randomness> {
        self.randomness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, resource: &ResourceType, object_key: &ObjectKey) -> Option<Arc<Stored>> {
        self.store().get(&resource.storage, object_key)
    }

    /// A built-in resource.
    pub(crate) fn built_in(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceType>> {
        self.catalog().get(group, version, plural).cloned()
    }

    /// Commits a write, and updates what is derived from objects, such as the catalog, before anybody sees it.
    pub(crate) fn apply(&self, resource: &ResourceType, write: Write) -> Result<Arc<Event>, StoreError> {
        // Serialize before taking the lock: others can write in the meantime.
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
