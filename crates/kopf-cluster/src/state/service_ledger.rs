//! The addresses and ports that services have taken.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::store::{Place, Stored};

/// What services have taken, as far as they were read: each version of a service is read once.
#[derive(Debug, Default)]
pub struct ServiceLedger {
    entries: Mutex<HashMap<Place, Entry>>,
}

/// What one service has taken.
#[derive(Debug)]
struct Entry {
    version: u64,
    taken: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    ports: Option<Vec<Port>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    node_port: Option<i64>,
}

/// All that is taken.
#[derive(Debug, Default)]
pub struct Taken {
    pub addresses: HashSet<String>,
    pub ports: HashSet<i64>,
}

impl ServiceLedger {
    pub fn taken(&self, services: &[Arc<Stored>]) -> Taken {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of services that are gone are forgotten when they are too many.
        if entries.len() > 2 * services.len() + 64 {
            entries.clear();
        }
        let mut all = Taken::default();
        for stored in services {
            let known = entries.get(&stored.place).is_some_and(|entry| entry.version == stored.version);
            if !known {
                entries.insert(stored.place.clone(), Entry { version: stored.version, taken: Spec::read(&stored.raw) });
            }
            if let Some(Entry { taken, .. }) = entries.get(&stored.place) {
                all.addresses.extend(taken.cluster_ip.clone());
                all.ports.extend(taken.ports.iter().flatten().filter_map(|port| port.node_port));
            }
        }
        all
    }
}

impl Spec {
    fn read(raw: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Service {
            spec: Option<Spec>,
        }
        // It was checked by its schema before it was written.
        serde_json::from_slice::<Service>(raw).ok().and_then(|service| service.spec).unwrap_or_default()
    }
}
