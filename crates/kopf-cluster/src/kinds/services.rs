//! Services: addresses and ports.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::schema::FieldError;
use crate::state::State;
use crate::status::Refusal;
use crate::store::{Place, Stored};

/// What services have taken, as far as they were read: each version of a service is read once.
#[derive(Debug, Default)]
pub struct Ledger {
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
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
}

impl Ledger {
    fn taken(&self, services: &[Arc<Stored>]) -> Taken {
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

/// Services get an address of their own, and ports on nodes if they want them. A dry run takes none.
pub fn prepare_new(state: &State, resource: &ResourceType, service: &mut Value, dry_run: bool) -> Result<(), Refusal> {
    if service["spec"]["type"] == "ExternalName" || !service["spec"].is_object() {
        return Ok(());
    }
    let services = state.store().list(&resource.storage, None, None);
    let taken = state.service_ledger.taken(&services);
    if service["spec"]["clusterIP"].as_str().is_none_or(str::is_empty) {
        let is_free = |address: &String| !taken.addresses.contains(address);
        let addresses = (0..=255).flat_map(|high| (1..=254).map(move |low| format!("10.0.{high}.{low}")));
        let address = addresses.into_iter().find(is_free).unwrap_or_default();
        if !dry_run && service["metadata"]["name"].as_str().is_none_or(str::is_empty) {
            // Addresses tell whose they are.
            let detail = format!(
                "failed to allocate IP: IPAddress.networking.k8s.io \"{address}\" is invalid: spec.parentRef.name: \
                 Required value"
            );
            let error = FieldError::invalid("spec.clusterIPs", json!([""]), detail);
            return Err(Refusal::invalid(resource, "", &[error]));
        }
        service["spec"]["clusterIP"] = json!(address);
    }
    let spec = &mut service["spec"];
    spec["clusterIPs"] = json!([spec["clusterIP"]]);
    for (field, value) in [("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))] {
        if spec.get(field).is_none() {
            spec[field] = value;
        }
    }
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        let mut free = (30_000..32_768).filter(|port| !taken.ports.contains(port));
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if port.get("nodePort").is_none_or(|port| port == 0) {
                port["nodePort"] = json!(free.next());
            }
        }
    }
    Ok(())
}

/// What was given to a service stays its own, also if an update leaves it out.
pub fn prepare_change(old: &Value, service: &mut Value) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let missing = service["spec"].get(field).is_none_or(|value| value.is_null() || value == "");
        if let Some(kept) = old["spec"].get(field).filter(|_| missing) {
            service["spec"][field] = kept.clone();
        }
    }
}
