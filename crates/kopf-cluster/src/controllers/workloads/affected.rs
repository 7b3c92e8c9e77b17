//! Which objects a change affects: the object itself, its owners, and objects that wait for one like it.
//!
//! The driver reports every change here, and enqueues the returned work items. Pods are never decoded for it:
//! the store indexes the uids of their owners.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{namespace, selects, text, uid};
use super::plan::{
    Api, BUDGETS, CLAIMS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, JOBS, NODES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, STORAGE_CLASSES, VOLUMES,
};
use super::pod::Stage;
use super::service;
use super::work_queue::{WorkItem, WorkKind};
use crate::store::{Change, Event, ObjectKey, Stored};

/// The resources that are followed, with the kinds that have a controller; owners before what they own.
pub(super) const FOLLOWED: [(Api, Option<WorkKind>); 15] = [
    (NODES, Some(WorkKind::Node)),
    (STORAGE_CLASSES, None),
    (VOLUMES, Some(WorkKind::Volume)),
    (CLAIMS, Some(WorkKind::Claim)),
    (SERVICES, Some(WorkKind::Service)),
    (ENDPOINT_SLICES, None),
    (BUDGETS, Some(WorkKind::Budget)),
    (CRON_JOBS, Some(WorkKind::CronJob)),
    (JOBS, Some(WorkKind::Job)),
    (DAEMON_SETS, Some(WorkKind::DaemonSet)),
    (STATEFUL_SETS, Some(WorkKind::StatefulSet)),
    (DEPLOYMENTS, Some(WorkKind::Deployment)),
    (REPLICA_SETS, Some(WorkKind::ReplicaSet)),
    (REPLICATION_CONTROLLERS, Some(WorkKind::ReplicationController)),
    (PODS, Some(WorkKind::Pod)),
];

/// What the driver remembers of the objects, to be found again in the store at any time.
#[derive(Debug, Default)]
pub(super) struct ObjectIndex {
    /// The owners by their uids.
    owners: HashMap<Box<str>, WorkItem>,
    /// Who selects pods by their labels, by namespace.
    selectors: HashMap<Arc<str>, HashMap<WorkItem, Value>>,
    /// Claims without a volume.
    pending_claims: BTreeSet<ObjectKey>,
    /// Since when pods have been in their stages.
    stages: HashMap<ObjectKey, (Stage, Timestamp)>,
    /// Which pod has which address: numbers in the network of the pods.
    addresses: HashMap<ObjectKey, u32>,
    /// The last assigned address.
    last_address: u32,
}

impl ObjectIndex {
    /// Whom a change affected.
    pub(super) fn concerned(&mut self, api: Api, kind: Option<WorkKind>, event: &Event) -> Vec<WorkItem> {
        let object_key = &event.object.object_key;
        let mut keys = Vec::new();
        for stored in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
            keys.extend(stored.owners().filter_map(|owner| self.owners.get(owner)).cloned());
            if api == PODS {
                self.add_selecting(stored, &mut keys);
            }
        }
        let gone = event.change == Change::Deleted;
        match kind {
            None if api == STORAGE_CLASSES => keys.extend(self.claims()),
            None => {}
            Some(WorkKind::Node) => {
                // Pods without a node may have a chance now.
                keys.extend(self.unscheduled(None));
                keys.extend(self.owners.values().filter(|key| key.kind == WorkKind::DaemonSet).cloned());
            }
            Some(WorkKind::Pod) if gone => {
                self.stages.remove(object_key);
                self.addresses.remove(object_key);
            }
            Some(WorkKind::Pod) => {}
            Some(kind @ (WorkKind::Service | WorkKind::Budget)) => {
                let object = event.object.decode();
                self.learn_selector(&WorkItem { kind, object_key: object_key.clone() }, &object, gone);
                self.learn_owner(kind, event);
            }
            Some(WorkKind::Claim) => {
                let claim = event.object.decode();
                match gone || text(&claim, "/status/phase") == "Bound" {
                    true => self.pending_claims.remove(object_key),
                    false => self.pending_claims.insert(object_key.clone()),
                };
                let volume = text(&claim, "/spec/volumeName");
                if !volume.is_empty() {
                    keys.push(WorkItem { kind: WorkKind::Volume, object_key: ObjectKey::new("", volume) });
                }
                keys.extend(self.unscheduled(Some(&object_key.namespace)));
            }
            Some(WorkKind::Volume) => {
                let volume = event.object.decode();
                let reference = &volume["spec"]["claimRef"];
                let claim = ObjectKey::new(namespace(&json!({"metadata": reference})), text(reference, "/name"));
                keys.push(WorkItem { kind: WorkKind::Claim, object_key: claim });
                keys.extend(self.claims());
            }
            Some(kind) => self.learn_owner(kind, event),
        }
        keys.extend(kind.map(|kind| WorkItem { kind, object_key: object_key.clone() }));
        keys
    }

    fn claims(&self) -> impl Iterator<Item = WorkItem> {
        self.pending_claims.iter().map(|object_key| WorkItem { kind: WorkKind::Claim, object_key: object_key.clone() })
    }

    /// Pods without a node.
    fn unscheduled(&self, namespace: Option<&str>) -> impl Iterator<Item = WorkItem> {
        let found = self.stages.iter().filter(move |(object_key, (stage, _))| {
            *stage == Stage::Unscheduled && namespace.is_none_or(|namespace| namespace == &*object_key.namespace)
        });
        found.map(|(object_key, _)| WorkItem { kind: WorkKind::Pod, object_key: object_key.clone() })
    }

    /// Those who select a pod.
    fn add_selecting(&self, pod: &Stored, keys: &mut Vec<WorkItem>) {
        let candidates = self.selectors.get(&pod.object_key.namespace).into_iter().flatten();
        let selecting = candidates.filter(|(_, selector)| selects(selector, |key| pod.label(key)));
        keys.extend(selecting.map(|(key, _)| key.clone()));
    }

    fn learn_selector(&mut self, key: &WorkItem, object: &Value, gone: bool) {
        let selector = match key.kind {
            WorkKind::Service if service::has_selector(object) => json!({"matchLabels": object["spec"]["selector"]}),
            WorkKind::Budget => object["spec"]["selector"].clone(),
            _ => Value::Null,
        };
        let here = self.selectors.entry(Arc::clone(&key.object_key.namespace)).or_default();
        match gone || selector.is_null() {
            true => here.remove(key),
            false => here.insert(key.clone(), selector),
        };
        if here.is_empty() {
            self.selectors.remove(&key.object_key.namespace);
        }
    }

    fn learn_owner(&mut self, kind: WorkKind, event: &Event) {
        match event.change {
            Change::Modified => {}
            Change::Added => {
                let key = WorkItem { kind, object_key: event.object.object_key.clone() };
                self.owners.insert(uid(&event.object.decode()).into(), key);
            }
            Change::Deleted => {
                self.owners.remove(uid(&event.object.decode()));
            }
        }
    }

    /// Since when a pod has been in its stage, from the driver's point of view.
    pub(super) fn since(&mut self, object_key: &ObjectKey, stage: Stage, now: Timestamp) -> Timestamp {
        match self.stages.get(object_key) {
            Some((known, since)) if *known == stage => *since,
            _ => {
                self.stages.insert(object_key.clone(), (stage, now));
                now
            }
        }
    }

    /// Remembers the address that a pod has.
    pub(super) fn learn_address(&mut self, object_key: &ObjectKey, address: &str) {
        let parts: Vec<u32> = address.split('.').filter_map(|part| part.parse().ok()).collect();
        if let [10, 244, high, low] = parts[..] {
            self.addresses.insert(object_key.clone(), high * 256 + low);
            self.last_address = self.last_address.max(high * 256 + low);
        }
    }

    /// An address for a pod: its own, or a free one.
    pub(super) fn address(&mut self, object_key: &ObjectKey) -> String {
        let number = match self.addresses.get(object_key) {
            Some(number) => *number,
            None => {
                let next = self.last_address % 0xfffe + 1;
                // The network is only searched once it has been used up.
                let number = match self.addresses.len() > 0xfff0 || next < self.last_address {
                    false => next,
                    true => {
                        let taken: std::collections::HashSet<u32> = self.addresses.values().copied().collect();
                        (1..0xffff).find(|number| !taken.contains(number)).unwrap_or(next)
                    }
                };
                self.last_address = next;
                self.addresses.insert(object_key.clone(), number);
                number
            }
        };
        format!("10.244.{}.{}", number >> 8, number & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_kept() {
        let mut memory = ObjectIndex::default();
        let object_key = |name: &str| ObjectKey::new("default", name);
        memory.learn_address(&object_key("old"), "10.244.0.7");
        assert_eq!(memory.address(&object_key("new")), "10.244.0.8");
        assert_eq!(memory.address(&object_key("old")), "10.244.0.7");
        assert_eq!(memory.address(&object_key("new")), "10.244.0.8");
        memory.learn_address(&object_key("last"), "10.244.255.254");
        assert_eq!(memory.address(&object_key("wrapped")), "10.244.0.1");
    }

    #[test]
    fn stages_are_timed() {
        let mut memory = ObjectIndex::default();
        let (object_key, early) = (ObjectKey::new("default", "a"), Timestamp::UNIX_EPOCH);
        let late = crate::controllers::workloads::objects::seconds(early, 5);
        assert_eq!(memory.since(&object_key, Stage::Starting, early), early);
        assert_eq!(memory.since(&object_key, Stage::Starting, late), early);
        assert_eq!(memory.since(&object_key, Stage::Stopping, late), late);
    }
}
