//! The versioned store: every object, and the recent history of every resource.
//!
//! Plain data without locks, clocks or I/O. The verbs decide what to write and pass a [`Write`]; the store
//! assigns the next version and records the [`Event`]. Watches read the history by their position in it, so
//! that a slow watch costs no memory: it only expires.

mod object_key;
mod stored;
pub(crate) mod persistence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) use object_key::ObjectKey;
pub(crate) use stored::{Draft, Stored};

/// A change to commit.
#[derive(Debug)]
pub(crate) enum Write<T = Value> {
    /// A new object.
    Create { object_key: ObjectKey, value: T },
    /// A new state of an object, which must be at the expected version.
    Update { object_key: ObjectKey, value: T, expected: u64 },
    /// A deletion, with the last state; the object must be at the expected version.
    Delete { object_key: ObjectKey, value: T, expected: u64 },
}

impl Write {
    /// The same change, serialized as far as possible before the store assigns a version.
    pub(crate) fn drafted(self) -> Write<Draft> {
        match self {
            Self::Create { object_key, value } => Write::Create { object_key, value: Draft::of(value) },
            Self::Update { object_key, value, expected } => {
                Write::Update { object_key, value: Draft::of(value), expected }
            }
            Self::Delete { object_key, value, expected } => {
                Write::Delete { object_key, value: Draft::of(value), expected }
            }
        }
    }
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// One entry of the history.
#[derive(Debug)]
pub(crate) struct Event {
    pub change: Change,
    /// The new state; the last one for deletions.
    pub object: Arc<Stored>,
    /// The state before; None for new objects.
    pub previous: Option<Arc<Stored>>,
}

/// Why a change or a version is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// An object with this key exists.
    #[error("the object exists already")]
    Exists,
    /// No object with this key exists.
    #[error("the object does not exist")]
    Missing,
    /// The object is at another version than expected.
    #[error("the object is at version {actual}, not {expected}")]
    Conflict { expected: u64, actual: u64 },
    /// The change could not be written to the data directory, and so was not committed.
    #[error("cannot write to the data directory: {0}")]
    Unwritten(String),
    /// The version is before the beginning of the history.
    #[error("version {asked} is too old, the oldest is {oldest}")]
    Compacted { asked: u64, oldest: u64 },
}

/// All objects of all resources.
#[derive(Debug)]
pub(crate) struct Store {
    histories: HashMap<Arc<str>, ResourceHistory>,
    /// The dependents of each owner, by the uid of the owner.
    dependents: HashMap<Box<str>, BTreeSet<(Arc<str>, ObjectKey)>>,
    /// The version of the latest change of anything.
    version: u64,
    /// How many events per resource the history keeps.
    history_limit: usize,
    /// The history of no resource reaches back to this version; 0 for a new store.
    beginning: u64,
}

/// All objects at one version.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub version: u64,
    /// Each with the storage name of its resource.
    pub objects: Vec<(Arc<str>, Arc<Stored>)>,
}

/// The objects and the history of one resource.
#[derive(Debug)]
struct ResourceHistory {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    history: VecDeque<Arc<Event>>,
    /// Versions below this one can no longer be listed or watched.
    compacted: u64,
    /// The version of the last dropped event; 0 if there is none.
    forgotten: u64,
    /// Wakes the watches. Its value is the latest version of the resource.
    latest: watch::Sender<u64>,
}

impl Store {
    pub(crate) fn new(history_limit: usize) -> Self {
        // etcd starts at 1, too; 0 means "any version" in requests.
        let history_limit = history_limit.max(1);
        Self { histories: HashMap::new(), dependents: HashMap::new(), version: 1, history_limit, beginning: 0 }
    }

    /// A store with recovered objects at a version. Nothing before it can be watched.
    pub(crate) fn restore(
        history_limit: usize,
        version: u64,
        objects: HashMap<Arc<str>, BTreeMap<ObjectKey, (u64, Bytes)>>,
    ) -> Self {
        let mut store = Self { version, ..Self::new(history_limit) };
        // A new store has no expired versions.
        store.beginning = if version > 1 { version } else { 0 };
        for (resource, objects) in objects {
            for (object_key, (version, raw)) in objects {
                let object = Arc::new(Stored::read(object_key.clone(), version, raw));
                store.index_owners(
                    &resource,
                    &Event { change: Change::Added, object: Arc::clone(&object), previous: None },
                );
                store.resource_history(&resource).objects.insert(object_key, object);
            }
        }
        store
    }

    /// A snapshot of all objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let objects = self.histories.iter().flat_map(|(resource, resource_history)| {
            resource_history.objects.values().map(|object| (Arc::clone(resource), Arc::clone(object)))
        });
        Snapshot { version: self.version, objects: objects.collect() }
    }

    /// The version of the latest change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Assigns the next version to a change. Nothing is changed yet.
    pub(crate) fn prepare(&mut self, resource: &Arc<str>, write: Write<Draft>) -> Result<Event, StoreError> {
        let version = self.version + 1;
        let resource_history = self.resource_history(resource);
        Ok(match write {
            Write::Create { object_key, value } => {
                if resource_history.objects.contains_key(&object_key) {
                    return Err(StoreError::Exists);
                }
                let object = Arc::new(value.at(object_key, version));
                Event { change: Change::Added, object, previous: None }
            }
            Write::Update { object_key, value, expected } => {
                let previous = resource_history.expect(&object_key, expected)?;
                let object = Arc::new(value.at(object_key, version));
                Event { change: Change::Modified, object, previous: Some(previous) }
            }
            Write::Delete { object_key, value, expected } => {
                let previous = resource_history.expect(&object_key, expected)?;
                let object = Arc::new(value.at(object_key, version));
                Event { change: Change::Deleted, object, previous: Some(previous) }
            }
        })
    }

    /// Commits a prepared change, and records it in the history.
    pub(crate) fn commit(&mut self, resource: &Arc<str>, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.version = event.object.version;
        let limit = self.history_limit;
        let resource_history = self.resource_history(resource);
        match event.change {
            Change::Deleted => resource_history.objects.remove(&event.object.object_key),
            _ => resource_history.objects.insert(event.object.object_key.clone(), Arc::clone(&event.object)),
        };
        resource_history.remember(Arc::clone(&event), limit);
        self.index_owners(resource, &event);
        event
    }

    pub(crate) fn get(&self, resource: &str, object_key: &ObjectKey) -> Option<Arc<Stored>> {
        self.histories.get(resource)?.objects.get(object_key).cloned()
    }

    /// The objects of a resource in the order of their keys, from a key on.
    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>, after: Option<&ObjectKey>) -> Vec<Arc<Stored>> {
        let Some(resource_history) = self.histories.get(resource) else { return Vec::new() };
        let objects = resource_history.objects.range((start_of(namespace, after), Bound::Unbounded));
        let inside = |object_key: &ObjectKey| namespace.is_none_or(|namespace| &*object_key.namespace == namespace);
        objects.take_while(|(object_key, _)| inside(object_key)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The same at an older version, by undoing the changes since.
    pub(crate) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        version: u64,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.check_version(resource, version)?;
        let Some(resource_history) = self.histories.get(resource) else { return Ok(Vec::new()) };
        let mut before: BTreeMap<&ObjectKey, Option<&Arc<Stored>>> = BTreeMap::new();
        for event in resource_history.history.iter().rev().take_while(|event| event.object.version > version) {
            before.insert(&event.object.object_key, event.previous.as_ref());
        }
        let mut objects = self.list(resource, namespace, after);
        if before.is_empty() {
            return Ok(objects);
        }
        objects.retain(|object| !before.contains_key(&object.object_key));
        let start = start_of(namespace, after);
        let restored = before.iter().filter_map(|(object_key, object)| Some((*object_key, (*object)?)));
        objects.extend(
            restored
                .filter(|(object_key, _)| namespace.is_none_or(|namespace| &*object_key.namespace == namespace))
                .filter(|(object_key, _)| match &start {
                    Bound::Included(first) => *object_key >= first,
                    Bound::Excluded(last) => *object_key > last,
                    Bound::Unbounded => true,
                })
                .map(|(_, object)| Arc::clone(object)),
        );
        objects.sort_by(|one, other| one.object_key.cmp(&other.object_key));
        Ok(objects)
    }

    /// Whether a watch may start at a version.
    pub(crate) fn check_version(&self, resource: &str, version: u64) -> Result<(), StoreError> {
        let oldest = self.histories.get(resource).map_or(self.beginning, |resource_history| resource_history.compacted);
        match version < oldest {
            true => Err(StoreError::Compacted { asked: version, oldest }),
            false => Ok(()),
        }
    }

    /// The events of a resource after a version, up to a limit.
    ///
    /// A compaction does not affect a running watch that is up to date.
    pub(crate) fn events_after(
        &self,
        resource: &str,
        version: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let Some(resource_history) = self.histories.get(resource) else { return Ok(Vec::new()) };
        if version < resource_history.forgotten {
            return Err(StoreError::Compacted { asked: version, oldest: resource_history.forgotten });
        }
        let start = resource_history.history.partition_point(|event| event.object.version <= version);
        Ok(resource_history.history.range(start..).take(limit).cloned().collect())
    }

    /// The dependents of an owner, with their resources.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(Arc<str>, ObjectKey)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn index_owners(&mut self, resource: &Arc<str>, event: &Event) {
        let entry = (Arc::clone(resource), event.object.object_key.clone());
        for owner in event.previous.iter().flat_map(|previous| previous.owners()) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(&entry);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        if event.change != Change::Deleted {
            for owner in event.object.owners() {
                self.dependents.entry(owner.into()).or_default().insert(entry.clone());
            }
        }
    }

    /// A receiver that changes with every event of a resource.
    pub(crate) fn subscribe(&mut self, resource: &Arc<str>) -> watch::Receiver<u64> {
        self.resource_history(resource).latest.subscribe()
    }

    /// Drops the history of all resources, as the compaction of etcd does.
    pub(crate) fn compact(&mut self) {
        self.beginning = self.version;
        for resource_history in self.histories.values_mut() {
            resource_history.forgotten =
                resource_history.history.back().map_or(resource_history.forgotten, |event| event.object.version);
            resource_history.history.clear();
            resource_history.compacted = self.version;
        }
    }

    /// Whether the resource has any object.
    pub(crate) fn is_empty(&self, resource: &str) -> bool {
        self.histories.get(resource).is_none_or(|resource_history| resource_history.objects.is_empty())
    }

    fn resource_history(&mut self, resource: &Arc<str>) -> &mut ResourceHistory {
        let beginning = self.beginning;
        self.histories.entry(Arc::clone(resource)).or_insert_with(|| ResourceHistory {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            compacted: beginning,
            forgotten: beginning,
            latest: watch::Sender::new(0),
        })
    }
}

impl ResourceHistory {
    fn expect(&self, object_key: &ObjectKey, expected: u64) -> Result<Arc<Stored>, StoreError> {
        let object = self.objects.get(object_key).ok_or(StoreError::Missing)?;
        match object.version == expected {
            true => Ok(Arc::clone(object)),
            false => Err(StoreError::Conflict { expected, actual: object.version }),
        }
    }

    fn remember(&mut self, event: Arc<Event>, limit: usize) {
        if self.history.len() >= limit
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.object.version;
            self.compacted = self.compacted.max(self.forgotten);
        }
        let version = event.object.version;
        self.history.push_back(event);
        self.latest.send_replace(version);
    }
}

/// Where a listing starts: after a key, or at the beginning of a namespace or of the resource.
fn start_of(namespace: Option<&str>, after: Option<&ObjectKey>) -> Bound<ObjectKey> {
    match (after, namespace) {
        (Some(object_key), _) => Bound::Excluded(object_key.clone()),
        (None, Some(namespace)) => Bound::Included(ObjectKey::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    }
}
