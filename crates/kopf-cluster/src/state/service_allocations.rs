//! The cluster IPs and node ports of services, so that new services get free ones.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::store::{ObjectKey, Stored};

/// The allocations of all services; each version of a service is parsed once.
#[derive(Debug, Default)]
pub(crate) struct ServiceAllocations {
    entries: Mutex<HashMap<ObjectKey, ServiceEntry>>,
}

/// The allocations of one service.
#[derive(Debug)]
struct ServiceEntry {
    version: u64,
    taken: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServiceSpec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    ports: Option<Vec<ServicePort>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServicePort {
    node_port: Option<i64>,
}

/// All allocated addresses and ports.
#[derive(Debug, Default)]
pub(crate) struct AllocatedAddresses {
    pub addresses: HashSet<String>,
    pub ports: HashSet<i64>,
}

impl ServiceAllocations {
    pub(crate) fn taken(&self, services: &[Arc<Stored>]) -> AllocatedAddresses {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Entries of deleted services are dropped when there are too many.
        if entries.len() > 2 * services.len() + 64 {
            entries.clear();
        }
        let mut all = AllocatedAddresses::default();
        for stored in services {
            let known = entries.get(&stored.object_key).is_some_and(|entry| entry.version == stored.version);
            if !known {
                entries.insert(
                    stored.object_key.clone(),
                    ServiceEntry { version: stored.version, taken: ServiceSpec::read(&stored.raw) },
                );
            }
            if let Some(ServiceEntry { taken, .. }) = entries.get(&stored.object_key) {
                all.addresses.extend(taken.cluster_ip.clone());
                all.ports.extend(taken.ports.iter().flatten().filter_map(|port| port.node_port));
            }
        }
        all
    }
}

impl ServiceSpec {
    fn read(raw: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Service {
            spec: Option<ServiceSpec>,
        }
        // The schema was checked before the service was written.
        serde_json::from_slice::<Service>(raw).ok().and_then(|service| service.spec).unwrap_or_default()
    }
}
