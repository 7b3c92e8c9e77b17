//! Whom a change concerns: the object itself, its owners, and whoever waits for something like it.
//!
//! The driver tells every change here, and looks at the keys that come back. Pods are never decoded
//! for it: the store knows the uids of their owners.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::agenda::{Key, Kind};
use super::objects::{namespace, selects, text, uid};
use super::plan::{
    Api, BUDGETS, CLAIMS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, JOBS, NODES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, STORAGE_CLASSES, VOLUMES,
};
use super::pod::Stage;
use super::service;
use crate::store::{Change, Event, Place, Stored};

/// The resources that are followed, with the kinds that have a controller; owners before what they own.
pub const FOLLOWED: [(Api, Option<Kind>); 15] = [
    (NODES, Some(Kind::Node)),
    (STORAGE_CLASSES, None),
    (VOLUMES, Some(Kind::Volume)),
    (CLAIMS, Some(Kind::Claim)),
    (SERVICES, Some(Kind::Service)),
    (ENDPOINT_SLICES, None),
    (BUDGETS, Some(Kind::Budget)),
    (CRON_JOBS, Some(Kind::CronJob)),
    (JOBS, Some(Kind::Job)),
    (DAEMON_SETS, Some(Kind::DaemonSet)),
    (STATEFUL_SETS, Some(Kind::StatefulSet)),
    (DEPLOYMENTS, Some(Kind::Deployment)),
    (REPLICA_SETS, Some(Kind::ReplicaSet)),
    (REPLICATION_CONTROLLERS, Some(Kind::ReplicationController)),
    (PODS, Some(Kind::Pod)),
];

/// What the driver remembers of the objects, to be found again in the store at any time.
#[derive(Debug, Default)]
pub struct Memory {
    /// The owners by their uids.
    owners: HashMap<Box<str>, Key>,
    /// Who selects pods by their labels, by namespace.
    selectors: HashMap<Arc<str>, HashMap<Key, Value>>,
    /// Claims without a volume.
    pending_claims: BTreeSet<Place>,
    /// Since when pods have been in their stages.
    stages: HashMap<Place, (Stage, Timestamp)>,
    /// Which pod has which address: numbers in the network of the pods.
    addresses: HashMap<Place, u32>,
    /// The address that was given last.
    last_address: u32,
}

impl Memory {
    /// Whom a change concerns.
    pub fn concerned(&mut self, api: Api, kind: Option<Kind>, event: &Event) -> Vec<Key> {
        let place = &event.object.place;
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
            Some(Kind::Node) => {
                // Pods without a node may have a chance now.
                keys.extend(self.unscheduled(None));
                keys.extend(self.owners.values().filter(|key| key.kind == Kind::DaemonSet).cloned());
            }
            Some(Kind::Pod) if gone => {
                self.stages.remove(place);
                self.addresses.remove(place);
            }
            Some(Kind::Pod) => {}
            Some(kind @ (Kind::Service | Kind::Budget)) => {
                let object = event.object.decode();
                self.learn_selector(&Key { kind, place: place.clone() }, &object, gone);
                self.learn_owner(kind, event);
            }
            Some(Kind::Claim) => {
                let claim = event.object.decode();
                match gone || text(&claim, "/status/phase") == "Bound" {
                    true => self.pending_claims.remove(place),
                    false => self.pending_claims.insert(place.clone()),
                };
                let volume = text(&claim, "/spec/volumeName");
                if !volume.is_empty() {
                    keys.push(Key { kind: Kind::Volume, place: Place::new("", volume) });
                }
                keys.extend(self.unscheduled(Some(&place.namespace)));
            }
            Some(Kind::Volume) => {
                let volume = event.object.decode();
                let reference = &volume["spec"]["claimRef"];
                let claim = Place::new(namespace(&json!({"metadata": reference})), text(reference, "/name"));
                keys.push(Key { kind: Kind::Claim, place: claim });
                keys.extend(self.claims());
            }
            Some(kind) => self.learn_owner(kind, event),
        }
        keys.extend(kind.map(|kind| Key { kind, place: place.clone() }));
        keys
    }

    fn claims(&self) -> impl Iterator<Item = Key> {
        self.pending_claims.iter().map(|place| Key { kind: Kind::Claim, place: place.clone() })
    }

    /// Pods without a node.
    fn unscheduled(&self, namespace: Option<&str>) -> impl Iterator<Item = Key> {
        let found = self.stages.iter().filter(move |(place, (stage, _))| {
            *stage == Stage::Unscheduled && namespace.is_none_or(|namespace| namespace == &*place.namespace)
        });
        found.map(|(place, _)| Key { kind: Kind::Pod, place: place.clone() })
    }

    /// Those who select a pod.
    fn add_selecting(&self, pod: &Stored, keys: &mut Vec<Key>) {
        let candidates = self.selectors.get(&pod.place.namespace).into_iter().flatten();
        let selecting = candidates.filter(|(_, selector)| selects(selector, |key| pod.label(key)));
        keys.extend(selecting.map(|(key, _)| key.clone()));
    }

    fn learn_selector(&mut self, key: &Key, object: &Value, gone: bool) {
        let selector = match key.kind {
            Kind::Service if service::has_selector(object) => json!({"matchLabels": object["spec"]["selector"]}),
            Kind::Budget => object["spec"]["selector"].clone(),
            _ => Value::Null,
        };
        let here = self.selectors.entry(Arc::clone(&key.place.namespace)).or_default();
        match gone || selector.is_null() {
            true => here.remove(key),
            false => here.insert(key.clone(), selector),
        };
        if here.is_empty() {
            self.selectors.remove(&key.place.namespace);
        }
    }

    fn learn_owner(&mut self, kind: Kind, event: &Event) {
        match event.change {
            Change::Modified => {}
            Change::Added => {
                let key = Key { kind, place: event.object.place.clone() };
                self.owners.insert(uid(&event.object.decode()).into(), key);
            }
            Change::Deleted => {
                self.owners.remove(uid(&event.object.decode()));
            }
        }
    }

    /// Since when a pod has been in its stage, from the driver's point of view.
    pub fn since(&mut self, place: &Place, stage: Stage, now: Timestamp) -> Timestamp {
        match self.stages.get(place) {
            Some((known, since)) if *known == stage => *since,
            _ => {
                self.stages.insert(place.clone(), (stage, now));
                now
            }
        }
    }

    /// Remembers the address that a pod has.
    pub fn learn_address(&mut self, place: &Place, address: &str) {
        let parts: Vec<u32> = address.split('.').filter_map(|part| part.parse().ok()).collect();
        if let [10, 244, high, low] = parts[..] {
            self.addresses.insert(place.clone(), high * 256 + low);
            self.last_address = self.last_address.max(high * 256 + low);
        }
    }

    /// An address for a pod: its own, or a free one.
    pub fn address(&mut self, place: &Place) -> String {
        let number = match self.addresses.get(place) {
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
                self.addresses.insert(place.clone(), number);
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
        let mut memory = Memory::default();
        let place = |name: &str| Place::new("default", name);
        memory.learn_address(&place("old"), "10.244.0.7");
        assert_eq!(memory.address(&place("new")), "10.244.0.8");
        assert_eq!(memory.address(&place("old")), "10.244.0.7");
        assert_eq!(memory.address(&place("new")), "10.244.0.8");
        memory.learn_address(&place("last"), "10.244.255.254");
        assert_eq!(memory.address(&place("wrapped")), "10.244.0.1");
    }

    #[test]
    fn stages_are_timed() {
        let mut memory = Memory::default();
        let (place, early) = (Place::new("default", "a"), Timestamp::UNIX_EPOCH);
        let late = crate::controllers::workloads::objects::seconds(early, 5);
        assert_eq!(memory.since(&place, Stage::Starting, early), early);
        assert_eq!(memory.since(&place, Stage::Starting, late), early);
        assert_eq!(memory.since(&place, Stage::Stopping, late), late);
    }
}
