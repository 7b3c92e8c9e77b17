//! Config maps, secrets, namespaces, nodes, and what else belongs to a namespace or a cluster as such.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::pods::resources::{resource_amount, resource_name};
use super::pods::scheduling;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::quantity::Quantity;
use crate::go::{FieldError, FieldErrorKind};
use crate::values::{addresses, names};
use Rule::{Code, Each, If, Immutable, Is, Within};
use ValueCheck::Text;

const FIXED: &str = "field is immutable when `immutable` is set";
/// All data of a config map or a secret together.
const SIZE_LIMIT: usize = 1024 * 1024;

pub(super) const CONFIG_MAP: Rules = &[Code(config_keys), If(Condition::Changing, &[Code(fixed_data)])];

pub(super) const SECRET: Rules =
    &[Code(secret_data), Code(secret_type), If(Condition::Changing, &[Immutable("type"), Code(fixed_data)])];

fn keys<'a>(object: &Location<'a>, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn config_keys(map: &Location<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (field, other) in [("data", "binaryData"), ("binaryData", "")] {
        for (key, value) in keys(map, field) {
            let path = format!("{field}[{key}]");
            for problem in values::config_key(key) {
                errors.push(FieldError::invalid(path.clone(), json!(key), problem));
            }
            if !other.is_empty() && map.get(other).is_some_and(|other| other.get(key).is_some()) {
                let detail = format!("duplicate of key present in {other}");
                errors.push(FieldError::invalid(path, json!(key), detail));
            }
            let length = value.as_str().map(str::len).unwrap_or_default();
            size += if field == "data" { length } else { length / 4 * 3 };
        }
    }
    if size > SIZE_LIMIT {
        let mut error = FieldError::too_long("x", SIZE_LIMIT as i64);
        error.field = "[]".to_owned();
        errors.push(error);
    }
}

fn fixed_data(object: &Location<'_>, errors: &mut Errors) {
    if object.old.is_none_or(|old| old["immutable"] != true) {
        return;
    }
    if object.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", FIXED));
    }
    for field in ["data", "binaryData"] {
        if object.changes(field) {
            errors.push(FieldError::forbidden(field, FIXED));
        }
    }
}

fn secret_data(secret: &Location<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in keys(secret, "data") {
        for problem in values::config_key(key) {
            errors.push(FieldError::invalid(format!("data[{key}]"), json!(key), problem));
        }
        size += value.as_str().map(str::len).unwrap_or_default() / 4 * 3;
    }
    if size > SIZE_LIMIT {
        errors.push(FieldError::too_long("data", SIZE_LIMIT as i64));
    }
}

fn secret_type(secret: &Location<'_>, errors: &mut Errors) {
    let has = |key: &str| {
        let data = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        data.is_some_and(|text| !text.is_empty())
    };
    let present = |key: &str| secret.get("data").is_some_and(|data| data.get(key).is_some());
    let mut require = |key: &str| errors.push(FieldError::required(format!("data[{key}]"), ""));
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.get("metadata.annotations");
            let name = annotations.and_then(|all| all.get("kubernetes.io/service-account.name"));
            if name.and_then(Value::as_str).is_none_or(str::is_empty) {
                let field = "metadata.annotations[kubernetes.io/service-account.name]";
                errors.push(FieldError::required(field, ""));
            }
        }
        "kubernetes.io/basic-auth" if !present("username") && !present("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => require("ssh-privatekey"),
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !present(key)).for_each(require);
        }
        "kubernetes.io/dockercfg" => docker_file(secret, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => docker_file(secret, ".dockerconfigjson", errors),
        _ => {}
    }
}

fn docker_file(secret: &Location<'_>, key: &str, errors: &mut Errors) {
    use base64::Engine;
    let path = format!("data[{key}]");
    let Some(text) = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).is_err() {
        let shown = String::from_utf8_lossy(&bytes);
        let detail = match shown.trim_start().chars().next() {
            Some(first) if !"{[\"-0123456789tfn".contains(first) => {
                format!("invalid character '{first}' looking for beginning of value")
            }
            _ => "unexpected end of JSON input".to_owned(),
        };
        errors.push(FieldError::invalid(path, json!("<secret contents redacted>"), detail));
    }
}

pub(super) const NAMESPACE: Rules = &[Code(namespace_finalizers), Code(pod_security)];

fn namespace_finalizers(namespace: &Location<'_>, errors: &mut Errors) {
    for finalizer in namespace.list("spec.finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        let problems = names::check_qualified_name(name);
        for problem in &problems {
            errors.push(FieldError::invalid("spec.finalizers", finalizer.clone(), problem.clone()));
        }
        if !name.contains('/') && name != "kubernetes" {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer.clone(), detail));
        }
    }
}

fn pod_security(namespace: &Location<'_>, errors: &mut Errors) {
    for mode in ["enforce", "audit", "warn"] {
        let label = format!("pod-security.kubernetes.io/{mode}");
        let level = namespace.get("metadata.labels").and_then(|labels| labels.get(&label));
        if let Some(level) = level.filter(|level| {
            !level.as_str().is_some_and(|level| ["privileged", "baseline", "restricted"].contains(&level))
        }) {
            let detail = "must be one of privileged, baseline, restricted";
            errors.push(FieldError::invalid(format!("metadata.labels[{label}]"), level.clone(), detail));
        }
    }
}

pub(super) const NODE: Rules =
    &[Code(taints), Code(node_resources), Code(pod_ranges), If(Condition::Changing, &[Code(node_changes)])];

pub(super) const NODE_STATUS: Rules = &[Code(node_resources)];

fn taints(node: &Location<'_>, errors: &mut Errors) {
    for (index, taint) in node.list("spec.taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        for problem in names::check_qualified_name(text("key")) {
            errors.push(FieldError::invalid(format!("{path}.key"), json!(text("key")), problem));
        }
        for problem in names::check_label_value(text("value")) {
            errors.push(FieldError::invalid(format!("{path}.value"), json!(text("value")), problem));
        }
        match text("effect") {
            "" => errors.push(FieldError::required(format!("{path}.effect"), "")),
            effect => scheduling::taint_effect(&format!("{path}.effect"), effect, errors),
        }
        let same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if node.list("spec.taints").iter().take(index).any(same) {
            let quoted = format!(
                "{{\"Key\":\"{}\",\"Value\":\"{}\",\"Effect\":\"{}\",\"TimeAdded\":null}}",
                text("key"),
                text("value"),
                text("effect")
            );
            let detail = "taints must be unique by key and effect pair";
            errors.push(FieldError::quoting(FieldErrorKind::Duplicate, path, &quoted, detail));
        }
    }
}

fn node_resources(node: &Location<'_>, errors: &mut Errors) {
    for field in ["status.capacity", "status.allocatable"] {
        for (name, amount) in keys(node, field) {
            resource_amount(&format!("{field}.{name}"), name, amount, errors);
        }
    }
}

fn pod_ranges(node: &Location<'_>, errors: &mut Errors) {
    for (index, range) in node.list("spec.podCIDRs").iter().enumerate() {
        for problem in addresses::old_range(range.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), range.clone(), problem));
        }
    }
}

fn node_changes(node: &Location<'_>, errors: &mut Errors) {
    let had = |field: &str| node.old.is_some_and(|old| !super::is_empty(&old["spec"][field]));
    if had("podCIDRs") && node.changes("spec.podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    if had("providerID") && node.changes("spec.providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
}

pub(super) const LIMIT_RANGE: Rules = &[Within("spec", &[Each("limits", &[Code(limit)])])];

/// Bounds in the order of the messages: the field, its name, and its limits.
fn limit(limit: &Location<'_>, errors: &mut Errors) {
    let kind = limit.text("type");
    if !["Container", "Pod", "PersistentVolumeClaim"].contains(&kind) && !kind.contains('/') {
        errors.push(limit.invalid("type", "must be a standard limit type or fully qualified"));
    }
    if limit.earlier().iter().any(|other| other["type"] == kind) {
        errors.push(FieldError::duplicate(limit.at("type"), json!(kind)));
    }
    let fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    for field in fields {
        for (name, _) in keys(limit, field) {
            resource_name(&format!("{}[{name}]", limit.at(field)), name, kind != "PersistentVolumeClaim", errors);
        }
    }
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if keys(limit, field).next().is_some() {
                errors.push(FieldError::forbidden(limit.at(field), "may not be specified when `type` is 'Pod'"));
            }
        }
    }
    let has = |field: &str, name: &str| limit.get(field).is_some_and(|map| map.get(name).is_some());
    if kind == "PersistentVolumeClaim" && !has("min", "storage") && !has("max", "storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(limit.at("limits"), detail));
    }
    bounds(limit, errors);
}

fn bounds(limit: &Location<'_>, errors: &mut Errors) {
    let amount = |field: &str, name: &str| limit.get(field).and_then(|map| map.get(name)).and_then(Quantity::of);
    let mut names: Vec<&String> = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
        .iter()
        .flat_map(|field| keys(limit, field).map(|(name, _)| name))
        .collect();
    names.sort();
    names.dedup();
    for name in names {
        let mut refuse = |field: &str, shown: Quantity, detail: String| {
            let path = format!("{}[{name}]", limit.at(field));
            errors.push(FieldError::invalid(path, json!(shown.to_string()), detail));
        };
        let (max, min) = (amount("max", name), amount("min", name));
        let (default, request) = (amount("default", name), amount("defaultRequest", name));
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            refuse("min", min, format!("min value {min} is greater than max value {max}"));
        }
        if let (Some(min), Some(request)) = (min, request)
            && min > request
        {
            refuse(
                "defaultRequest",
                request,
                format!("min value {min} is greater than default request value {request}"),
            );
        }
        if let (Some(max), Some(request)) = (max, request)
            && request > max
        {
            refuse(
                "defaultRequest",
                request,
                format!("default request value {request} is greater than max value {max}"),
            );
        }
        if let (Some(default), Some(request)) = (default, request)
            && request > default
        {
            let detail = format!("default request value {request} is greater than default limit value {default}");
            refuse("defaultRequest", request, detail);
        }
        if let (Some(min), Some(default)) = (min, default)
            && min > default
        {
            refuse("default", min, format!("min value {min} is greater than default value {default}"));
        }
        if let (Some(max), Some(default)) = (max, default)
            && default > max
        {
            refuse("default", max, format!("default value {default} is greater than max value {max}"));
        }
        if let Some(ratio) = amount("maxLimitRequestRatio", name)
            && ratio < Quantity::one()
        {
            refuse("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
    }
}

pub(super) const RESOURCE_QUOTA: Rules =
    &[Code(|quota, errors| amounts(quota, "spec.hard", errors)), Immutable("spec.scopes")];
pub(super) const QUOTA_STATUS: Rules = &[
    Code(|quota, errors| amounts(quota, "status.hard", errors)),
    Code(|quota, errors| amounts(quota, "status.used", errors)),
];

fn amounts(quota: &Location<'_>, field: &str, errors: &mut Errors) {
    const KNOWN: [&str; 4] = ["services.nodeports", "services.loadbalancers", "requests.storage", "storage"];
    for (name, amount) in keys(quota, field) {
        let path = format!("{field}[{name}]");
        if !KNOWN.contains(&name.as_str()) {
            let before = errors.len();
            resource_name(&path, name, false, errors);
            if errors.len() > before && !name.contains('/') {
                errors.push(FieldError::invalid(path.clone(), json!(name), "must be a standard resource for quota"));
            }
        }
        resource_amount(&path, name, amount, errors);
    }
}

pub(super) const LEASE: Rules = &[Within(
    "spec",
    &[
        Rule::Given("leaseDurationSeconds", ValueCheck::Positive("must be greater than 0")),
        Rule::Given("leaseTransitions", ValueCheck::NonNegative),
    ],
)];

pub(super) const PRIORITY_CLASS: Rules = &[
    If(
        Condition::New,
        &[Code(priority), Is("preemptionPolicy", ValueCheck::OneOf(&["PreemptLowerPriority", "Never"]))],
    ),
    Rule::Frozen("value", "may not be changed in an update."),
    Immutable("preemptionPolicy"),
];

fn priority(class: &Location<'_>, errors: &mut Errors) {
    let name = class.text("metadata.name");
    if name.starts_with("system-") && !["system-node-critical", "system-cluster-critical"].contains(&name) {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if !name.starts_with("system-") && class.number("value").is_some_and(|value| value > 1_000_000_000) {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden("value", detail));
    }
}

pub(super) const RUNTIME_CLASS: Rules = &[
    Rule::Required("handler"),
    Is("handler", Text(names::check_label)),
    Rule::In("scheduling", &[Code(scheduling::node_selector), Each("tolerations", scheduling::TOLERATION)]),
    Immutable("handler"),
];
