//! What containers and pods want of nodes: names and amounts of resources.

use serde_json::{Value, json};

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Location, Rule, Rules};
use crate::go::FieldError;
use crate::go::quantity::Quantity;
use crate::values::names;
use Rule::Code;

pub(crate) const OF_CONTAINER: Rules = &[Code(of_container)];
pub(crate) const OF_POD: Rules = &[Code(of_pod)];

/// Names without a domain that containers may ask for.
const STANDARD_OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// All names without a domain.
const STANDARD: [&str; 18] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
];

fn of_container(resources: &Location<'_>, errors: &mut Errors) {
    check(resources, true, errors);
}

fn of_pod(resources: &Location<'_>, errors: &mut Errors) {
    check(resources, false, errors);
}

fn check(resources: &Location<'_>, of_container: bool, errors: &mut Errors) {
    for field in ["limits", "requests"] {
        for (name, amount) in resources.get(field).and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{}[{name}]", resources.at(field));
            resource_name(&path, name, of_container, errors);
            resource_amount(&path, name, amount, errors);
            if field == "requests" {
                against_limit(resources, name, amount, errors);
            }
        }
    }
    huge_pages(resources, errors);
    resources.items("claims", |claim| {
        let known = claim.around("resourceClaims").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(claim.at("name"), ""));
        } else if known.is_empty() {
            let detail = "must be one of the names in pod.spec.resourceClaims which is empty";
            errors.push(claim.not_found("", json!(name), detail));
        } else if !known.iter().any(|other| other["name"] == name) {
            errors.push(claim.not_found("", json!(name), "must be one of the names in pod.spec.resourceClaims"));
        }
    });
}

/// The problems of the name of a requested resource.
pub(crate) fn resource_name(path: &str, name: &str, of_container: bool, errors: &mut Errors) {
    for problem in names::check_qualified_name(name) {
        errors.push(FieldError::invalid(path, json!(name), problem));
    }
    if name.contains('/') || name.starts_with("hugepages-") {
        return;
    }
    if !STANDARD.contains(&name) && !name.starts_with("requests.hugepages-") {
        errors.push(FieldError::invalid(path, json!(name), "must be a standard resource type or fully qualified"));
    }
    if of_container && !STANDARD_OF_CONTAINERS.contains(&name) {
        errors.push(FieldError::invalid(path, json!(name), "must be a standard resource for containers"));
    }
}

/// Amounts are not negative, and whole numbers for countable things.
pub(crate) fn resource_amount(path: &str, name: &str, amount: &Value, errors: &mut Errors) {
    let Some(quantity) = Quantity::of(amount) else { return };
    if quantity.is_negative() {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, json!(quantity.to_string()), detail));
    }
    let counted = name.contains('/') && !is_native(name)
        || matches!(
            name,
            "pods"
                | "services"
                | "replicationcontrollers"
                | "resourcequotas"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        );
    if counted && !quantity.is_whole() {
        errors.push(FieldError::invalid(path, json!(quantity.to_string()), "must be an integer"));
    }
}

fn is_native(name: &str) -> bool {
    name.contains("kubernetes.io/")
}

fn against_limit(resources: &Location<'_>, name: &str, amount: &Value, errors: &mut Errors) {
    let limit = resources.get("limits").and_then(|limits| limits.get(name));
    let (request, limit) = (Quantity::of(amount), limit.and_then(Quantity::of));
    let exact = name.contains('/') && !is_native(name) || name.starts_with("hugepages-");
    match (request, limit) {
        (Some(request), Some(limit)) if exact && request != limit => {
            let detail = format!("must be equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(resources.at("requests"), json!(request.to_string()), detail));
        }
        (Some(request), Some(limit)) if !exact && request > limit => {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(resources.at("requests"), json!(request.to_string()), detail));
        }
        (Some(_), None) if exact => {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(resources.at("limits"), detail));
        }
        _ => {}
    }
}

fn huge_pages(resources: &Location<'_>, errors: &mut Errors) {
    let names = || {
        let maps = ["limits", "requests"].into_iter().filter_map(|field| resources.get(field)?.as_object());
        maps.flat_map(|map| map.keys())
    };
    if names().any(|name| name.starts_with("hugepages-")) && !names().any(|name| name == "cpu" || name == "memory") {
        errors.push(FieldError::forbidden(resources.path.clone(), "HugePages require cpu or memory"));
    }
}
