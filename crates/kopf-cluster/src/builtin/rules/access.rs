//! Roles and bindings.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::LABEL_SELECTOR;
use super::{Location, Rule, Rules, ValueCheck};
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::names;
use Rule::{Code, Each, In, Must, Needs, Required, Within};
use ValueCheck::{OneOf, Text};

pub(super) const ROLE: Rules = &[Each("rules", &[Code(namespaced_rule)])];

pub(super) const CLUSTER_ROLE: Rules = &[
    Each("rules", &[Code(rule)]),
    In(
        "aggregationRule",
        &[
            Needs("clusterRoleSelectors", "at least one clusterRoleSelector required if aggregationRule is non-nil"),
            Each("clusterRoleSelectors", &[Code(aggregated)]),
        ],
    ),
];

pub(super) const ROLE_BINDING: Rules = &[
    Within("roleRef", &[Code(role_group), Must("kind", OneOf(&["Role", "ClusterRole"])), Required("name")]),
    Each("subjects", &[Code(namespaced_subject)]),
    Code(reference_change),
];

pub(super) const CLUSTER_ROLE_BINDING: Rules = &[
    Within("roleRef", &[Code(role_group), Must("kind", OneOf(&["ClusterRole"])), Required("name")]),
    Each("subjects", &[Code(subject)]),
    Code(reference_change),
];

fn namespaced_rule(place: &Location<'_>, errors: &mut Errors) {
    verbs(place, errors);
    if !place.list("nonResourceURLs").is_empty() {
        errors.push(place.invalid("nonResourceURLs", "namespaced rules cannot apply to non-resource URLs"));
        return;
    }
    resources(place, errors);
}

fn rule(place: &Location<'_>, errors: &mut Errors) {
    verbs(place, errors);
    if place.list("nonResourceURLs").is_empty() {
        resources(place, errors);
        return;
    }
    let others = ["apiGroups", "resources", "resourceNames"];
    if others.iter().any(|field| !place.list(field).is_empty()) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(place.invalid("nonResourceURLs", detail));
    }
}

fn verbs(place: &Location<'_>, errors: &mut Errors) {
    place.check(&[Needs("verbs", "verbs must contain at least one value")], errors);
}

fn resources(place: &Location<'_>, errors: &mut Errors) {
    const RESOURCES: Rules = &[
        Needs("apiGroups", "resource rules must supply at least one api group"),
        Needs("resources", "resource rules must supply at least one resource"),
    ];
    place.check(RESOURCES, errors);
}

fn aggregated(selector: &Location<'_>, errors: &mut Errors) {
    let before = errors.len();
    selector.check(LABEL_SELECTOR, errors);
    if errors.len() > before {
        errors.push(FieldError::invalid(selector.path.clone(), Value::Null, "invalid label selector."));
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

fn role_group(reference: &Location<'_>, errors: &mut Errors) {
    let group = reference.text("apiGroup");
    if group != GROUP && !(group.is_empty() && reference.text("kind").is_empty()) {
        errors.push(FieldError::not_supported(reference.at("apiGroup"), json!(group), &[GROUP.to_owned()]));
    }
}

fn subject(place: &Location<'_>, errors: &mut Errors) {
    check_subject(place, true, errors);
}

fn namespaced_subject(place: &Location<'_>, errors: &mut Errors) {
    check_subject(place, false, errors);
}

fn check_subject(subject: &Location<'_>, needs_namespace: bool, errors: &mut Errors) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(subject.at("name"), ""));
    }
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                subject.check(&[Must("name", Text(names::check_subdomain))], errors);
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(subject.at("apiGroup"), json!(group), &[String::new()]));
            }
            if needs_namespace && subject.text("namespace").is_empty() {
                errors.push(FieldError::required(subject.at("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(subject.at("apiGroup"), json!(group), &[GROUP.to_owned()]));
            }
        }
        other => {
            let supported = ["ServiceAccount", "User", "Group"].map(str::to_owned);
            errors.push(FieldError::not_supported(subject.at("kind"), json!(other), &supported));
        }
    }
}

/// A binding to another role is another binding.
fn reference_change(binding: &Location<'_>, errors: &mut Errors) {
    const REFERENCE: StructFields = &[
        ("apiGroup", "APIGroup", FieldShape::Text),
        ("kind", "Kind", FieldShape::Text),
        ("name", "Name", FieldShape::Text),
    ];
    if binding.changes("roleRef") {
        let quoted = struct_text::quote(&binding.value["roleRef"], REFERENCE);
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "roleRef", &quoted, "cannot change roleRef"));
    }
}
