//! Policies of admission, validating and mutating ones, and where they apply.

use serde_json::json;

use super::evaluate::Errors;
use super::registration::{CONDITION, RULE};
use super::selectors::LABEL_SELECTOR;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use crate::values::names;
use Rule::{Code, Each, Given, If, In, Is, Needs, Required, Unique, Within};
use ValueCheck::{OneOf, Text};

/// What all policies have in common.
const COMMON: Rules = &[
    Is("failurePolicy", OneOf(&["Fail", "Ignore"])),
    In("paramKind", &[Code(parameter_kind)]),
    If(Condition::Lacks("matchConstraints"), &[Required("matchConstraints")]),
    In("matchConstraints", MATCH),
    In("matchConstraints", &[Required("resourceRules")]),
];

const MATCH: Rules = &[
    Is("matchPolicy", OneOf(&["Equivalent", "Exact"])),
    In("namespaceSelector", LABEL_SELECTOR),
    In("objectSelector", LABEL_SELECTOR),
    Each("resourceRules", RULE),
    Each("excludeResourceRules", RULE),
];

const REST: Rules = &[Each("matchConditions", CONDITION), Each("variables", &[Code(variable)])];

pub(super) const VALIDATING: Rules = &[Within(
    "spec",
    &[
        Code(|spec, errors| spec.check(COMMON, errors)),
        Code(|spec, errors| spec.check(REST, errors)),
        Code(some_validation),
        Each(
            "validations",
            &[
                Needs("expression", "expression is not specified"),
                Code(one_line),
                Is("reason", OneOf(&["Forbidden", "Invalid", "RequestEntityTooLarge"])),
            ],
        ),
        Each("auditAnnotations", &[Unique("key")]),
    ],
)];

pub(super) const MUTATING: Rules = &[Within(
    "spec",
    &[
        Code(|spec, errors| spec.check(COMMON, errors)),
        Code(|spec, errors| only_writes(spec, "matchConstraints", errors)),
        Code(|spec, errors| spec.check(REST, errors)),
        Needs("mutations", "mutations must contain at least one item"),
        Each("mutations", &[Code(mutation)]),
        Required("reinvocationPolicy"),
        Is("reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
    ],
)];

pub(super) const VALIDATING_BINDING: Rules = &[Within(
    "spec",
    &[
        Code(|spec, errors| spec.check(BINDING, errors)),
        Needs("validationActions", "at least one validation action is required"),
        Each("validationActions", &[Given("", OneOf(&["Audit", "Deny", "Warn"]))]),
        Code(deny_or_warn),
    ],
)];

pub(super) const MUTATING_BINDING: Rules = &[Within(
    "spec",
    &[
        Code(|spec, errors| spec.check(BINDING, errors)),
        Code(|spec, errors| only_writes(spec, "matchResources", errors)),
    ],
)];

const BINDING: Rules = &[
    Required("policyName"),
    Is("policyName", Text(names::check_subdomain)),
    In("paramRef", PARAMETERS),
    In("matchResources", MATCH),
];

const EXCLUSIVE: &str = "name and selector are mutually exclusive";

const PARAMETERS: Rules = &[
    Is("name", Text(names::check_segment)),
    Code(|reference, errors| exclusive(reference, "name", errors)),
    In("selector", LABEL_SELECTOR),
    Code(|reference, errors| exclusive(reference, "selector", errors)),
    Code(some_parameter),
    Required("parameterNotFoundAction"),
    Is("parameterNotFoundAction", OneOf(&["Deny", "Allow"])),
];

fn exclusive(reference: &Location<'_>, field: &'static str, errors: &mut Errors) {
    if !reference.text("name").is_empty() && reference.get("selector").is_some() {
        errors.push(FieldError::forbidden(reference.at(field), EXCLUSIVE));
    }
}

fn some_parameter(reference: &Location<'_>, errors: &mut Errors) {
    if reference.text("name").is_empty() && reference.get("selector").is_none() {
        errors.push(FieldError::required(reference.path.clone(), "one of name or selector must be specified"));
    }
}

fn parameter_kind(reference: &Location<'_>, errors: &mut Errors) {
    let mut refuse = |field: &str, value: &str, detail: String| {
        errors.push(FieldError::invalid(reference.at(field), json!(value), detail));
    };
    let (version, kind) = (reference.text("apiVersion"), reference.text("kind"));
    let (group, version_only) = version.split_once('/').unwrap_or(("", version));
    if !group.is_empty() {
        let problems = names::check_subdomain(group);
        if !problems.is_empty() {
            refuse("apiVersion", group, problems.join(","));
        }
    }
    let problems = values::label_1035(version_only);
    if !version_only.is_empty() && !problems.is_empty() {
        refuse("apiVersion", version_only, problems.join(","));
    } else if version_only.is_empty() && !version.is_empty() {
        refuse("apiVersion", version, "version must be specified".to_owned());
    }
    let problems = values::label_1035(&kind.to_lowercase());
    if !kind.is_empty() && !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        refuse("kind", kind, detail);
    }
    reference.check(&[Required("apiVersion"), Required("kind")], errors);
}

fn variable(variable: &Location<'_>, errors: &mut Errors) {
    let name = variable.text("name");
    if name.trim().is_empty() {
        errors.push(FieldError::required(variable.at("name"), "name is not specified"));
    } else if !values::identifier(name).is_empty() {
        errors.push(variable.invalid("name", "must be a valid CEL identifier"));
    }
    if variable.text("expression").trim().is_empty() {
        errors.push(FieldError::required(variable.at("expression"), "expression is not specified"));
    }
}

/// Only created and updated objects can be mutated.
fn only_writes(spec: &Location<'_>, place: &str, errors: &mut Errors) {
    let supported = ["CREATE", "UPDATE"];
    let rules = spec.list(&format!("{place}.resourceRules"));
    let operations = rules.iter().flat_map(|rule| rule["operations"].as_array().into_iter().flatten());
    for operation in operations.filter(|operation| !operation.as_str().is_some_and(|name| supported.contains(&name))) {
        let path = spec.at(&format!("{place}.resourceRules.operations"));
        errors.push(FieldError::not_supported(path, operation.clone(), &supported.map(str::to_owned)));
    }
}

/// The types of mutations, their fields, and the messages about the other field.
const MUTATIONS: [(&str, &str, &str); 2] =
    [("ApplyConfiguration", "applyConfiguration", "jsonPatch"), ("JSONPatch", "jsonPatch", "applyConfiguration")];

fn mutation(mutation: &Location<'_>, errors: &mut Errors) {
    let kind = mutation.text("patchType");
    let Some((_, own, other)) = MUTATIONS.iter().find(|(name, _, _)| *name == kind) else {
        return mutation
            .check(&[Required("patchType"), Is("patchType", OneOf(&["ApplyConfiguration", "JSONPatch"]))], errors);
    };
    match mutation.enter(own) {
        None => {
            let detail = format!("must be specified when patchType is {kind}");
            errors.push(FieldError::required(mutation.at(own), detail));
        }
        Some(place) => {
            if place.text("expression").trim().is_empty() {
                errors.push(FieldError::required(place.at("expression"), "expression is not specified"));
            }
        }
    }
    if mutation.get(other).is_some() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(mutation.at(other), json!(format!("{{{other}}}")), detail));
    }
}

fn some_validation(spec: &Location<'_>, errors: &mut Errors) {
    let detail = "validations or auditAnnotations must contain at least one item";
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        errors.push(FieldError::required(spec.at("validations"), detail));
        errors.push(FieldError::required(spec.at("auditAnnotations"), detail));
    }
}

fn one_line(validation: &Location<'_>, errors: &mut Errors) {
    if validation.text("message").trim().contains('\n') {
        errors.push(validation.invalid("message", "must not contain line breaks"));
    }
}

fn deny_or_warn(spec: &Location<'_>, errors: &mut Errors) {
    let list = spec.list("validationActions");
    if list.iter().any(|action| action == "Deny") && list.iter().any(|action| action == "Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                      API response and headers serves no purpose)";
        errors.push(spec.invalid("validationActions", detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::builtin::rules::evaluate::run;

    fn errors_of(rules: Rules, spec: Value) -> String {
        let object = json!({"spec": spec});
        run(rules, &object, None).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn matching(operation: &str) -> Value {
        json!({"resourceRules": [{"apiGroups": ["a"], "apiVersions": ["v1"], "operations": [operation],
            "resources": ["bs"]}]})
    }

    #[test]
    fn policies() {
        for (rules, spec, expected) in [
            (VALIDATING, json!({"matchConstraints": matching("CREATE"), "validations": [{"expression": "true"}]}), ""),
            (
                VALIDATING,
                json!({"validations": [{"message": "m"}]}),
                "spec.matchConstraints: Required value; spec.validations[0].expression: Required value: expression is \
                 not specified",
            ),
            (
                MUTATING,
                json!({"matchConstraints": matching("CREATE"), "reinvocationPolicy": "Never",
                    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}),
                "",
            ),
            (
                MUTATING,
                json!({"matchConstraints": matching("DELETE"), "reinvocationPolicy": "Never",
                    "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "a"}}]}),
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \
                 \"CREATE\", \"UPDATE\"; spec.mutations[0].jsonPatch: Required value: must be specified when patchType \
                 is JSONPatch; spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not \
                 be specified when patchType is JSONPatch",
            ),
            (MUTATING_BINDING, json!({"policyName": "p"}), ""),
            (
                VALIDATING_BINDING,
                json!({"policyName": "p", "validationActions": ["Deny"],
                    "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}}),
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive; spec.paramRef.selector: \
                 Forbidden: name and selector are mutually exclusive",
            ),
        ] {
            assert_eq!(errors_of(rules, spec), expected);
        }
    }
}
