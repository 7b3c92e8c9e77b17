//! In which few ways the built-in kinds differ when they are written.
//!
//! A real server has a strategy per kind, in code. These are its answers to the questions that
//! `admit.rs` and the verbs ask; a kind that is not named does as most kinds do.

use crate::catalog::{Origin, ResourceType};
use crate::values::names::NameRule;

/// How the generation of an object counts the changes of its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// It has none.
    Never,
    /// It begins with 1.
    FromOne,
    /// It is shown only after the first change.
    AfterChange,
    /// It begins with 1 and stays.
    Fixed,
}

/// How objects of a resource count their changes.
pub(crate) fn generation(resource: &ResourceType) -> Generation {
    if matches!(resource.origin, Origin::Custom(_)) {
        return Generation::FromOne;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods" | "podtemplates" | "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", _)
        | ("networking.k8s.io", "ingresses" | "networkpolicies" | "ingressclasses")
        | ("policy", "poddisruptionbudgets")
        | ("apiextensions.k8s.io" | "admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("discovery.k8s.io", "endpointslices")
        | ("resource.k8s.io", "deviceclasses" | "resourceslices" | "devicetaintrules") => Generation::FromOne,
        ("scheduling.k8s.io", "priorityclasses") => Generation::Fixed,
        ("storage.k8s.io", "csidrivers") => Generation::AfterChange,
        _ => Generation::Never,
    }
}

/// How objects of a resource may be called.
pub(crate) fn name_rule(resource: &ResourceType) -> NameRule {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces" | "services") | ("apps", "statefulsets") => NameRule::Label,
        ("", "replicationcontrollers") => NameRule::LongName,
        // The server does not check the names of core events.
        ("", "events") | ("policy", "poddisruptionbudgets") => NameRule::PathSegment,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        ("certificates.k8s.io", "certificatesigningrequests") => NameRule::Any,
        ("networking.k8s.io", "ipaddresses") => NameRule::Address,
        _ => NameRule::Subdomain,
    }
}

/// Whether only those may replace an object who have seen its current state.
pub(crate) fn needs_version(resource: &ResourceType) -> bool {
    resource.custom().is_some()
        || matches!(
            (resource.group.as_str(), resource.plural.as_str()),
            (
                "apiextensions.k8s.io"
                    | "admissionregistration.k8s.io"
                    | "coordination.k8s.io"
                    | "apiregistration.k8s.io"
                    | "internal.apiserver.k8s.io"
                    | "storagemigration.k8s.io",
                _
            ) | ("policy", "poddisruptionbudgets")
                | ("node.k8s.io", "runtimeclasses")
                | ("certificates.k8s.io", "clustertrustbundles" | "podcertificaterequests")
                | ("storage.k8s.io", "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments")
        )
}

/// Whether an update creates a missing object.
pub(crate) fn creates_on_update(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "endpoints" | "services" | "limitranges" | "events")
            | ("coordination.k8s.io", _)
            | ("events.k8s.io", "events")
            | ("node.k8s.io", "runtimeclasses")
            | ("rbac.authorization.k8s.io", _)
    )
}

/// Whether writers of the status change nothing of the metadata.
pub(crate) fn status_keeps_metadata(resource: &ResourceType) -> bool {
    resource.custom().is_some()
        || matches!(
            (resource.group.as_str(), resource.plural.as_str()),
            ("flowcontrol.apiserver.k8s.io", _)
                | ("admissionregistration.k8s.io", "validatingadmissionpolicies")
                | ("networking.k8s.io", "servicecidrs")
                | ("storage.k8s.io", "volumeattachments")
                | ("resource.k8s.io", "resourceclaims" | "devicetaintrules")
                | ("scheduling.k8s.io", "podgroups")
                | ("internal.apiserver.k8s.io" | "storagemigration.k8s.io", _)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn kinds_differ_as_those_of_a_real_server() {
        let catalog = Catalog::built_in();
        let find = |group: &str, version: &str, plural: &str| catalog.get(group, version, plural).unwrap().clone();
        for (group, plural, counts, version, creates, keeps) in [
            ("", "pods", Generation::FromOne, false, false, false),
            ("", "configmaps", Generation::Never, false, false, false),
            ("", "endpoints", Generation::Never, false, true, false),
            ("scheduling.k8s.io", "priorityclasses", Generation::Fixed, false, false, false),
            ("storage.k8s.io", "csidrivers", Generation::AfterChange, true, false, false),
            ("storage.k8s.io", "volumeattachments", Generation::Never, true, false, true),
            ("storage.k8s.io", "storageclasses", Generation::Never, false, false, false),
            ("node.k8s.io", "runtimeclasses", Generation::Never, true, true, false),
            ("coordination.k8s.io", "leases", Generation::Never, true, true, false),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", Generation::FromOne, true, false, true),
            ("flowcontrol.apiserver.k8s.io", "flowschemas", Generation::FromOne, false, false, true),
        ] {
            let resource = find(group, "v1", plural);
            let found = (
                generation(&resource),
                needs_version(&resource),
                creates_on_update(&resource),
                status_keeps_metadata(&resource),
            );
            assert_eq!(found, (counts, version, creates, keeps), "{plural}");
        }
    }

    #[test]
    fn names_have_forms() {
        let catalog = Catalog::built_in();
        for (group, plural, rule) in [
            ("", "services", NameRule::Label),
            ("apps", "deployments", NameRule::Subdomain),
            ("rbac.authorization.k8s.io", "roles", NameRule::PathSegment),
            ("certificates.k8s.io", "certificatesigningrequests", NameRule::Any),
            ("networking.k8s.io", "ipaddresses", NameRule::Address),
        ] {
            assert_eq!(name_rule(catalog.get(group, "v1", plural).unwrap()), rule, "{plural}");
        }
    }
}
