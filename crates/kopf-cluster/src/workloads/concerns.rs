//! Whom a change concerns: the object itself, its owners, and whoever waits for something like it.
//!
//! The driver tells every change here, and looks at the keys that come back. Pods are never decoded
//! for it: the store knows the uids of their owners.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::agenda::{Key, Kind};
use super::objects::uid;
use super::plan::{Api, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS};
use super::pod::Stage;
use crate::store::{Change, Event, Place, Stored};

/// The resources that are followed, with the kinds that have a controller.
pub const FOLLOWED: [(Api, Option<Kind>); 5] = [
    (NODES, None),
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
        }
        let Some(kind) = kind else {
            // A node has come or changed: pods without one may have a chance.
            let unscheduled = self.stages.iter().filter(|(_, (stage, _))| *stage == Stage::Unscheduled);
            keys.extend(unscheduled.map(|(place, _)| Key { kind: Kind::Pod, place: place.clone() }));
            return keys;
        };
        let key = Key { kind, place: place.clone() };
        match (api == PODS, event.change) {
            (true, Change::Deleted) => {
                self.stages.remove(place);
                self.addresses.remove(place);
            }
            (true, _) => {}
            (false, change) => self.learn_owner(&key, change, &event.object, event.previous.as_ref()),
        }
        keys.push(key);
        keys
    }

    fn learn_owner(&mut self, key: &Key, change: Change, object: &Stored, previous: Option<&Arc<Stored>>) {
        match change {
            Change::Modified if previous.is_some() => {}
            Change::Added | Change::Modified => {
                self.owners.insert(uid(&object.decode()).into(), key.clone());
            }
            Change::Deleted => {
                self.owners.remove(uid(&object.decode()));
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
        let late = super::super::objects::seconds(early, 5);
        assert_eq!(memory.since(&place, Stage::Starting, early), early);
        assert_eq!(memory.since(&place, Stage::Starting, late), early);
        assert_eq!(memory.since(&place, Stage::Stopping, late), late);
    }
}
