//! Where pods may run: tolerations, affinities, spreading.

use serde_json::{Value, json};

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::selectors::{LABEL_SELECTOR, labels_at};
use crate::builtin::rules::{Condition, Location, Rule, Rules, ValueCheck};
use crate::go::FieldError;
use crate::values::names;
use Rule::{Code, Each, Forbid, Given, If, In, Must, Needs};
use ValueCheck::{OneOf, Positive, Text};

pub(crate) const AFFINITY: Rules =
    &[In("nodeAffinity", NODE_AFFINITY), In("podAffinity", POD_AFFINITY), In("podAntiAffinity", POD_AFFINITY)];

const NODE_AFFINITY: Rules = &[
    In("requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR),
    Each("preferredDuringSchedulingIgnoredDuringExecution", &[Code(weight), In("preference", NODE_SELECTOR_TERM)]),
];

/// Also of volumes.
pub(crate) const NODE_SELECTOR: Rules = &[
    Needs("nodeSelectorTerms", "must have at least one node selector term"),
    Each("nodeSelectorTerms", NODE_SELECTOR_TERM),
];

const NODE_SELECTOR_TERM: Rules =
    &[Each("matchExpressions", &[Code(node_requirement)]), Each("matchFields", &[Code(node_field)])];

const POD_AFFINITY: Rules = &[
    Each("requiredDuringSchedulingIgnoredDuringExecution", POD_AFFINITY_TERM),
    Each("preferredDuringSchedulingIgnoredDuringExecution", &[Code(weight), In("podAffinityTerm", POD_AFFINITY_TERM)]),
];

const POD_AFFINITY_TERM: Rules = &[
    In("labelSelector", LABEL_SELECTOR),
    In("namespaceSelector", LABEL_SELECTOR),
    Code(namespaces),
    Code(topology_key),
];

fn weight(term: &Location<'_>, errors: &mut Errors) {
    let weight = term.number("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(term.at("weight"), json!(weight), "must be in the range 1-100"));
    }
}

fn namespaces(term: &Location<'_>, errors: &mut Errors) {
    for namespace in term.list("namespaces").iter().filter_map(Value::as_str) {
        for problem in names::check_label(namespace) {
            errors.push(FieldError::invalid(term.at("namespace"), json!(namespace), problem));
        }
    }
}

fn topology_key(term: &Location<'_>, errors: &mut Errors) {
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(term.at("topologyKey"), "can not be empty"));
    }
    for problem in names::check_qualified_name(key) {
        errors.push(FieldError::invalid(term.at("topologyKey"), json!(key), problem));
    }
}

fn node_requirement(requirement: &Location<'_>, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(requirement.at("values"), detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            let field = requirement.at("operator");
            errors.push(FieldError::invalid(field, json!(other), "not a valid selector operator"));
        }
    }
    let key = requirement.text("key");
    for problem in names::check_qualified_name(key) {
        errors.push(FieldError::invalid(requirement.at("key"), json!(key), problem));
    }
    for (index, value) in values.iter().enumerate() {
        for problem in names::check_label_value(value.as_str().unwrap_or_default()) {
            let path = format!("{}[{index}]", requirement.at("values"));
            errors.push(FieldError::invalid(path, value.clone(), problem));
        }
    }
}

fn node_field(requirement: &Location<'_>, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
        "In" | "NotIn" => {}
        other => {
            let field = requirement.at("operator");
            errors.push(FieldError::invalid(field, json!(other), "not a valid selector operator"));
        }
    }
    match requirement.text("key") {
        "metadata.name" => {
            for (index, value) in values.iter().enumerate() {
                for problem in names::check_subdomain(value.as_str().unwrap_or_default()) {
                    let path = format!("{}[{index}]", requirement.at("values"));
                    errors.push(FieldError::invalid(path, value.clone(), problem));
                }
            }
        }
        other => {
            let detail = "not a valid field selector key";
            errors.push(FieldError::invalid(requirement.at("key"), json!(other), detail));
        }
    }
}

pub(crate) const TOLERATION: Rules = &[Code(toleration)];

fn toleration(toleration: &Location<'_>, errors: &mut Errors) {
    let (key, value, operator, effect) =
        (toleration.text("key"), toleration.text("value"), toleration.text("operator"), toleration.text("effect"));
    if !key.is_empty() {
        for problem in names::check_qualified_name(key) {
            errors.push(toleration.invalid("key", problem));
        }
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(toleration.invalid("operator", detail));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        errors.push(toleration.invalid("effect", "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
    match operator {
        "Equal" | "" => {
            for problem in names::check_label_value(value) {
                errors.push(FieldError::invalid(toleration.at("operator"), json!(value), problem));
            }
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(toleration.at("operator"), json!(value), detail));
        }
        "Exists" => {}
        other => {
            let mut supported = vec!["Equal".to_owned(), "Exists".to_owned()];
            if matches!(other, "Lt" | "Gt") {
                supported.extend(["Lt".to_owned(), "Gt".to_owned()]);
            }
            errors.push(FieldError::not_supported(toleration.at("operator"), json!(other), &supported));
        }
    }
    if !effect.is_empty() {
        taint_effect(&toleration.at("effect"), effect, errors);
    }
}

/// Also of the taints of nodes.
pub(crate) fn taint_effect(path: &str, effect: &str, errors: &mut Errors) {
    let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !supported.contains(&effect) {
        errors.push(FieldError::not_supported(path, json!(effect), &supported.map(str::to_owned)));
    }
}

pub(crate) const SPREAD: Rules = &[
    Must("maxSkew", Positive("must be greater than zero")),
    Needs("topologyKey", "can not be empty"),
    Must("whenUnsatisfiable", OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
    Code(spread_twice),
    Given("minDomains", Positive("must be greater than zero")),
    Code(minimal_domains),
    Given("nodeAffinityPolicy", OneOf(&["Honor", "Ignore"])),
    Given("nodeTaintsPolicy", OneOf(&["Honor", "Ignore"])),
    If(Condition::Has("matchLabelKeys"), &[Code(match_label_keys)]),
    In("labelSelector", LABEL_SELECTOR),
];

fn spread_twice(constraint: &Location<'_>, errors: &mut Errors) {
    let pair = |value: &Value| (value["topologyKey"].clone(), value["whenUnsatisfiable"].clone());
    let own = pair(constraint.value);
    let later = constraint.parent.map(|pod| pod.list("topologySpreadConstraints")).unwrap_or_default();
    let position = constraint.earlier().len();
    if later.iter().skip(position + 1).any(|other| pair(other) == own) {
        let shown = format!("{{{}, {}}}", constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        errors.push(FieldError::duplicate(constraint.at("{topologyKey, whenUnsatisfiable}"), json!(shown)));
    }
}

fn minimal_domains(constraint: &Location<'_>, errors: &mut Errors) {
    let when = constraint.text("whenUnsatisfiable");
    if constraint.number("minDomains").is_some_and(|domains| domains > 0) && when != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
        errors.push(constraint.invalid("minDomains", detail));
    }
}

fn match_label_keys(constraint: &Location<'_>, errors: &mut Errors) {
    const WITHOUT: Rules = &[Forbid("matchLabelKeys", "must not be specified when labelSelector is not set")];
    if constraint.list("matchLabelKeys").is_empty() {
        return;
    }
    let Some(selector) = constraint.get("labelSelector") else { return constraint.check(WITHOUT, errors) };
    for (index, key) in constraint.list("matchLabelKeys").iter().enumerate() {
        let path = format!("{}[{index}]", constraint.at("matchLabelKeys"));
        for problem in names::check_qualified_name(key.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path.clone(), key.clone(), problem));
        }
        let named = selector["matchExpressions"].as_array().into_iter().flatten().any(|one| one["key"] == *key);
        let labelled = selector["matchLabels"].get(key.as_str().unwrap_or_default()).is_some();
        if named || (labelled && !constraint.is_new) {
            errors.push(FieldError::invalid(path, key.clone(), "exists in both matchLabelKeys and labelSelector"));
        }
    }
}

/// Labels that a node must have.
pub(crate) fn node_selector(pod: &Location<'_>, errors: &mut Errors) {
    labels_at(&pod.at("nodeSelector"), pod.get("nodeSelector"), errors);
}

/// Gates that hold a pod back.
pub(crate) fn gates(pod: &Location<'_>, errors: &mut Errors) {
    pod.items("schedulingGates", |gate| {
        let name = gate.text("name");
        for problem in names::check_qualified_name(name) {
            errors.push(FieldError::invalid(gate.path.clone(), json!(name), problem));
        }
        if gate.earlier().iter().any(|other| other["name"] == name) {
            errors.push(FieldError::duplicate(gate.path.clone(), json!(name)));
        }
    });
}

/// Conditions that a pod needs to be ready.
pub(crate) const READINESS_GATE: Rules = &[Must("conditionType", Text(names::check_qualified_name))];
