//! Ingresses, their classes, network policies, and who has which addresses.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::LABEL_SELECTOR;
use super::services::POINT;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind, go_json};
use crate::values::addresses::{self, Range};
use crate::values::names;
use Rule::{Code, Each, Given, If, In, Is, Must, Required, Within};
use ValueCheck::{AtMostBytes, Between, OneOf, PortOrName, Text};

pub(super) const INGRESS: Rules = &[
    Within(
        "spec",
        &[
            Code(something_to_serve),
            Each("rules", &[Code(host), In("http", &[Required("paths"), Each("paths", PATH)])]),
            In("defaultBackend", &[Code(backend)]),
            Each("tls", &[Each("hosts", &[Code(tls_host)]), Is("secretName", Text(names::check_subdomain))]),
            Is("ingressClassName", Text(names::check_subdomain)),
        ],
    ),
    If(Condition::New, &[Code(class_annotation)]),
];

pub(super) const INGRESS_STATUS: Rules = &[Within("status", &[In("loadBalancer", &[Each("ingress", POINT)])])];

const PATH: Rules = &[Code(path), Within("backend", &[Code(backend)])];

fn something_to_serve(spec: &Location<'_>, errors: &mut Errors) {
    if spec.list("rules").is_empty() && spec.get("defaultBackend").is_none() {
        let shown = spec.get("rules").cloned().unwrap_or_default();
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(spec.path.clone(), shown, detail));
    }
}

fn host(rule: &Location<'_>, errors: &mut Errors) {
    let host = rule.text("host");
    if host.is_empty() {
        return;
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        errors.push(rule.invalid("host", "must be a DNS name, not an IP address"));
    }
    for problem in host_problems(host) {
        errors.push(rule.invalid("host", problem));
    }
}

fn tls_host(entry: &Location<'_>, errors: &mut Errors) {
    for problem in host_problems(entry.value.as_str().unwrap_or_default()) {
        errors.push(entry.invalid("", problem));
    }
}

fn host_problems(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return names::check_subdomain(host);
    }
    let valid = host.strip_prefix("*.").is_some_and(|rest| names::check_subdomain(rest).is_empty());
    match valid {
        true => Vec::new(),
        false => vec![
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
             of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
             '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        ],
    }
}

fn path(place: &Location<'_>, errors: &mut Errors) {
    let path = place.text("path");
    match place.text("pathType") {
        "" => errors.push(FieldError::required(place.at("pathType"), "pathType must be specified")),
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.push(place.invalid("path", "must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    errors.push(place.invalid("path", format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    errors.push(place.invalid("path", format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.push(place.invalid("path", "must be an absolute path"));
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"].map(str::to_owned);
            errors.push(FieldError::not_supported(place.at("pathType"), json!(other), &supported));
        }
    }
}

fn backend(place: &Location<'_>, errors: &mut Errors) {
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(place.path.clone(), json!(""), detail));
    match (place.get("resource").is_some(), place.get("service").is_some()) {
        (true, true) => return refuse("cannot set both resource and service backends"),
        (true, false) => return,
        (false, false) => return refuse("resource or service backend is required"),
        (false, true) => {}
    }
    place.check(&[Required("service.name"), Is("service.name", Text(names::check_label))], errors);
    let (name, number) = (place.text("service.port.name"), place.number("service.port.number").unwrap_or_default());
    if !name.is_empty() && number != 0 {
        let detail = "cannot set both port name & port number";
        errors.push(FieldError::invalid(place.path.clone(), json!(""), detail));
    } else if name.is_empty() && number == 0 {
        errors.push(FieldError::required(place.path.clone(), "port name or number is required"));
    } else {
        const PORT: Rules =
            &[Is("service.port.name", Text(values::port_name)), Is("service.port.number", Between(1, 65535))];
        place.check(PORT, errors);
    }
}

fn class_annotation(ingress: &Location<'_>, errors: &mut Errors) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let annotated = ingress.get("metadata.annotations").and_then(|all| all.get(ANNOTATION));
    let class = ingress.get("spec.ingressClassName");
    if let (Some(annotated), Some(class)) = (annotated, class)
        && annotated != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{ANNOTATION}"), annotated.clone(), detail));
    }
}

pub(super) const INGRESS_CLASS: Rules = &[
    Code(controller_change),
    Within(
        "spec",
        &[
            Required("controller"),
            Is("controller", AtMostBytes(250)),
            Code(controller),
            In("parameters", &[Required("kind"), Required("name"), Code(parameter_scope)]),
        ],
    ),
];

fn controller_change(class: &Location<'_>, errors: &mut Errors) {
    if class.changes("spec.controller") {
        errors.push(class.invalid("spec.controller", "field is immutable"));
    }
}

fn controller(spec: &Location<'_>, errors: &mut Errors) {
    let name = spec.text("controller");
    if name.is_empty() {
        return;
    }
    let shown = name.split_once('/').map_or(name, |(domain, _)| domain);
    for problem in values::domain_path(name) {
        errors.push(FieldError::invalid(spec.at("controller"), json!(shown), problem));
    }
}

fn parameter_scope(parameters: &Location<'_>, errors: &mut Errors) {
    let namespace = parameters.at("namespace");
    match parameters.text("scope") {
        "Cluster" if parameters.get("namespace").is_some() => {
            errors.push(FieldError::forbidden(namespace, "`parameters.scope` is set to 'Cluster'"));
        }
        "Namespace" if parameters.text("namespace").is_empty() => {
            errors.push(FieldError::required(namespace, "`parameters.scope` is set to 'Namespace'"));
        }
        "Cluster" | "Namespace" => {}
        "" => errors.push(FieldError::required(parameters.at("scope"), "")),
        other => {
            let supported = ["Cluster", "Namespace"].map(str::to_owned);
            errors.push(FieldError::not_supported(parameters.at("scope"), json!(other), &supported));
        }
    }
}

pub(super) const NETWORK_POLICY: Rules = &[Within(
    "spec",
    &[
        In("podSelector", LABEL_SELECTOR),
        Each("ingress", &[Each("ports", POLICY_PORT), Each("from", PEER)]),
        Each("egress", &[Each("ports", POLICY_PORT), Each("to", PEER)]),
        Code(policy_types),
    ],
)];

const POLICY_PORT: Rules =
    &[Is("protocol", OneOf(&["TCP", "UDP", "SCTP"])), Given("port", PortOrName), Code(port_range)];

const PEER: Rules = &[
    In("podSelector", LABEL_SELECTOR),
    In("namespaceSelector", LABEL_SELECTOR),
    In("ipBlock", &[Required("cidr"), Is("cidr", Text(addresses::old_range)), Code(exceptions)]),
    Code(one_peer),
];

fn port_range(port: &Location<'_>, errors: &mut Errors) {
    let Some(end) = port.number("endPort") else { return };
    match port.get("port") {
        None => errors.push(port.invalid("endPort", "may not be specified when `port` is not specified")),
        Some(Value::String(_)) => {
            errors.push(port.invalid("endPort", "may not be specified when `port` is non-numeric"));
        }
        Some(start) if start.as_i64().is_some_and(|start| end < start) => {
            let detail = "must be greater than or equal to `port`";
            errors.push(FieldError::invalid(port.at("endPort"), start.clone(), detail));
        }
        Some(_) => {}
    }
}

fn one_peer(peer: &Location<'_>, errors: &mut Errors) {
    let selectors = peer.get("podSelector").is_some() || peer.get("namespaceSelector").is_some();
    let block = peer.get("ipBlock").is_some();
    if !selectors && !block {
        errors.push(FieldError::required(peer.path.clone(), "must specify a peer"));
    } else if selectors && block {
        errors.push(FieldError::forbidden(peer.path.clone(), "may not specify both ipBlock and another peer"));
    }
}

fn exceptions(block: &Location<'_>, errors: &mut Errors) {
    let network = |text: &str| -> Option<(u128, u32)> {
        let (address, bits) = text.split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        match address.parse().ok()? {
            std::net::IpAddr::V4(address) => Some((u128::from(u32::from(address)) << 96, bits)),
            std::net::IpAddr::V6(address) => Some((u128::from(address), bits)),
        }
    };
    let outer = network(block.text("cidr"));
    for (index, exception) in block.list("except").iter().enumerate() {
        let text = exception.as_str().unwrap_or_default();
        let path = format!("{}[{index}]", block.at("except"));
        let problems = addresses::old_range(text);
        for problem in &problems {
            errors.push(FieldError::invalid(path.clone(), exception.clone(), problem.clone()));
        }
        let inside = outer.zip(network(text)).is_none_or(|((base, bits), (other, more))| {
            more > bits && (bits == 0 || (base ^ other) >> (128 - bits) == 0)
        });
        if problems.is_empty() && !inside {
            errors.push(FieldError::invalid(path, exception.clone(), "must be a strict subset of `cidr`"));
        }
    }
}

fn policy_types(spec: &Location<'_>, errors: &mut Errors) {
    let types = spec.list("policyTypes");
    if types.len() > 2 {
        errors.push(spec.invalid("policyTypes", "may not specify more than two policyTypes"));
        return;
    }
    spec.check(&[Each("policyTypes", &[Must("", OneOf(&["Ingress", "Egress"]))])], errors);
}

/// Who has an address. The group is that of services if it is empty.
pub(super) const ADDRESS: Rules = &[
    If(Condition::Lacks("spec.parentRef"), &[Required("spec.parentRef")]),
    In(
        "spec.parentRef",
        &[
            Is("group", Text(names::check_subdomain)),
            Required("resource"),
            Is("resource", Text(names::check_segment)),
            Required("name"),
            Is("name", Text(names::check_segment)),
            Is("namespace", Text(names::check_segment)),
        ],
    ),
    Code(parent_change),
];

fn parent_change(address: &Location<'_>, errors: &mut Errors) {
    const PARENT: StructFields = &[
        ("group", "Group", FieldShape::Text),
        ("resource", "Resource", FieldShape::Text),
        ("namespace", "Namespace", FieldShape::Text),
        ("name", "Name", FieldShape::Text),
    ];
    if address.changes("spec.parentRef") {
        let parent = address.get("spec.parentRef");
        let quoted = parent.map_or("null".to_owned(), |parent| struct_text::quote(parent, PARENT));
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec.parentRef", &quoted, "field is immutable"));
    }
}

/// Where services get their addresses from: one range of each sort, and a second one can come later.
pub(super) const SERVICE_RANGES: Rules =
    &[If(Condition::New, &[Within("spec", &[Code(ranges)])]), If(Condition::Changing, &[Code(range_changes)])];

fn ranges(spec: &Location<'_>, errors: &mut Errors) {
    let list = spec.list("cidrs");
    match list.len() {
        0 => errors.push(FieldError::required(spec.at("cidrs"), "at least one CIDR required")),
        1 | 2 => {
            spec.check(&[Each("cidrs", &[Must("", Text(addresses::range))])], errors);
            let sorts: Vec<Option<bool>> =
                list.iter().map(|range| Range::parse(range.as_str().unwrap_or_default()).map(Range::is_ipv6)).collect();
            if let [Some(one), Some(other)] = sorts[..]
                && one == other
            {
                let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                errors.push(spec.invalid("cidrs", detail));
            }
        }
        _ => {
            let quoted = format!("{{\"CIDRs\":{}}}", go_json(&json!(list)));
            let detail = "may only hold up to 2 values";
            errors.push(FieldError::quoting(FieldErrorKind::Invalid, spec.at("cidrs"), &quoted, detail));
        }
    }
}

fn range_changes(object: &Location<'_>, errors: &mut Errors) {
    const DETAIL: &str = "field is immutable";
    let old = object.old.and_then(|old| old["spec"]["cidrs"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let new = object.list("spec.cidrs");
    let grows = old.len() == 1 && new.len() == 2;
    if old.len() != new.len() && !grows {
        let shown = object.get("spec.cidrs").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.cidrs", shown, DETAIL));
        return;
    }
    for (index, (_, after)) in old.iter().zip(new).enumerate().filter(|(_, (before, after))| before != after) {
        errors.push(FieldError::invalid(format!("spec.cidrs[{index}]"), after.clone(), DETAIL));
    }
    if grows {
        object.check(&[Within("spec", &[Code(ranges)])], errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    fn errors_of(rules: Rules, object: &Value, old: Option<&Value>) -> String {
        run(rules, object, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn ranges_of_services() {
        let of = |list: &[&str]| json!({"spec": {"cidrs": list}});
        for (new, old, expected) in [
            (of(&["10.0.0.0/8"]), None, ""),
            (of(&[]), None, "spec.cidrs: Required value: at least one CIDR required"),
            (
                of(&["10.0.0.0/8", "11.0.0.0/8"]),
                None,
                "spec.cidrs: Invalid value: [\"10.0.0.0/8\",\"11.0.0.0/8\"]: may specify no more than one IP for each \
                 IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            ),
            (of(&["10.0.0.0/8", "2001:db8::/64"]), Some(of(&["10.0.0.0/8"])), ""),
            (
                of(&["11.0.0.0/8"]),
                Some(of(&["10.0.0.0/8"])),
                "spec.cidrs[0]: Invalid value: \"11.0.0.0/8\": field is immutable",
            ),
        ] {
            assert_eq!(errors_of(SERVICE_RANGES, &new, old.as_ref()), expected);
        }
    }

    #[test]
    fn parents_of_addresses() {
        let of = |name: &str| json!({"spec": {"parentRef": {"resource": "services", "name": name}}});
        for (new, old, expected) in [
            (of("a"), None, ""),
            (json!({"spec": {}}), None, "spec.parentRef: Required value"),
            (of("a/b"), None, "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"),
            (
                of("b"),
                Some(of("a")),
                "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"\",\
                 \"Name\":\"b\"}: field is immutable",
            ),
        ] {
            assert_eq!(errors_of(ADDRESS, &new, old.as_ref()), expected);
        }
    }
}
