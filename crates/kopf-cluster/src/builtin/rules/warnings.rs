//! Warnings about valid but inadvisable values; they are sent in the headers of the response.
//!
//! The verbs ask here for every object that they have written.

use std::collections::HashMap;

use serde_json::Value;

use crate::catalog::ResourceType;
use crate::go::quantity::Quantity;
use crate::values::{addresses, names};

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Whether objects of a resource can cause warnings.
pub(crate) fn has_warnings(resource: &ResourceType) -> bool {
    const KINDS: [&str; 13] = [
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "statefulsets.apps",
        "replicationcontrollers",
        "cronjobs.batch",
        "podtemplates",
        "services",
        "endpointslices.discovery.k8s.io",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
    ];
    resource.custom().is_none() && KINDS.contains(&resource.qualified())
}

/// The warnings about a written object.
pub(crate) fn warnings(resource: &ResourceType, object: &Value) -> Vec<String> {
    if !has_warnings(resource) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    match resource.qualified() {
        "pods" => {
            about_name(object, "this is used in the Pod's hostname", &mut warnings);
            about_pod(&object["spec"], &object["metadata"], "spec", "metadata", &mut warnings);
        }
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" | "jobs.batch" | "statefulsets.apps" => {
            about_name(object, "this is used in Pod names and hostnames", &mut warnings);
            about_template(&object["spec"]["template"], "spec.template", &mut warnings);
        }
        "replicationcontrollers" => {
            about_name(object, "this is used in Pod names and hostnames", &mut warnings);
            about_template(&object["spec"]["template"], "spec.template", &mut warnings);
        }
        "cronjobs.batch" => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            about_template(template, "spec.jobTemplate.spec.template", &mut warnings);
        }
        "podtemplates" => about_template(&object["template"], "template", &mut warnings),
        "services" => about_service(&object["spec"], &mut warnings),
        "endpointslices.discovery.k8s.io" if object["addressType"] == "FQDN" => {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        "ingresses.networking.k8s.io" if object["metadata"]["annotations"].get(INGRESS_CLASS).is_some() => {
            warnings.push(format!(
                "annotation \"{INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
            ));
        }
        "networkpolicies.networking.k8s.io" => about_ranges(&object["spec"], &mut warnings),
        _ => {}
    }
    warnings
}

/// Ranges of addresses that can be misread.
fn about_ranges(spec: &Value, warnings: &mut Vec<String>) {
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in spec[direction].as_array().into_iter().flatten().enumerate() {
            for (j, peer) in rule[side].as_array().into_iter().flatten().enumerate() {
                let path = format!("spec.{direction}[{i}].{side}[{j}].ipBlock");
                let block = &peer["ipBlock"];
                let mut about = |path: &str, range: &Value| {
                    warnings.extend(addresses::warnings_of_range(path, range.as_str().unwrap_or_default()));
                };
                about(&format!("{path}.cidr"), &block["cidr"]);
                for (k, range) in block["except"].as_array().into_iter().flatten().enumerate() {
                    about(&format!("{path}.except[{k}]"), range);
                }
            }
        }
    }
}

/// Names become names of hosts, which are more limited.
fn about_name(object: &Value, used: &str, warnings: &mut Vec<String>) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut problems = names::check_label(name);
    if name.contains('.') {
        problems = vec!["must not contain dots".to_owned()];
    }
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

fn about_template(template: &Value, path: &str, warnings: &mut Vec<String>) {
    if template.is_object() {
        let (spec, metadata) = (format!("{path}.spec"), format!("{path}.metadata"));
        about_pod(&template["spec"], &template["metadata"], &spec, &metadata, warnings);
    }
}

/// Labels of nodes that have newer names.
const OLD_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
];

/// Volumes that are of the past.
const OLD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn about_pod(spec: &Value, metadata: &Value, path: &str, metadata_path: &str, warnings: &mut Vec<String>) {
    for (label, since, instead) in OLD_NODE_LABELS {
        if spec["nodeSelector"].get(label).is_some() {
            warnings.push(format!("{path}.nodeSelector[{label}]: deprecated since {since}; use \"{instead}\" instead"));
        }
    }
    for (key, _) in metadata["annotations"].as_object().into_iter().flatten() {
        if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            warnings.push(format!(
                "{metadata_path}.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ));
        }
    }
    let aliases = spec["hostAliases"].as_array();
    for (index, alias) in aliases.into_iter().flatten().enumerate() {
        let ip = &alias["ip"];
        if aliases.into_iter().flatten().take(index).any(|earlier| earlier["ip"] == *ip) {
            let shown = ip.as_str().unwrap_or_default();
            warnings.push(format!("{path}.hostAliases[{index}].ip: duplicate ip \"{shown}\""));
        }
    }
    for (index, secret) in spec["imagePullSecrets"].as_array().into_iter().flatten().enumerate() {
        if secret["name"].as_str().is_none_or(str::is_empty) {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        for (source, words) in OLD_VOLUMES {
            if volume.get(source).is_some() {
                warnings.push(format!("{path}.volumes[{index}].{source}: {words}"));
            }
        }
        let sources = volume["projected"]["sources"].as_array();
        if sources
            .is_some_and(|sources| sources.iter().any(|source| source.as_object().is_some_and(|all| all.is_empty())))
        {
            let name = volume["name"].as_str().unwrap_or_default();
            warnings.push(format!("volume \"{name}\" (Projected) has no sources provided"));
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            about_container(container, &format!("{path}.{list}[{index}]"), warnings);
        }
    }
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
}

fn about_container(container: &Value, path: &str, warnings: &mut Vec<String>) {
    for field in ["limits", "requests"] {
        for name in ["memory", "ephemeral-storage"] {
            let amount = container["resources"][field].get(name).and_then(Quantity::of);
            if let Some(amount) = amount.filter(|amount| !amount.is_whole()) {
                warnings.push(format!(
                    "{path}.resources.{field}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
                ));
            }
        }
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        if let Some(_earlier) = seen.insert(name, index) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
    about_ports(container, path, warnings);
}

fn about_ports(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let ports = container["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |port: &Value, field: &str| port[field].as_str().unwrap_or_default().to_owned();
    for (index, port) in ports.iter().enumerate() {
        let number = |field: &str| port[field].as_i64().unwrap_or_default();
        if !text(port, "hostIP").is_empty() && number("hostPort") == 0 {
            warnings.push(format!(
                "{path}.ports[{index}]: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}",
                text(port, "name"),
                number("containerPort"),
                text(port, "protocol"),
                text(port, "hostIP"),
            ));
        }
        let same = |other: &Value| {
            ["containerPort", "protocol", "hostIP"].iter().all(|field| other[field] == port[field])
                && other["hostPort"].as_i64().unwrap_or_default() == number("hostPort")
        };
        if let Some(earlier) = ports.iter().take(index).position(same) {
            warnings.push(format!("{path}.ports[{index}]: duplicate port definition with {path}.ports[{earlier}]"));
        }
    }
}

fn about_service(spec: &Value, warnings: &mut Vec<String>) {
    if spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty()) {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
}
