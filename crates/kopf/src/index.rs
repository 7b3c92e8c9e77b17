//! Indexes: what index functions returned for all objects, by keys. The engine fills them before it calls handlers.
//!
//! The types of the keys and values identify an index: functions that return such pairs fill it, and handlers with an
//! [`Index<K, V>`] parameter read it.

use std::any::{Any, TypeId, type_name};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An index: a parameter of handlers, which always shows the current entries. Clones share it.
///
/// Each object has at most one value under a key; a key has as many values as there are objects under it.
///
/// ```
/// use kopf::extract::{Index, Meta, Spec};
/// use kopf::{Operator, of, on};
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1", kind = "Worker", namespaced)]
/// # struct WorkerSpec { zone: String }
/// # #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1", kind = "Task", namespaced)]
/// # struct TaskSpec { zone: String }
///
/// #[derive(PartialEq, Eq, Hash)]
/// struct Zone(String);
///
/// async fn workers(spec: Spec<WorkerSpec>, meta: Meta) -> kopf::Result<(Zone, String)> {
///     Ok((Zone(spec.zone.clone()), meta.name().to_owned()))
/// }
///
/// async fn assign(spec: Spec<TaskSpec>, workers: Index<Zone, String>) -> kopf::Result<String> {
///     let worker = workers.get(&Zone(spec.zone.clone())).into_iter().next();
///     Ok(worker.ok_or_else(|| kopf::Error::temporary("there are no workers"))?.to_string())
/// }
///
/// let operator: Operator = Operator::new().index(on::index(of::<Worker>()), workers).on(on::create(of::<Task>()), assign);
/// # drop(operator);
/// ```
pub struct Index<K, V> {
    shared: Arc<RwLock<IndexEntries<K, V>>>,
}

struct IndexEntries<K, V> {
    /// The values by their keys, and by the objects that they are from.
    values: HashMap<Arc<K>, HashMap<Arc<str>, Arc<V>>>,
    /// The keys of each object.
    keys: HashMap<Arc<str>, HashSet<Arc<K>>>,
}

impl<K: Eq + Hash, V> Index<K, V> {
    /// An empty index, for calling handlers in tests; see also [`insert`](Self::insert).
    pub fn new() -> Self {
        Self { shared: Arc::new(RwLock::new(IndexEntries { values: HashMap::new(), keys: HashMap::new() })) }
    }

    /// All values under the key, of all objects, in no particular order.
    pub fn get(&self, key: &K) -> Vec<Arc<V>> {
        self.read().values.get(key).map(|values| values.values().map(Arc::clone).collect()).unwrap_or_default()
    }

    /// Whether any object has the key.
    pub fn contains(&self, key: &K) -> bool {
        self.read().values.contains_key(key)
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<Arc<K>> {
        self.read().values.keys().map(Arc::clone).collect()
    }

    /// All keys with their current values.
    pub fn to_vec(&self) -> Vec<(Arc<K>, Vec<Arc<V>>)> {
        let entries = self.read();
        let pairs = entries.values.iter();
        pairs.map(|(key, values)| (Arc::clone(key), values.values().map(Arc::clone).collect())).collect()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.read().values.len()
    }

    /// Whether the index has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a value for the object, for calling handlers in tests.
    pub fn insert(&self, object: &str, key: K, value: V) {
        self.write().insert(&Arc::from(object), Arc::new(key), Arc::new(value));
    }

    /// Replaces all values of the object.
    pub(crate) fn replace(&self, uid: &Arc<str>, entries: Vec<(K, V)>) {
        let mut known = self.write();
        let entries: Vec<_> = entries.into_iter().map(|(key, value)| (Arc::new(key), Arc::new(value))).collect();
        let outdated = known.keys.remove(uid).unwrap_or_default();
        for key in outdated.iter().filter(|key| !entries.iter().any(|(kept, _)| kept == *key)) {
            known.remove(uid, key);
        }
        for (key, value) in entries {
            known.insert(uid, key, value);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, IndexEntries<K, V>> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, IndexEntries<K, V>> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> IndexEntries<K, V> {
    fn insert(&mut self, uid: &Arc<str>, key: Arc<K>, value: Arc<V>) {
        self.keys.entry(Arc::clone(uid)).or_default().insert(Arc::clone(&key));
        self.values.entry(key).or_default().insert(Arc::clone(uid), value);
    }

    fn remove(&mut self, uid: &Arc<str>, key: &Arc<K>) {
        if let Some(values) = self.values.get_mut(key) {
            values.remove(uid);
            if values.is_empty() {
                self.values.remove(key);
            }
        }
    }
}

impl<K: Eq + Hash, V> Default for Index<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Eq + Hash, V> std::fmt::Debug for Index<K, V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Index").field("keys", &self.len()).finish()
    }
}

/// What the parameters of a handler need from the operator; see
/// [`FromCall::require`](crate::extract::FromCall::require).
#[derive(Debug, Default)]
pub struct Requirements {
    /// The types of the indexes, and their names for people.
    indexes: Vec<(TypeId, String)>,
}

impl Requirements {
    /// Some function has to fill this index: see [`Operator::index`](crate::Operator::index).
    pub fn index<K: 'static, V: 'static>(&mut self) {
        let name = format!("Index<{}, {}>", type_name::<K>(), type_name::<V>());
        self.indexes.push((TypeId::of::<Index<K, V>>(), name));
    }
}

/// Removes an object from an index.
type Removal = Arc<dyn Fn(&Arc<str>) + Send + Sync>;

/// All indexes of one operator.
#[derive(Default)]
pub(crate) struct Indexes {
    by_types: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// How to remove an object, by the ids of the index functions.
    by_ids: HashMap<Arc<str>, Removal>,
}

impl Indexes {
    /// The index of these types, which the function with this id fills.
    pub(crate) fn add<K, V>(&mut self, id: &Arc<str>) -> Index<K, V>
    where
        K: Eq + Hash + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        let index = self.get::<K, V>().unwrap_or_default();
        self.by_types.insert(TypeId::of::<Index<K, V>>(), Box::new(index.clone()));
        let (filled, handler) = (index.clone(), Arc::clone(id));
        let remove = move |uid: &Arc<str>| filled.replace(&source(&handler, uid), Vec::new());
        self.by_ids.insert(Arc::clone(id), Arc::new(remove));
        index
    }

    pub(crate) fn get<K: 'static, V: 'static>(&self) -> Option<Index<K, V>> {
        self.by_types.get(&TypeId::of::<Index<K, V>>())?.downcast_ref::<Index<K, V>>().cloned()
    }

    /// The first requirement that no function fulfils.
    pub(crate) fn missing<'a>(&self, requirements: &'a Requirements) -> Option<&'a str> {
        let missing = requirements.indexes.iter().find(|(types, _)| !self.by_types.contains_key(types));
        missing.map(|(_, name)| name.as_str())
    }

    pub(crate) fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]) {
        for remove in ids.iter().filter_map(|id| self.by_ids.get(id)) {
            remove(uid);
        }
    }
}

/// The source of values: several functions may index the same object into the same index.
pub(crate) fn source(id: &str, uid: &str) -> Arc<str> {
    format!("{id}/{uid}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(index: &Index<&'static str, i32>, key: &'static str) -> Vec<i32> {
        let mut values: Vec<i32> = index.get(&key).iter().map(|value| **value).collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn replacing_the_entries_of_an_object_removes_its_outdated_keys() {
        let index: Index<&'static str, i32> = Index::new();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        index.replace(&a, vec![("x", 1), ("y", 2)]);
        index.replace(&b, vec![("y", 3)]);
        assert_eq!((values(&index, "x"), values(&index, "y")), (vec![1], vec![2, 3]));
        index.replace(&a, vec![("y", 4), ("z", 5)]);
        assert!(!index.contains(&"x"), "an empty key is gone");
        assert_eq!((values(&index, "y"), values(&index, "z"), index.len()), (vec![3, 4], vec![5], 2));
        index.replace(&a, Vec::new());
        index.replace(&b, Vec::new());
        assert!(index.is_empty() && index.keys().is_empty());
    }

    #[test]
    fn functions_with_the_same_types_share_an_index() {
        let mut indexes = Indexes::default();
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let index = indexes.add::<u8, u8>(&first);
        let same = indexes.add::<u8, u8>(&second);
        assert!(indexes.get::<u8, u16>().is_none());
        index.replace(&source(&first, "uid"), vec![(1, 2)]);
        same.replace(&source(&second, "uid"), vec![(1, 3)]);
        assert_eq!(indexes.get::<u8, u8>().unwrap().get(&1).len(), 2);
        indexes.unindex(&"uid".into(), &[Arc::clone(&first)]);
        assert_eq!(*index.get(&1)[0], 3);
        indexes.unindex(&"uid".into(), &[first, second]);
        assert!(index.is_empty());
    }
}
