//! The tests of `store.rs`.

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
    let write =
        Write::Create { object_key: ObjectKey::new(namespace, name), value: json!({"metadata": {"name": name}}) };
    store.apply(&resource(), write).unwrap().object.version
}

fn update(store: &mut Store, namespace: &str, name: &str, size: u64) -> Result<u64, StoreError> {
    let object_key = ObjectKey::new(namespace, name);
    let expected = store.get("things", &object_key).map(|object| object.version).unwrap_or_default();
    let value = json!({"metadata": {"name": name}, "size": size});
    Ok(store.apply(&resource(), Write::Update { object_key, value, expected })?.object.version)
}

fn names(objects: &[Arc<Stored>]) -> Vec<String> {
    objects.iter().map(|object| format!("{}/{}", object.object_key.namespace, object.object_key.name)).collect()
}

#[test]
fn versions_grow_over_all_resources() {
    let mut store = Store::new(10);
    assert_eq!(store.version(), 1);
    assert_eq!(create(&mut store, "a", "x"), 2);
    let other = Write::Create { object_key: ObjectKey::new("", "y"), value: json!({"metadata": {}}) };
    assert_eq!(store.apply(&"others".into(), other).unwrap().object.version, 3);
    assert_eq!(update(&mut store, "a", "x", 1), Ok(4));
    assert_eq!(store.get("things", &ObjectKey::new("a", "x")).unwrap().decode()["metadata"]["resourceVersion"], "4");
}

#[test]
fn writes_are_refused() {
    let mut store = Store::new(10);
    let object_key = ObjectKey::new("a", "x");
    let missing = Write::Update { object_key: object_key.clone(), value: json!({}), expected: 1 };
    assert_eq!(store.apply(&resource(), missing).unwrap_err(), StoreError::Missing);
    create(&mut store, "a", "x");
    let twice = Write::Create { object_key: object_key.clone(), value: json!({}) };
    assert_eq!(store.apply(&resource(), twice).unwrap_err(), StoreError::Exists);
    let late = Write::Delete { object_key, value: json!({}), expected: 1 };
    assert_eq!(store.apply(&resource(), late).unwrap_err(), StoreError::Conflict { expected: 1, actual: 2 });
}

#[test]
fn lists_are_ordered_and_cut() {
    let mut store = Store::new(10);
    for (namespace, name) in [("b", "x"), ("a", "y"), ("a", "x"), ("a-b", "x")] {
        create(&mut store, namespace, name);
    }
    let check = |namespace, after: Option<&ObjectKey>, expected: &[&str]| {
        assert_eq!(names(&store.list("things", namespace, after)), expected);
    };
    check(None, None, &["a-b/x", "a/x", "a/y", "b/x"]);
    check(Some("a"), None, &["a/x", "a/y"]);
    check(Some("a"), Some(&ObjectKey::new("a", "x")), &["a/y"]);
    check(None, Some(&ObjectKey::new("a", "y")), &["b/x"]);
    check(Some("nope"), None, &[]);
    assert!(store.list("nope", None, None).is_empty());
}

#[test]
fn older_versions_can_be_listed_while_they_are_remembered() {
    let mut store = Store::new(3);
    create(&mut store, "a", "x");
    let early = create(&mut store, "a", "y");
    update(&mut store, "a", "x", 1).unwrap();
    let object_key = ObjectKey::new("a", "y");
    store.apply(&resource(), Write::Delete { object_key, value: json!({"metadata": {}}), expected: early }).unwrap();
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
    store.apply(&"others".into(), Write::Create { object_key: ObjectKey::new("", "z"), value: json!({}) }).unwrap();
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
    store.apply(&resource(), Write::Create { object_key: ObjectKey::new("a", "y"), value: labelled }).unwrap();
    let snapshot = store.snapshot();
    let mut objects: HashMap<Arc<str>, BTreeMap<ObjectKey, (u64, Bytes)>> = HashMap::new();
    for (resource, object) in &snapshot.objects {
        let entry = (object.version, object.raw.clone());
        objects.entry(Arc::clone(resource)).or_default().insert(object.object_key.clone(), entry);
    }
    let mut restored = Store::restore(10, snapshot.version, objects);
    assert_eq!(names(&restored.list("things", None, None)), ["a/x", "a/y"]);
    assert_eq!(restored.get("things", &ObjectKey::new("a", "y")).unwrap().label("b"), Some("2"));
    assert_eq!(restored.dependents("u"), [(resource(), ObjectKey::new("a", "y"))]);
    for kind in ["things", "others"] {
        assert!(restored.check_version(kind, 2).is_err(), "{kind}");
        assert!(restored.check_version(kind, 3).is_ok(), "{kind}");
    }
    assert_eq!(update(&mut restored, "a", "x", 1), Ok(4));
    assert_eq!(restored.events_after("things", 3, 10).unwrap().len(), 1);
}
