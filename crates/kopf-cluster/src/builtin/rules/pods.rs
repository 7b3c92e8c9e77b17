//! Pods, and the specs of pods in templates.

pub(super) mod containers;
pub(super) mod probes;
pub(super) mod resources;
pub(super) mod security;
pub(super) mod scheduling;
pub(super) mod volumes;
pub(super) mod volume_sources;
pub(super) mod pod_changes;

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::labels_at;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use crate::values::{addresses, names};
use Rule::{Code, Each, Forbid, Given, If, In, Is, Must, Required, Within};
use ValueCheck::{Between, OneOf, Text};

pub(super) const POD: Rules = &[
    Within("spec", SPEC),
    Code(mirror),
    If(Condition::New, &[If(Condition::Has("spec.ephemeralContainers"), &[Code(no_ephemeral)])]),
    If(Condition::Changing, pod_changes::RULES),
];

pub(super) const STATUS: Rules = &[
    Is("status.nominatedNodeName", Text(names::check_subdomain)),
    In("status", &[Each("conditions", &[Code(condition_type)]), Each("podIPs", &[Code(pod_address)])]),
];

/// The spec of a pod; also in templates.
pub(super) const SPEC: Rules = &[
    Each("volumes", volumes::VOLUME),
    Required("containers"),
    Each("containers", containers::CONTAINER),
    Each("initContainers", containers::INIT_CONTAINER),
    In("resources", resources::OF_POD),
    Is("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    Is("dnsPolicy", OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])),
    Code(scheduling::node_selector),
    Code(security::host_flags),
    In("securityContext", security::OF_POD),
    In("affinity", scheduling::AFFINITY),
    Code(dns),
    Each("readinessGates", scheduling::READINESS_GATE),
    Each("topologySpreadConstraints", scheduling::SPREAD),
    Code(scheduling::gates),
    If(Condition::Has("schedulingGates"), &[Code(node_before_scheduling)]),
    Code(security_of_system),
    Is("serviceAccountName", Text(names::check_subdomain)),
    Is("nodeName", Text(names::check_subdomain)),
    Given("activeDeadlineSeconds", Between(1, 2_147_483_647)),
    Code(hostname),
    Is("subdomain", Text(names::check_label)),
    Each("tolerations", scheduling::TOLERATION),
    Each(
        "hostAliases",
        &[Must("ip", Text(addresses::old_address)), Each("hostnames", &[Given("", Text(names::check_subdomain))])],
    ),
    Is("priorityClassName", Text(names::check_subdomain)),
    Is("runtimeClassName", Text(names::check_subdomain)),
    Is("preemptionPolicy", OneOf(&["Never", "PreemptLowerPriority"])),
    Code(resource_claims),
];

fn security_of_system(spec: &Location<'_>, errors: &mut Errors) {
    spec.check(security::OPERATING_SYSTEM, errors);
}

fn no_ephemeral(pod: &Location<'_>, errors: &mut Errors) {
    pod.check(&[Forbid("spec.ephemeralContainers", "cannot be set on create")], errors);
}

/// Pods that a kubelet made out of files are bound to its node.
fn mirror(pod: &Location<'_>, errors: &mut Errors) {
    const ANNOTATION: &str = "kubernetes.io/config.mirror";
    let annotation = pod.get("metadata.annotations").and_then(|annotations| annotations.get(ANNOTATION));
    if let Some(value) = annotation.filter(|_| pod.text("spec.nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(format!("metadata.annotations[{ANNOTATION}]"), value.clone(), detail));
    }
}

fn node_before_scheduling(spec: &Location<'_>, errors: &mut Errors) {
    if spec.is_new && !spec.list("schedulingGates").is_empty() && !spec.text("nodeName").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(spec.at("nodeName"), detail));
    }
}

fn hostname(spec: &Location<'_>, errors: &mut Errors) {
    let hostname = spec.text("hostname");
    if hostname.contains('.') {
        errors.push(spec.invalid("hostname", "must not contain dots"));
    } else if !hostname.is_empty() {
        for problem in names::check_label(hostname) {
            errors.push(spec.invalid("hostname", problem));
        }
    }
}

fn dns(spec: &Location<'_>, errors: &mut Errors) {
    let own = spec.text("dnsPolicy") == "None";
    let Some(config) = spec.enter("dnsConfig") else {
        if own {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(spec.at("dnsConfig"), detail));
        }
        return;
    };
    let servers = config.list("nameservers");
    if own && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(config.at("nameservers"), detail));
        return;
    }
    for (field, limit) in [("nameservers", 3), ("searches", 32)] {
        if config.list(field).len() > limit {
            let what = if field == "nameservers" { "nameservers" } else { "search paths" };
            errors.push(config.invalid(field, format!("must not have more than {limit} {what}")));
        }
        let check = if field == "nameservers" { addresses::old_address } else { values::search_domain };
        for (index, value) in config.list(field).iter().enumerate() {
            for problem in check(value.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(format!("{}[{index}]", config.at(field)), value.clone(), problem));
            }
        }
    }
    config.items("options", |option| {
        if option.text("name").is_empty() {
            errors.push(FieldError::required(option.path.clone(), "must not be empty"));
        }
    });
}

fn resource_claims(spec: &Location<'_>, errors: &mut Errors) {
    spec.items("resourceClaims", |claim| {
        claim.check(&[Must("name", Text(names::check_label)), Rule::Unique("name")], errors);
        let (name, template) = (claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName"));
        let quoted = json!({"Name": claim.text("name"), "ResourceClaimName": name,
            "ResourceClaimTemplateName": template});
        match (name, template) {
            (None, None) => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.push(FieldError::invalid(claim.path.clone(), quoted, detail));
            }
            (Some(_), Some(_)) => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.push(FieldError::invalid(claim.path.clone(), quoted, detail));
            }
            _ => {}
        }
    });
}

fn condition_type(condition: &Location<'_>, errors: &mut Errors) {
    let name = condition.text("type");
    for problem in names::check_qualified_name(name) {
        errors.push(FieldError::invalid(condition.at("Type"), json!(name), problem));
    }
}

fn pod_address(entry: &Location<'_>, errors: &mut Errors) {
    let ip = entry.text("ip");
    for problem in addresses::old_address(ip) {
        errors.push(FieldError::invalid(entry.path.clone(), json!(ip), problem));
    }
}

/// The template of a workload. The paths of errors in its metadata omit the word.
pub(super) const TEMPLATE: Rules = &[Code(template_metadata), Within("spec", TEMPLATE_SPEC)];

const TEMPLATE_SPEC: Rules = &[Code(all_of_spec), Code(no_ephemeral_in_template)];

fn template_metadata(template: &Location<'_>, errors: &mut Errors) {
    labels_at(&template.at("labels"), template.get("metadata.labels"), errors);
    for key in template.get("metadata.annotations").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key)
    {
        for problem in names::check_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(template.at("annotations"), json!(key), problem));
        }
    }
}

fn all_of_spec(spec: &Location<'_>, errors: &mut Errors) {
    spec.check(SPEC, errors);
}

fn no_ephemeral_in_template(spec: &Location<'_>, errors: &mut Errors) {
    if !spec.list("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(spec.at("ephemeralContainers"), detail));
    }
}
