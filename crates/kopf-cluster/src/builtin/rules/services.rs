//! Services, and the addresses behind them.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::labels_at;
use super::{Condition, Location, Rule, Rules, ValueCheck};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::{addresses, names};
use Rule::{Code, Each, Given, If, Immutable, In, Is, Must, Needs, Required, Within};
use ValueCheck::{Between, OneOf, PortOrName, Text};

pub(super) const SERVICE: Rules = &[
    If(Condition::Changing, &[Code(address_change)]),
    Within(
        "spec",
        &[
            Code(needed_ports),
            Code(kind_of_service),
            Each("ports", PORT),
            Code(selector),
            Is("sessionAffinity", OneOf(&["ClientIP", "None"])),
            If(Condition::Is("sessionAffinity", "ClientIP"), &[Code(affinity_timeout)]),
            Code(addresses),
            Each("externalIPs", &[Given("", Text(addresses::old_address)), Code(not_special)]),
            Is("type", OneOf(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"])),
            Code(same_port),
            Code(only_outside),
            Code(load_balancer),
            Is("internalTrafficPolicy", OneOf(&["Cluster", "Local"])),
            Is("trafficDistribution", OneOf(&["PreferClose", "PreferSameZone", "PreferSameNode"])),
        ],
    ),
];

pub(super) const STATUS: Rules = &[Code(balanced)];

const PORT: Rules = &[
    Code(port_name),
    Must("port", Between(1, 65535)),
    Must("protocol", OneOf(&["SCTP", "TCP", "UDP"])),
    Must("targetPort", PortOrName),
    Is("appProtocol", Text(names::check_qualified_name)),
];

fn is_headless(spec: &Location<'_>) -> bool {
    spec.text("clusterIP") == "None"
}

fn needed_ports(spec: &Location<'_>, errors: &mut Errors) {
    if spec.list("ports").is_empty() && !is_headless(spec) && spec.text("type") != "ExternalName" {
        errors.push(FieldError::required(spec.at("ports"), ""));
    }
}

fn kind_of_service(spec: &Location<'_>, errors: &mut Errors) {
    let kind = spec.text("type");
    match kind {
        "NodePort" | "LoadBalancer" if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(spec.at("clusterIPs[0]"), json!("None"), detail));
        }
        "ExternalName" => {
            if !spec.list("clusterIPs").is_empty() || !spec.text("clusterIP").is_empty() {
                let detail = "may not be set for ExternalName services";
                errors.push(FieldError::forbidden(spec.at("clusterIPs"), detail));
            }
            let name = spec.text("externalName");
            if name.is_empty() {
                errors.push(FieldError::required(spec.at("externalName"), ""));
            } else {
                for problem in names::check_subdomain(name.strip_suffix('.').unwrap_or(name)) {
                    errors.push(spec.invalid("externalName", problem));
                }
            }
        }
        _ => {}
    }
}

fn port_name(port: &Location<'_>, errors: &mut Errors) {
    let name = port.text("name");
    let alone = port.parent.is_some_and(|spec| spec.list("ports").len() <= 1);
    if name.is_empty() {
        if !alone {
            errors.push(FieldError::required(port.at("name"), ""));
        }
        return;
    }
    for problem in names::check_label(name) {
        errors.push(port.invalid("name", problem));
    }
    if port.earlier().iter().any(|other| other["name"] == name) {
        errors.push(FieldError::duplicate(port.at("name"), json!(name)));
    }
}

fn selector(spec: &Location<'_>, errors: &mut Errors) {
    labels_at(&spec.at("selector"), spec.get("selector"), errors);
}

fn affinity_timeout(spec: &Location<'_>, errors: &mut Errors) {
    let field = "sessionAffinityConfig.clientIP.timeoutSeconds";
    if spec.number(field).is_some_and(|seconds| !(1..=86400).contains(&seconds)) {
        errors.push(spec.invalid(field, "must be greater than 0 and less than 86400"));
    }
}

fn addresses(spec: &Location<'_>, errors: &mut Errors) {
    for (index, family) in spec.list("ipFamilies").iter().enumerate() {
        let path = spec.at(&format!("ipFamilies[{index}]"));
        match family.as_str().unwrap_or_default() {
            "IPv4" => {}
            "IPv6" => errors.push(FieldError::invalid(path, family.clone(), "not configured on this cluster")),
            _ => {
                let supported = ["IPv4", "IPv6"].map(str::to_owned);
                errors.push(FieldError::not_supported(path, family.clone(), &supported));
            }
        }
    }
    match spec.text("ipFamilyPolicy") {
        "" | "SingleStack" | "PreferDualStack" => {}
        "RequireDualStack" => {
            errors.push(spec.invalid("ipFamilyPolicy", "this cluster is not configured for dual-stack services"));
        }
        other => {
            let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"].map(str::to_owned);
            errors.push(FieldError::not_supported(spec.at("ipFamilyPolicy"), json!(other), &supported));
        }
    }
    let address = spec.text("clusterIP");
    if spec.text("type") == "ExternalName" || address.is_empty() || address == "None" {
        return;
    }
    let problems = addresses::old_address(address);
    for problem in &problems {
        errors.push(FieldError::invalid(spec.at("clusterIPs[0]"), json!(address), problem.clone()));
    }
    if problems.is_empty() && spec.is_new && !address.starts_with("10.0.") {
        let detail = format!(
            "failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of \
             valid IPs is 10.0.0.0/16"
        );
        errors.push(FieldError::invalid(spec.at("clusterIPs"), json!([address]), detail));
    }
}

/// Addresses that never lead to another machine.
pub(super) fn not_special(entry: &Location<'_>, errors: &mut Errors) {
    let Some(text) = entry.value.as_str() else { return };
    special_address(&entry.path, text, errors);
}

fn special_address(path: &str, text: &str, errors: &mut Errors) {
    let Ok(address) = text.parse::<std::net::IpAddr>() else { return };
    let local = match address {
        std::net::IpAddr::V4(address) => address.is_link_local(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let detail = match () {
        () if address.is_unspecified() => format!("may not be unspecified ({address})"),
        () if address.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        () if local => "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        () if address.is_multicast() => {
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()
        }
        () => return,
    };
    errors.push(FieldError::invalid(path, json!(text), detail));
}

/// The error about a duplicate port quotes only the fields that identify it.
fn same_port(spec: &Location<'_>, errors: &mut Errors) {
    let inside = spec.text("type") == "ClusterIP" || spec.text("type").is_empty();
    spec.items("ports", |port| {
        if inside && port.number("nodePort").is_some_and(|number| number != 0) {
            errors.push(FieldError::forbidden(port.at("nodePort"), "may not be used when `type` is 'ClusterIP'"));
        }
    });
    spec.items("ports", |port| {
        let same = |other: &Value| other["port"] == port.value["port"] && other["protocol"] == port.value["protocol"];
        if port.earlier().iter().any(same) {
            let quoted = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{}\",\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port.text("protocol"),
                port.number("port").unwrap_or_default()
            );
            errors.push(FieldError::quoting(FieldErrorKind::Duplicate, port.path.clone(), &quoted, ""));
        }
    });
}

fn only_outside(spec: &Location<'_>, errors: &mut Errors) {
    let outside = matches!(spec.text("type"), "NodePort" | "LoadBalancer") || !spec.list("externalIPs").is_empty();
    let policy = spec.text("externalTrafficPolicy");
    if !outside && !policy.is_empty() {
        errors.push(spec.invalid("externalTrafficPolicy", "may only be set for externally-accessible services"));
    } else if outside && !policy.is_empty() {
        spec.check(&[Is("externalTrafficPolicy", OneOf(&["Cluster", "Local"]))], errors);
    }
    let checked = spec.text("type") == "LoadBalancer" && policy == "Local";
    if spec.number("healthCheckNodePort").is_some_and(|port| port != 0) && !checked {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(spec.invalid("healthCheckNodePort", detail));
    }
}

fn load_balancer(spec: &Location<'_>, errors: &mut Errors) {
    let is_one = spec.text("type") == "LoadBalancer";
    let detail = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.list("loadBalancerSourceRanges");
    if !ranges.is_empty() && !is_one {
        errors.push(FieldError::forbidden(spec.at("LoadBalancerSourceRanges"), detail));
    }
    for (index, range) in ranges.iter().enumerate().filter(|_| is_one) {
        for problem in addresses::old_range(range.as_str().unwrap_or_default().trim()) {
            let path = spec.at(&format!("LoadBalancerSourceRanges[{index}]"));
            errors.push(FieldError::invalid(path, range.clone(), problem));
        }
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_one {
        errors.push(FieldError::forbidden(spec.at("allocateLoadBalancerNodePorts"), detail));
    }
    if !spec.text("loadBalancerClass").is_empty() {
        match is_one {
            true => spec.check(&[Is("loadBalancerClass", Text(names::check_qualified_name))], errors),
            false => errors.push(FieldError::forbidden(spec.at("loadBalancerClass"), detail)),
        }
    }
}

/// An address stays, as long as the service has one.
fn address_change(service: &Location<'_>, errors: &mut Errors) {
    let old = service.old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or_default();
    let was = service.old.and_then(|old| old["spec"]["type"].as_str()).unwrap_or_default();
    let kinds = [was, service.text("spec.type")];
    if kinds.contains(&"ExternalName") || old.is_empty() || old == service.text("spec.clusterIP") {
        return;
    }
    let value = json!([service.text("spec.clusterIP")]);
    errors.push(FieldError::invalid("spec.clusterIPs[0]", value, "may not change once set"));
}

fn balanced(service: &Location<'_>, errors: &mut Errors) {
    let status = service.within("status");
    let ingress = status.list("loadBalancer.ingress");
    if !ingress.is_empty() && service.text("spec.type") != "LoadBalancer" {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("status.loadBalancer.ingress", detail));
        return;
    }
    status.check(&[In("loadBalancer", &[Each("ingress", POINT)])], errors);
}

/// Where a load balancer can be reached.
pub(super) const POINT: Rules = &[Is("ip", Text(addresses::old_address)), Code(host_of_point)];

fn host_of_point(point: &Location<'_>, errors: &mut Errors) {
    let name = point.text("hostname");
    if name.is_empty() {
        return;
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        errors.push(point.invalid("hostname", "must be a DNS name, not an IP address"));
    }
    for problem in names::check_subdomain(name) {
        errors.push(point.invalid("hostname", problem));
    }
}

pub(super) const ENDPOINTS: Rules = &[Each(
    "subsets",
    &[
        Code(some_address),
        Each("addresses", ADDRESS),
        Each("notReadyAddresses", ADDRESS),
        Each(
            "ports",
            &[
                Code(subset_port_name),
                Must("port", Between(1, 65535)),
                Must("protocol", OneOf(&["SCTP", "TCP", "UDP"])),
                Is("appProtocol", Text(names::check_qualified_name)),
            ],
        ),
    ],
)];

const ADDRESS: Rules = &[
    Must("ip", Text(addresses::old_address)),
    Is("hostname", Text(names::check_label)),
    Is("nodeName", Text(names::check_subdomain)),
    Code(usual_address),
];

fn some_address(subset: &Location<'_>, errors: &mut Errors) {
    if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
        let detail = "must specify `addresses` or `notReadyAddresses`";
        errors.push(FieldError::required(subset.path.clone(), detail));
    }
}

fn usual_address(address: &Location<'_>, errors: &mut Errors) {
    let text = address.text("ip");
    if text.parse::<std::net::IpAddr>().is_err() {
        errors.push(FieldError::invalid(address.at("ip"), json!(text), "must be a valid IP address"));
    }
    special_address(&address.at("ip"), text, errors);
}

fn subset_port_name(port: &Location<'_>, errors: &mut Errors) {
    let name = port.text("name");
    if name.is_empty() && port.parent.is_some_and(|subset| subset.list("ports").len() > 1) {
        errors.push(FieldError::required(port.at("name"), ""));
    } else if !name.is_empty() {
        for problem in names::check_label(name) {
            errors.push(port.invalid("name", problem));
        }
    }
}

pub(super) const ENDPOINT_SLICE: Rules = &[
    Required("addressType"),
    Is("addressType", OneOf(&["FQDN", "IPv4", "IPv6"])),
    Each(
        "endpoints",
        &[
            Needs("addresses", "must contain at least 1 address"),
            Code(slice_addresses),
            Is("nodeName", Text(names::check_subdomain)),
            Is("hostname", Text(names::check_label)),
        ],
    ),
    Each(
        "ports",
        &[
            Code(slice_port_name),
            Is("protocol", OneOf(&["SCTP", "TCP", "UDP"])),
            Is("appProtocol", Text(names::check_qualified_name)),
        ],
    ),
    Immutable("addressType"),
];

fn slice_addresses(endpoint: &Location<'_>, errors: &mut Errors) {
    let kind = endpoint.parent.map(|slice| slice.text("addressType")).unwrap_or_default();
    for (index, address) in endpoint.list("addresses").iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        let path = format!("{}[{index}]", endpoint.at("addresses"));
        if kind == "FQDN" {
            for problem in names::check_subdomain(text) {
                errors.push(FieldError::invalid(path.clone(), address.clone(), problem));
            }
            continue;
        }
        match text.parse::<std::net::IpAddr>() {
            Err(_) => {
                let problem = addresses::old_address(text).pop().unwrap_or_default();
                errors.push(FieldError::invalid(path, address.clone(), problem));
            }
            Ok(parsed) if parsed.is_ipv4() == (kind == "IPv6") => {
                let detail = format!("must be an {kind} address");
                errors.push(FieldError::invalid(endpoint.at("addresses"), address.clone(), detail));
            }
            // Webhooks in tests run on this machine, so that services must be able to lead there.
            Ok(parsed) if parsed.is_loopback() => {}
            Ok(_) => special_address(&path, text, errors),
        }
    }
}

fn slice_port_name(port: &Location<'_>, errors: &mut Errors) {
    let name = port.text("name");
    if !name.is_empty() {
        for problem in names::check_label(name) {
            errors.push(port.invalid("name", problem));
        }
    }
    if port.earlier().iter().any(|other| other["name"].as_str().unwrap_or_default() == name) {
        errors.push(FieldError::duplicate(port.at("name"), json!(name)));
    }
}
