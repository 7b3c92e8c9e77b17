//! Services: addresses and ports.

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::go::FieldError;
use crate::request::status::StatusError;
use crate::state::State;

/// Allocates a cluster IP, and node ports if the type needs them. A dry run allocates nothing.
pub(super) fn prepare_new(
    state: &State,
    resource: &ResourceType,
    service: &mut Value,
    dry_run: bool,
) -> Result<(), StatusError> {
    if service["spec"]["type"] == "ExternalName" || !service["spec"].is_object() {
        return Ok(());
    }
    let services = state.store().list(&resource.storage, None, None);
    let taken = state.service_allocations.taken(&services);
    if service["spec"]["clusterIP"].as_str().is_none_or(str::is_empty) {
        let is_free = |address: &String| !taken.addresses.contains(address);
        let addresses = (0..=255).flat_map(|high| (1..=254).map(move |low| format!("10.0.{high}.{low}")));
        let address = addresses.into_iter().find(is_free).unwrap_or_default();
        if !dry_run && service["metadata"]["name"].as_str().is_none_or(str::is_empty) {
            // An IPAddress object needs the name of its service.
            let detail = format!(
                "failed to allocate IP: IPAddress.networking.k8s.io \"{address}\" is invalid: spec.parentRef.name: \
                 Required value"
            );
            let error = FieldError::invalid("spec.clusterIPs", json!([""]), detail);
            return Err(StatusError::invalid(resource, "", &[error]));
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

/// A service keeps its allocations, even if an update omits them.
pub(super) fn prepare_change(old: &Value, service: &mut Value) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let missing = service["spec"].get(field).is_none_or(|value| value.is_null() || value == "");
        if let Some(kept) = old["spec"].get(field).filter(|_| missing) {
            service["spec"][field] = kept.clone();
        }
    }
}
