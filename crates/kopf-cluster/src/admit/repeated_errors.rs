//! How often a real server repeats an error about the metadata of an update.
//!
//! It checks the metadata once for all kinds, and again in the validation of each kind. The message lists every
//! error once, but the causes in the details repeat it.

use crate::catalog::ResourceType;

/// How often a problem with labels, annotations and names is found on updates.
pub(super) fn of_metadata(resource: &ResourceType) -> usize {
    if resource.custom().is_some() {
        return 1;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "events") => 2,
        ("node.k8s.io", "runtimeclasses")
        | ("rbac.authorization.k8s.io", _)
        | (
            "",
            "endpoints" | "configmaps" | "secrets" | "serviceaccounts" | "persistentvolumes" | "pods" | "nodes"
            | "namespaces",
        )
        | ("apps", "controllerrevisions")
        | ("batch", "jobs")
        | ("certificates.k8s.io", "certificatesigningrequests")
        | ("networking.k8s.io", "ingresses" | "ingressclasses" | "ipaddresses")
        | ("storage.k8s.io", "storageclasses" | "csistoragecapacities" | "volumeattributesclasses") => 4,
        ("policy", "poddisruptionbudgets") => 2,
        _ => 3,
    }
}

/// How often a new finalizer of an object that is being deleted is found.
pub(super) fn of_finalizers(resource: &ResourceType) -> usize {
    match (resource.group.as_str(), resource.plural.as_str()) {
        _ if resource.custom().is_some() => 2,
        ("", "persistentvolumes" | "limitranges" | "events")
        | ("policy", "poddisruptionbudgets")
        | ("storage.k8s.io", "csinodes" | "volumeattachments")
        | ("discovery.k8s.io", "endpointslices")
        | ("flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io", _) => 1,
        _ => 2,
    }
}

/// Whether finalizers must be standard ones, or have a domain.
pub(super) fn wants_standard_finalizers(resource: &ResourceType) -> bool {
    resource.custom().is_none()
        && !matches!(
            (resource.group.as_str(), resource.plural.as_str()),
            ("coordination.k8s.io", "leases")
                | ("policy", "poddisruptionbudgets")
                | ("node.k8s.io", "runtimeclasses")
                | ("admissionregistration.k8s.io", _)
                | ("", "events")
        )
}
