//! The objects, their history, and who watches them.

use std::collections::BTreeMap;

use bytes::Bytes;
use kopf_object::{PatchOperation, apply_json_patch, merge};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{DEFINITIONS, NAMESPACES, PEERINGS, THINGS};

const VERBS: [&str; 4] = ["list", "watch", "patch", "create"];

/// All there is.
pub(crate) struct Store {
    version: u64,
    uids: u64,
    /// By the collection, the namespace and the name.
    objects: BTreeMap<(String, String, String), Value>,
    history: Vec<Happened>,
    /// What has happened up to this version cannot be replayed any more.
    forgotten: u64,
    watches: Vec<Watch>,
    /// Whether the kind of the things is served.
    served: bool,
    /// Whether the cluster-wide peering objects are served.
    pub peering_is_served: bool,
    /// Whether their status is a subresource.
    pub status_is_subresource: bool,
    /// Whether patches of the status are accepted there though discovery promises the subresource.
    pub status_is_missing: bool,
}

/// One change of one object.
struct Happened {
    version: u64,
    collection: String,
    namespace: String,
    line: Bytes,
}

struct Watch {
    collection: String,
    namespace: Option<String>,
    lines: mpsc::UnboundedSender<Line>,
    /// It stays open, but nothing ever comes.
    muted: bool,
}

/// What a watch gets.
pub(crate) enum Line {
    Text(Bytes),
    /// The connection breaks.
    Break,
}

/// An answer with an error.
pub(crate) struct Refusal {
    pub code: u16,
    pub message: String,
    pub details: Option<Value>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            version: 100,
            uids: 0,
            objects: BTreeMap::new(),
            history: Vec::new(),
            forgotten: 0,
            watches: Vec::new(),
            served: false,
            peering_is_served: false,
            status_is_subresource: true,
            status_is_missing: false,
        }
    }
}

impl Store {
    pub(crate) fn get(&self, collection: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&key(collection, namespace, name))
    }

    pub(crate) fn create(&mut self, collection: &str, namespace: &str, mut object: Value) {
        self.uids += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let (api_version, kind) = identity(collection);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        self.put("ADDED", collection, namespace, &name, object);
    }

    pub(crate) fn merge(&mut self, collection: &str, namespace: &str, name: &str, patch: &Value) {
        let mut object = self.get(collection, namespace, name).cloned().unwrap();
        merge(&mut object, patch);
        self.store(collection, namespace, name, object);
    }

    /// Asks for the deletion: done at once if nothing holds the object.
    pub(crate) fn delete(&mut self, collection: &str, namespace: &str, name: &str) {
        let mut object = self.get(collection, namespace, name).cloned().unwrap();
        object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        self.store(collection, namespace, name, object);
    }

    /// Takes the object away, whatever holds it.
    pub(crate) fn remove(&mut self, collection: &str, namespace: &str, name: &str) {
        let object = self.get(collection, namespace, name).cloned().unwrap();
        self.put("DELETED", collection, namespace, name, object);
    }

    /// Serves the kind of the things from now on.
    pub(crate) fn define(&mut self) {
        self.served = true;
        let definition = json!({
            "metadata": {"name": "things.g.io"},
            "spec": {"group": "g.io", "names": {"plural": "things"}, "versions": [{"name": "v1", "served": true}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        self.create(DEFINITIONS, "", definition);
    }

    /// Serves the kind of the things no more; they are gone, too.
    pub(crate) fn undefine(&mut self) {
        let keys = self.objects.keys().filter(|(collection, ..)| collection == THINGS);
        for (collection, namespace, name) in keys.cloned().collect::<Vec<_>>() {
            self.remove(&collection, &namespace, &name);
        }
        self.remove(DEFINITIONS, "", "things.g.io");
        self.served = false;
        self.end_watches(THINGS);
    }

    /// Ends the watches of the collection properly.
    pub(crate) fn end_watches(&mut self, collection: &str) {
        self.watches.retain(|watch| watch.collection != collection);
    }

    /// Breaks the watches of the collection.
    pub(crate) fn break_watches(&mut self, collection: &str) {
        for watch in self.watches.iter().filter(|watch| watch.collection == collection) {
            let _ = watch.lines.send(Line::Break);
        }
        self.end_watches(collection);
    }

    /// The watches of the collection stay open, but nothing ever comes.
    pub(crate) fn mute_watches(&mut self, collection: &str) {
        for watch in self.watches.iter_mut().filter(|watch| watch.collection == collection) {
            watch.muted = true;
        }
    }

    /// What has happened before cannot be watched any more.
    pub(crate) fn forget_history(&mut self) {
        self.forgotten = self.version;
        self.history.clear();
    }

    /// Keeps all objects, but with lower versions, as after a restoration from a backup.
    pub(crate) fn restore(&mut self) {
        (self.version, self.forgotten) = (10, 0);
        self.history.clear();
        self.watches.clear();
        for object in self.objects.values_mut() {
            object["metadata"]["resourceVersion"] = json!("5");
        }
    }

    pub(crate) fn list(&self, collection: &str, namespace: Option<&str>) -> Result<Value, Refusal> {
        self.check_served(collection)?;
        let (api_version, kind) = identity(collection);
        let items: Vec<Value> = self
            .objects
            .iter()
            .filter(|((known, place, _), _)| known == collection && namespace.is_none_or(|wanted| wanted == place))
            .map(|(_, object)| {
                let mut object = object.clone();
                object.as_object_mut().unwrap().retain(|key, _| key != "apiVersion" && key != "kind");
                object
            })
            .collect();
        let metadata = json!({"resourceVersion": self.version.to_string()});
        Ok(json!({"apiVersion": api_version, "kind": format!("{kind}List"), "metadata": metadata, "items": items}))
    }

    pub(crate) fn watch(
        &mut self,
        collection: &str,
        namespace: Option<&str>,
        since: u64,
    ) -> Result<mpsc::UnboundedReceiver<Line>, Refusal> {
        self.check_served(collection)?;
        let (lines, receiver) = mpsc::unbounded_channel();
        if since < self.forgotten {
            let status = json!({"kind": "Status", "code": 410, "message": "too old"});
            let _ = lines.send(Line::Text(to_line("ERROR", &status)));
            return Ok(receiver);
        }
        for happened in self.history.iter().filter(|happened| happened.version > since) {
            if happened.collection == collection && namespace.is_none_or(|wanted| wanted == happened.namespace) {
                let _ = lines.send(Line::Text(happened.line.clone()));
            }
        }
        let (collection, namespace) = (collection.to_owned(), namespace.map(str::to_owned));
        self.watches.push(Watch { collection, namespace, lines, muted: false });
        Ok(receiver)
    }

    pub(crate) fn patch(
        &mut self,
        (collection, namespace, name): (&str, &str, &str),
        is_status: bool,
        content_type: &str,
        patch: &Value,
    ) -> Result<Value, Refusal> {
        self.check_served(collection)?;
        let known = self.get(collection, namespace, name).cloned();
        let Some(old) = known.filter(|_| !is_status || !self.status_is_missing) else {
            return Err(Refusal::new(404, format!("{collection} {name} not found")));
        };
        let mut new = old.clone();
        if content_type.contains("json-patch") {
            let operations: Vec<PatchOperation> = serde_json::from_value(patch.clone()).unwrap();
            let applied = apply_json_patch(&mut new, &operations);
            applied.map_err(|error| Refusal::new(422, format!("the server rejected our request: {error}")))?;
        } else {
            merge(&mut new, patch);
        }
        if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return Err(Refusal::new(409, "the object has been modified".to_owned()));
        }
        if is_status {
            let mut kept = old.clone();
            kept["status"] = new["status"].clone();
            new = kept;
        } else if self.status_is_subresource && collection == THINGS {
            match old.get("status") {
                Some(status) => new["status"] = status.clone(),
                None => drop(new.as_object_mut().unwrap().shift_remove("status")),
            }
        }
        if new["metadata"]["uid"] != old["metadata"]["uid"] {
            let details = json!({"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]});
            return Err(Refusal { details: Some(details), ..Refusal::new(422, "field is immutable".to_owned()) });
        }
        let is_dying = !old["metadata"]["deletionTimestamp"].is_null();
        if is_dying && finalizers(&new).iter().any(|one| !finalizers(&old).contains(one)) {
            return Err(Refusal::new(422, "no new finalizers can be added if the object is being deleted".to_owned()));
        }
        Ok(self.store(collection, namespace, name, new))
    }

    /// The answers of the aggregated discovery, and of the plain one for a single group.
    pub(crate) fn discover(&self, path: &str) -> Result<Value, Refusal> {
        let subresources: &[&str] = if self.status_is_subresource { &["status"] } else { &[] };
        let resource = json!({
            "resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Namespaced",
            "singularResource": "thing", "verbs": VERBS,
            "subresources": subresources.iter().map(|name| json!({"subresource": name})).collect::<Vec<_>>(),
        });
        let group = json!({
            "metadata": {"name": "g.io"},
            "versions": [{"version": "v1", "freshness": "Current", "resources": [resource]}],
        });
        let status = subresources
            .iter()
            .map(|name| json!({"name": format!("things/{name}"), "kind": "Thing", "namespaced": true, "verbs": VERBS}));
        let thing =
            json!({"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": true, "verbs": VERBS});
        let peering = json!({
            "metadata": {"name": "kopf.dev"},
            "versions": [{"version": "v1", "freshness": "Current", "resources": [{
                "resource": PEERINGS, "responseKind": {"kind": "ClusterKopfPeering"}, "scope": "Cluster",
                "singularResource": "clusterkopfpeering", "verbs": VERBS, "subresources": [],
            }]}],
        });
        match path {
            "/api" => Ok(json!({"kind": "APIGroupDiscoveryList", "items": []})),
            "/apis" => {
                let groups = [(self.served, group), (self.peering_is_served, peering)];
                let served: Vec<Value> = groups.into_iter().filter_map(|(served, one)| served.then_some(one)).collect();
                Ok(json!({"kind": "APIGroupDiscoveryList", "items": served}))
            }
            "/apis/g.io" if self.served => Ok(json!({"name": "g.io", "versions": [{"version": "v1"}]})),
            "/apis/g.io/v1" if self.served => Ok(json!({"resources": status.chain([thing]).collect::<Vec<_>>()})),
            _ => Err(Refusal::new(404, "not found".to_owned())),
        }
    }

    fn check_served(&self, collection: &str) -> Result<(), Refusal> {
        if collection != THINGS || self.served { Ok(()) } else { Err(Refusal::new(404, "not found".to_owned())) }
    }

    /// Stores a new state of an object, and gives it back; nothing happens if it is the same.
    fn store(&mut self, collection: &str, namespace: &str, name: &str, object: Value) -> Value {
        let old = self.get(collection, namespace, name).cloned().unwrap_or_default();
        if object == old {
            return object;
        }
        let is_over = !object["metadata"]["deletionTimestamp"].is_null() && finalizers(&object).is_empty();
        self.put(if is_over { "DELETED" } else { "MODIFIED" }, collection, namespace, name, object)
    }

    fn put(&mut self, event: &str, collection: &str, namespace: &str, name: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let key = key(collection, namespace, name);
        if event == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        let line = to_line(event, &object);
        let happened = Happened {
            version: self.version,
            collection: collection.to_owned(),
            namespace: namespace.to_owned(),
            line: line.clone(),
        };
        self.history.push(happened);
        self.watches.retain(|watch| {
            let meant = watch.collection == collection && watch.namespace.as_deref().is_none_or(|one| one == namespace);
            !meant || watch.muted || watch.lines.send(Line::Text(line.clone())).is_ok()
        });
        object
    }
}

impl Refusal {
    fn new(code: u16, message: String) -> Self {
        Self { code, message, details: None }
    }
}

fn key(collection: &str, namespace: &str, name: &str) -> (String, String, String) {
    (collection.to_owned(), namespace.to_owned(), name.to_owned())
}

fn to_line(event: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": event, "object": object})))
}

fn identity(collection: &str) -> (&'static str, &'static str) {
    match collection {
        THINGS => ("g.io/v1", "Thing"),
        NAMESPACES => ("v1", "Namespace"),
        PEERINGS => ("kopf.dev/v1", "ClusterKopfPeering"),
        _ => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    }
}

fn finalizers(object: &Value) -> Vec<Value> {
    object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}
