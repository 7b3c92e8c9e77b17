//! The versioned store: every object, and the recent history of every resource.
//!
//! It is plain data without locks, clocks or I/O: `verbs/` decide what to write and hand in a
//! [`Write`], the store gives it the next version and remembers the [`Event`]. Watches read the
//! history by their position in it, so that a slow watch costs no memory: it only gets too old.

mod place;
mod stored;
pub mod persistence;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

pub use place::Place;
pub use stored::{Draft, Stored};

/// A change to be made.
#[derive(Debug)]
pub enum Write<T = Value> {
    /// A new object.
    Create { place: Place, value: T },
    /// A new state of an object that is expected to be at a version.
    Update { place: Place, value: T, expected: u64 },
    /// The end of an object, with its last state; expected to be at a version.
    Delete { place: Place, value: T, expected: u64 },
}

impl Write {
    /// The same change, written down as far as it can be before the store gives it a version.
    pub fn drafted(self) -> Write<Draft> {
        match self {
            Self::Create { place, value } => Write::Create { place, value: Draft::of(value) },
            Self::Update { place, value, expected } => Write::Update { place, value: Draft::of(value), expected },
            Self::Delete { place, value, expected } => Write::Delete { place, value: Draft::of(value), expected },
        }
    }
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// One entry of the history.
#[derive(Debug)]
pub struct Event {
    pub change: Change,
    /// The new state; the last one for deletions.
    pub object: Arc<Stored>,
    /// The state before; None for new objects.
    pub previous: Option<Arc<Stored>>,
}

/// Why a change cannot be made, or a version cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is an object of this name already.
    #[error("the object exists already")]
    Exists,
    /// There is no object of this name.
    #[error("the object does not exist")]
    Missing,
    /// The object is at another version than expected.
    #[error("the object is at version {actual}, not {expected}")]
    Conflict { expected: u64, actual: u64 },
    /// The change could not be written to the data directory, and so was not made.
    #[error("cannot write to the data directory: {0}")]
    Unwritten(String),
    /// The version is before the beginning of the history.
    #[error("version {asked} is too old, the oldest is {oldest}")]
    Compacted { asked: u64, oldest: u64 },
}

/// All objects of all resources.
#[derive(Debug)]
pub struct Store {
    shelves: HashMap<Arc<str>, Shelf>,
    /// Which objects name an owner, by its uid.
    dependents: HashMap<Box<str>, BTreeSet<(Arc<str>, Place)>>,
    /// The version of the latest change of anything.
    version: u64,
    /// How many events of each resource are remembered.
    history_limit: usize,
    /// Nothing before this version was ever remembered, of any resource; 0 for a new store.
    beginning: u64,
}

/// All objects at one version.
#[derive(Debug)]
pub struct Image {
    pub version: u64,
    /// With the resources that they belong to.
    pub objects: Vec<(Arc<str>, Arc<Stored>)>,
}

/// All objects of one resource.
#[derive(Debug)]
struct Shelf {
    objects: BTreeMap<Place, Arc<Stored>>,
    history: VecDeque<Arc<Event>>,
    /// States up to this version, exclusively, cannot be shown any more, nor watched from.
    compacted: u64,
    /// The version of the last event that is not remembered any more; 0 if all are.
    forgotten: u64,
    /// Tells watches that there is something new. Its value is the latest version of the resource.
    latest: watch::Sender<u64>,
}

impl Store {
    pub fn new(history_limit: usize) -> Self {
        // The real store starts at 1, too; 0 means "any version" in requests.
        let history_limit = history_limit.max(1);
        Self { shelves: HashMap::new(), dependents: HashMap::new(), version: 1, history_limit, beginning: 0 }
    }

    /// A store that goes on from a version, with the objects of then. What was before cannot be watched.
    pub fn restore(
        history_limit: usize,
        version: u64,
        objects: HashMap<Arc<str>, BTreeMap<Place, (u64, Bytes)>>,
    ) -> Self {
        let mut store = Self { version, ..Self::new(history_limit) };
        // A new store has nothing that could be too old.
        store.beginning = if version > 1 { version } else { 0 };
        for (resource, objects) in objects {
            for (place, (version, raw)) in objects {
                let object = Arc::new(Stored::read(place.clone(), version, raw));
                store.index_owners(
                    &resource,
                    &Event { change: Change::Added, object: Arc::clone(&object), previous: None },
                );
                store.shelf(&resource).objects.insert(place, object);
            }
        }
        store
    }

    /// All objects, as they are now.
    pub fn image(&self) -> Image {
        let objects = self.shelves.iter().flat_map(|(resource, shelf)| {
            shelf.objects.values().map(|object| (Arc::clone(resource), Arc::clone(object)))
        });
        Image { version: self.version, objects: objects.collect() }
    }

    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Prepares a change: gives it the next version. Nothing is changed yet.
    pub fn prepare(&mut self, resource: &Arc<str>, write: Write<Draft>) -> Result<Event, StoreError> {
        let version = self.version + 1;
        let shelf = self.shelf(resource);
        Ok(match write {
            Write::Create { place, value } => {
                if shelf.objects.contains_key(&place) {
                    return Err(StoreError::Exists);
                }
                let object = Arc::new(value.at(place, version));
                Event { change: Change::Added, object, previous: None }
            }
            Write::Update { place, value, expected } => {
                let previous = shelf.expect(&place, expected)?;
                let object = Arc::new(value.at(place, version));
                Event { change: Change::Modified, object, previous: Some(previous) }
            }
            Write::Delete { place, value, expected } => {
                let previous = shelf.expect(&place, expected)?;
                let object = Arc::new(value.at(place, version));
                Event { change: Change::Deleted, object, previous: Some(previous) }
            }
        })
    }

    /// Makes a change that was just prepared, and remembers it.
    pub fn commit(&mut self, resource: &Arc<str>, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.version = event.object.version;
        let limit = self.history_limit;
        let shelf = self.shelf(resource);
        match event.change {
            Change::Deleted => shelf.objects.remove(&event.object.place),
            _ => shelf.objects.insert(event.object.place.clone(), Arc::clone(&event.object)),
        };
        shelf.remember(Arc::clone(&event), limit);
        self.index_owners(resource, &event);
        event
    }

    pub fn get(&self, resource: &str, place: &Place) -> Option<Arc<Stored>> {
        self.shelves.get(resource)?.objects.get(place).cloned()
    }

    /// The objects of a resource in the order of their places, from a place on.
    pub fn list(&self, resource: &str, namespace: Option<&str>, after: Option<&Place>) -> Vec<Arc<Stored>> {
        let Some(shelf) = self.shelves.get(resource) else { return Vec::new() };
        let objects = shelf.objects.range((start_of(namespace, after), Bound::Unbounded));
        let inside = |place: &Place| namespace.is_none_or(|namespace| &*place.namespace == namespace);
        objects.take_while(|(place, _)| inside(place)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The same as it was at an older version, by undoing what has happened since.
    pub fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&Place>,
        version: u64,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.check_version(resource, version)?;
        let Some(shelf) = self.shelves.get(resource) else { return Ok(Vec::new()) };
        let mut before: BTreeMap<&Place, Option<&Arc<Stored>>> = BTreeMap::new();
        for event in shelf.history.iter().rev().take_while(|event| event.object.version > version) {
            before.insert(&event.object.place, event.previous.as_ref());
        }
        let mut objects = self.list(resource, namespace, after);
        if before.is_empty() {
            return Ok(objects);
        }
        objects.retain(|object| !before.contains_key(&object.place));
        let start = start_of(namespace, after);
        let restored = before.iter().filter_map(|(place, object)| Some((*place, (*object)?)));
        objects.extend(
            restored
                .filter(|(place, _)| namespace.is_none_or(|namespace| &*place.namespace == namespace))
                .filter(|(place, _)| match &start {
                    Bound::Included(first) => *place >= first,
                    Bound::Excluded(last) => *place > last,
                    Bound::Unbounded => true,
                })
                .map(|(_, object)| Arc::clone(object)),
        );
        objects.sort_by(|one, other| one.place.cmp(&other.place));
        Ok(objects)
    }

    /// Whether a watch may start from a version.
    pub fn check_version(&self, resource: &str, version: u64) -> Result<(), StoreError> {
        let oldest = self.shelves.get(resource).map_or(self.beginning, |shelf| shelf.compacted);
        match version < oldest {
            true => Err(StoreError::Compacted { asked: version, oldest }),
            false => Ok(()),
        }
    }

    /// What has happened to a resource after a version, up to a number of events.
    ///
    /// A running watch that has seen everything is not disturbed by a compaction.
    pub fn events_after(&self, resource: &str, version: u64, limit: usize) -> Result<Vec<Arc<Event>>, StoreError> {
        let Some(shelf) = self.shelves.get(resource) else { return Ok(Vec::new()) };
        if version < shelf.forgotten {
            return Err(StoreError::Compacted { asked: version, oldest: shelf.forgotten });
        }
        let start = shelf.history.partition_point(|event| event.object.version <= version);
        Ok(shelf.history.range(start..).take(limit).cloned().collect())
    }

    /// The objects that name an owner by its uid, with their resources.
    pub fn dependents(&self, uid: &str) -> Vec<(Arc<str>, Place)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn index_owners(&mut self, resource: &Arc<str>, event: &Event) {
        let entry = (Arc::clone(resource), event.object.place.clone());
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

    /// Something to wait for until a resource changes.
    pub fn subscribe(&mut self, resource: &Arc<str>) -> watch::Receiver<u64> {
        self.shelf(resource).latest.subscribe()
    }

    /// Forgets the history of all resources up to now, as the compaction of a real store does.
    pub fn compact(&mut self) {
        self.beginning = self.version;
        for shelf in self.shelves.values_mut() {
            shelf.forgotten = shelf.history.back().map_or(shelf.forgotten, |event| event.object.version);
            shelf.history.clear();
            shelf.compacted = self.version;
        }
    }

    /// Whether there is any object of the resource.
    pub fn is_empty(&self, resource: &str) -> bool {
        self.shelves.get(resource).is_none_or(|shelf| shelf.objects.is_empty())
    }

    fn shelf(&mut self, resource: &Arc<str>) -> &mut Shelf {
        let beginning = self.beginning;
        self.shelves.entry(Arc::clone(resource)).or_insert_with(|| Shelf {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            compacted: beginning,
            forgotten: beginning,
            latest: watch::Sender::new(0),
        })
    }
}

impl Shelf {
    fn expect(&self, place: &Place, expected: u64) -> Result<Arc<Stored>, StoreError> {
        let object = self.objects.get(place).ok_or(StoreError::Missing)?;
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

/// Where a listing starts: after a place, or at the beginning of a namespace, or of everything.
fn start_of(namespace: Option<&str>, after: Option<&Place>) -> Bound<Place> {
    match (after, namespace) {
        (Some(place), _) => Bound::Excluded(place.clone()),
        (None, Some(namespace)) => Bound::Included(Place::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    impl Store {
        fn apply(&mut self, resource: &Arc<str>, write: Write) -> Result<Arc<Event>, StoreError> {
            let event = self.prepare(resource, write.drafted())?;
            Ok(self.commit(resource, event))
        }
    }

    fn resource() -> Arc<str> {
        "things".into()
    }

    fn create(store: &mut Store, namespace: &str, name: &str) -> u64 {
        let write = Write::Create { place: Place::new(namespace, name), value: json!({"metadata": {"name": name}}) };
        store.apply(&resource(), write).unwrap().object.version
    }

    fn update(store: &mut Store, namespace: &str, name: &str, size: u64) -> Result<u64, StoreError> {
        let place = Place::new(namespace, name);
        let expected = store.get("things", &place).map(|object| object.version).unwrap_or_default();
        let value = json!({"metadata": {"name": name}, "size": size});
        Ok(store.apply(&resource(), Write::Update { place, value, expected })?.object.version)
    }

    fn names(objects: &[Arc<Stored>]) -> Vec<String> {
        objects.iter().map(|object| format!("{}/{}", object.place.namespace, object.place.name)).collect()
    }

    #[test]
    fn versions_grow_over_all_resources() {
        let mut store = Store::new(10);
        assert_eq!(store.version(), 1);
        assert_eq!(create(&mut store, "a", "x"), 2);
        let other = Write::Create { place: Place::new("", "y"), value: json!({"metadata": {}}) };
        assert_eq!(store.apply(&"others".into(), other).unwrap().object.version, 3);
        assert_eq!(update(&mut store, "a", "x", 1), Ok(4));
        assert_eq!(store.get("things", &Place::new("a", "x")).unwrap().decode()["metadata"]["resourceVersion"], "4");
    }

    #[test]
    fn writes_are_refused() {
        let mut store = Store::new(10);
        let place = Place::new("a", "x");
        let missing = Write::Update { place: place.clone(), value: json!({}), expected: 1 };
        assert_eq!(store.apply(&resource(), missing).unwrap_err(), StoreError::Missing);
        create(&mut store, "a", "x");
        let twice = Write::Create { place: place.clone(), value: json!({}) };
        assert_eq!(store.apply(&resource(), twice).unwrap_err(), StoreError::Exists);
        let late = Write::Delete { place, value: json!({}), expected: 1 };
        assert_eq!(store.apply(&resource(), late).unwrap_err(), StoreError::Conflict { expected: 1, actual: 2 });
    }

    #[test]
    fn lists_are_ordered_and_cut() {
        let mut store = Store::new(10);
        for (namespace, name) in [("b", "x"), ("a", "y"), ("a", "x"), ("a-b", "x")] {
            create(&mut store, namespace, name);
        }
        let check = |namespace, after: Option<&Place>, expected: &[&str]| {
            assert_eq!(names(&store.list("things", namespace, after)), expected);
        };
        check(None, None, &["a-b/x", "a/x", "a/y", "b/x"]);
        check(Some("a"), None, &["a/x", "a/y"]);
        check(Some("a"), Some(&Place::new("a", "x")), &["a/y"]);
        check(None, Some(&Place::new("a", "y")), &["b/x"]);
        check(Some("nope"), None, &[]);
        assert!(store.list("nope", None, None).is_empty());
    }

    #[test]
    fn older_versions_can_be_listed_while_they_are_remembered() {
        let mut store = Store::new(3);
        create(&mut store, "a", "x");
        let early = create(&mut store, "a", "y");
        update(&mut store, "a", "x", 1).unwrap();
        let place = Place::new("a", "y");
        store.apply(&resource(), Write::Delete { place, value: json!({"metadata": {}}), expected: early }).unwrap();
        let objects = store.list_at("things", None, None, early).unwrap();
        assert_eq!(names(&objects), ["a/x", "a/y"]);
        assert!(objects[0].decode().get("size").is_none(), "{:?}", objects[0]);
        assert_eq!(names(&store.list_at("things", None, None, store.version()).unwrap()), ["a/x"]);
        create(&mut store, "a", "z");
        create(&mut store, "a", "zz");
        let error = store.list_at("things", None, None, early).unwrap_err();
        assert_eq!(error, StoreError::Compacted { asked: early, oldest: 4 });
    }

    #[test]
    fn events_are_read_by_position_until_they_are_forgotten() {
        let mut store = Store::new(2);
        let first = create(&mut store, "a", "x");
        update(&mut store, "a", "x", 1).unwrap();
        let changes = |store: &Store, version| {
            let events = store.events_after("things", version, 10)?;
            Ok(events.iter().map(|event| (event.change, event.object.version)).collect::<Vec<_>>())
        };
        assert_eq!(changes(&store, 0), Ok(vec![(Change::Added, 2), (Change::Modified, 3)]));
        assert_eq!(changes(&store, first), Ok(vec![(Change::Modified, 3)]));
        assert_eq!(changes(&store, 3), Ok(vec![]));
        update(&mut store, "a", "x", 2).unwrap();
        assert_eq!(changes(&store, 1), Err(StoreError::Compacted { asked: 1, oldest: 2 }));
        assert_eq!(changes(&store, 2), Ok(vec![(Change::Modified, 3), (Change::Modified, 4)]));
        create(&mut store, "a", "y");
        store.apply(&"others".into(), Write::Create { place: Place::new("", "z"), value: json!({}) }).unwrap();
        store.compact();
        assert_eq!(changes(&store, 4), Err(StoreError::Compacted { asked: 4, oldest: 5 }));
        assert_eq!(changes(&store, 5), Ok(vec![]));
        assert!(store.check_version("things", 5).is_err());
        assert!(store.check_version("things", 6).is_ok());
    }

    #[test]
    fn a_restored_store_goes_on() {
        let mut store = Store::new(10);
        create(&mut store, "a", "x");
        let labelled = json!({"metadata": {"labels": {"b": "2", "a": "1"}, "ownerReferences": [{"uid": "u"}]}});
        store.apply(&resource(), Write::Create { place: Place::new("a", "y"), value: labelled }).unwrap();
        let image = store.image();
        let mut objects: HashMap<Arc<str>, BTreeMap<Place, (u64, Bytes)>> = HashMap::new();
        for (resource, object) in &image.objects {
            let entry = (object.version, object.raw.clone());
            objects.entry(Arc::clone(resource)).or_default().insert(object.place.clone(), entry);
        }
        let mut restored = Store::restore(10, image.version, objects);
        assert_eq!(names(&restored.list("things", None, None)), ["a/x", "a/y"]);
        assert_eq!(restored.get("things", &Place::new("a", "y")).unwrap().label("b"), Some("2"));
        assert_eq!(restored.dependents("u"), [(resource(), Place::new("a", "y"))]);
        for kind in ["things", "others"] {
            assert!(restored.check_version(kind, 2).is_err(), "{kind}");
            assert!(restored.check_version(kind, 3).is_ok(), "{kind}");
        }
        assert_eq!(update(&mut restored, "a", "x", 1), Ok(4));
        assert_eq!(restored.events_after("things", 3, 10).unwrap().len(), 1);
    }
}
