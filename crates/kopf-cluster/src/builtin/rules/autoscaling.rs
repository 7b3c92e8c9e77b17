//! Horizontal pod autoscalers, in the form of their second version.

use serde_json::json;

use super::evaluate::Errors;
use super::{Location, Rule, Rules, ValueCheck};
use crate::go::FieldError;
use crate::go::quantity::Quantity;
use crate::values::names;
use Rule::{Code, Each, Given, In, Is, Must, Needs, Required, Within};
use ValueCheck::{OneOf, Positive, Text};

pub(super) const AUTOSCALER: Rules = &[Within(
    "spec",
    &[
        Code(replicas),
        Within("scaleTargetRef", &[Code(reference), Code(target_group)]),
        Each("metrics", METRIC),
        Code(zero_needs_metric),
        In("behavior", &[In("scaleUp", SCALING), In("scaleDown", SCALING)]),
    ],
)];

const TYPES: ValueCheck = OneOf(&["ContainerResource", "External", "Object", "Pods", "Resource"]);

const METRIC: Rules = &[Needs("type", "must specify a metric source type"), Must("type", TYPES), Code(source)];

const SCALING: Rules = &[
    Code(window),
    Is("selectPolicy", OneOf(&["Disabled", "Max", "Min"])),
    Needs("policies", "must specify at least one Policy"),
    Each(
        "policies",
        &[
            Must("type", OneOf(&["Percent", "Pods"])),
            Must("value", Positive("must be greater than zero")),
            Must("periodSeconds", Positive("must be greater than zero")),
            Code(period),
        ],
    ),
];

fn replicas(spec: &Location<'_>, errors: &mut Errors) {
    let (minimum, maximum) = (spec.number("minReplicas"), spec.number("maxReplicas").unwrap_or_default());
    if minimum.is_some_and(|minimum| minimum < 1) {
        errors.push(spec.invalid("minReplicas", "must be greater than or equal to 1"));
    }
    if maximum < 1 {
        errors.push(FieldError::required(spec.at("maxReplicas"), "must be set and greater than 0"));
    }
    if minimum.is_some_and(|minimum| maximum < minimum) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(spec.at("maxReplicas"), json!(maximum), detail));
    }
}

fn reference(target: &Location<'_>, errors: &mut Errors) {
    const FIELDS: Rules = &[
        Required("kind"),
        Is("kind", Text(names::check_segment)),
        Required("name"),
        Is("name", Text(names::check_segment)),
    ];
    target.check(FIELDS, errors);
}

fn target_group(target: &Location<'_>, errors: &mut Errors) {
    let version = target.text("apiVersion");
    let of_core = version == "v1" && target.text("kind") != "ReplicationController";
    if version.is_empty() || (of_core && target.is_new) {
        errors.push(FieldError::invalid(target.at("apiVersion"), json!(version), "apiVersion must specify API group"));
    }
}

fn source(metric: &Location<'_>, errors: &mut Errors) {
    const SOURCES: [(&str, &str); 5] = [
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
        ("ContainerResource", "containerResource"),
        ("External", "external"),
    ];
    let kind = metric.text("type");
    let Some((_, field)) = SOURCES.iter().find(|(name, _)| *name == kind) else { return };
    let Some(source) = metric.enter(field) else {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(metric.at(field), detail));
        return;
    };
    const NAME: Rules =
        &[Within("metric", &[Needs("name", "must specify a metric name"), Is("name", Text(names::check_segment))])];
    match *field {
        "object" => {
            source.check(&[Within("describedObject", &[Code(reference)])], errors);
            source.check(NAME, errors);
            target(&source, errors);
            one_value(&source, "value", "averageValue", errors);
        }
        "external" => {
            source.check(NAME, errors);
            target(&source, errors);
            one_value(&source, "value", "averageValue", errors);
        }
        "pods" => {
            source.check(NAME, errors);
            target(&source, errors);
            if !positive(&source, "averageValue") {
                let detail = "must specify a positive target averageValue";
                errors.push(FieldError::required(source.at("target.averageValue"), detail));
            }
        }
        _ => {
            source.check(&[Needs("name", "must specify a resource name")], errors);
            target(&source, errors);
            resource_target(&source, errors);
        }
    }
}

fn positive(source: &Location<'_>, field: &str) -> bool {
    let value = source.get(&format!("target.{field}")).and_then(Quantity::of);
    value.is_some_and(|value| !value.is_negative() && !value.is_zero())
}

fn target(source: &Location<'_>, errors: &mut Errors) {
    let target = source.within("target");
    match target.text("type") {
        "" => errors.push(FieldError::required(target.at("type"), "must specify a metric target type")),
        "Utilization" | "Value" | "AverageValue" => {}
        _ => errors.push(target.invalid("type", "must be either Utilization, Value, or AverageValue")),
    }
    for field in ["value", "averageValue"] {
        if target.get(field).and_then(Quantity::of).is_some_and(|value| value.is_negative() || value.is_zero()) {
            errors.push(target.invalid(field, "must be positive"));
        }
    }
    target.check(&[Given("averageUtilization", Positive("must be greater than 0"))], errors);
}

fn resource_target(source: &Location<'_>, errors: &mut Errors) {
    let target = source.within("target");
    match (target.get("averageUtilization").is_some(), target.get("averageValue").is_some()) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(FieldError::required(target.at("averageUtilization"), detail));
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(target.at("averageValue"), detail));
        }
        _ => {}
    }
}

fn one_value(source: &Location<'_>, one: &str, other: &str, errors: &mut Errors) {
    let target = source.within("target");
    match (target.get(one).is_some(), target.get(other).is_some()) {
        (false, false) => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(FieldError::required(target.at(other), detail));
        }
        (true, true) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(target.at(one), detail));
        }
        _ => {}
    }
}

fn zero_needs_metric(spec: &Location<'_>, errors: &mut Errors) {
    let has_other =
        spec.list("metrics").iter().any(|metric| metric["type"] == "Object" || metric["type"] == "External");
    if spec.number("minReplicas") == Some(0) && !has_other {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(spec.at("metrics"), detail));
    }
}

fn window(rules: &Location<'_>, errors: &mut Errors) {
    match rules.number("stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            errors.push(rules.invalid("stabilizationWindowSeconds", "must be greater than or equal to zero"));
        }
        Some(seconds) if seconds > 3600 => {
            errors.push(rules.invalid("stabilizationWindowSeconds", "must be less than or equal to 3600"));
        }
        _ => {}
    }
}

fn period(policy: &Location<'_>, errors: &mut Errors) {
    if policy.number("periodSeconds").is_some_and(|seconds| seconds > 1800) {
        errors.push(policy.invalid("periodSeconds", "must be less than or equal to 1800"));
    }
}
