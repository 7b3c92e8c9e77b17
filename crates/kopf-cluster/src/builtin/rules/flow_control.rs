//! Which requests wait for which others: flow schemas and priority levels.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::{Condition, Location, Rule, Rules, ValueCheck};
use crate::go::{FieldError, FieldErrorKind, go_json};
use crate::values::names;
use Rule::{Code, Each, Forbid, Given, If, In, Is, Needs, Required, Unique, Within};
use ValueCheck::{Between, OneOf, Text};

pub(super) const FLOW_SCHEMA: Rules = &[
    Code(first_schema),
    Within(
        "spec",
        &[
            Code(precedence),
            In("distinguisherMethod", &[Code(distinguisher)]),
            Needs("priorityLevelConfiguration.name", "must reference a priority level"),
            Is("priorityLevelConfiguration.name", Text(names::check_subdomain)),
            Each("rules", RULE),
        ],
    ),
];

/// Conditions have types, each of them once.
pub(super) const STATUS: Rules = &[Within("status", &[Each("conditions", &[Unique("type"), Required("type")])])];

const MAX_PRECEDENCE: i64 = 10_000;

fn precedence(spec: &Location<'_>, errors: &mut Errors) {
    match spec.number("matchingPrecedence").unwrap_or_default() {
        number if number <= 0 => {
            errors.push(FieldError::invalid(spec.at("matchingPrecedence"), json!(number), "must be a positive value"));
        }
        number if number > MAX_PRECEDENCE => {
            errors.push(spec.invalid("matchingPrecedence", format!("must not be greater than {MAX_PRECEDENCE}")));
        }
        _ => {}
    }
}

fn first_schema(schema: &Location<'_>, errors: &mut Errors) {
    if schema.number("spec.matchingPrecedence") == Some(1) && schema.text("metadata.name") != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(schema.invalid("spec.matchingPrecedence", detail));
    }
}

fn distinguisher(method: &Location<'_>, errors: &mut Errors) {
    let supported = ["ByNamespace", "ByUser"];
    if !supported.contains(&method.text("type")) {
        // The message shows the whole value instead of the type.
        let quoted = format!("{{\"Type\":{}}}", go_json(&json!(method.text("type"))));
        let supported: Vec<String> = supported.iter().map(|name| format!("\"{name}\"")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        errors.push(FieldError::quoting(FieldErrorKind::NotSupported, method.at("type"), &quoted, &detail));
    }
}

const RULE: Rules = &[
    Needs("subjects", "subjects must contain at least one value"),
    Each("subjects", &[Code(subject)]),
    Code(some_rule),
    Each("resourceRules", &[Code(resource_rule)]),
    Each("nonResourceRules", &[Code(other_rule)]),
];

fn some_rule(rule: &Location<'_>, errors: &mut Errors) {
    if rule.list("resourceRules").is_empty() && rule.list("nonResourceRules").is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(rule.path.clone(), detail));
    }
}

/// The kinds of subjects, and their fields.
const SUBJECTS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

fn subject(subject: &Location<'_>, errors: &mut Errors) {
    let kind = subject.text("kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        let supported = SUBJECTS.map(|(known, _)| known.to_owned());
        errors.push(FieldError::not_supported(subject.at("kind"), json!(kind), &supported));
        return;
    };
    match subject.enter(own) {
        None => {
            let detail = format!("{own} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(subject.at(own), detail));
        }
        Some(place) if kind == "ServiceAccount" => account(&place, errors),
        Some(place) => place.check(&[Required("name")], errors),
    }
    // Service accounts and users are looked for before groups.
    for (other, field) in [SUBJECTS[1], SUBJECTS[2], SUBJECTS[0]] {
        if field != *own && subject.get(field).is_some() {
            let detail = format!("{field} is forbidden when subject kind is not '{other}'");
            errors.push(FieldError::forbidden(subject.at(field), detail));
        }
    }
}

fn account(place: &Location<'_>, errors: &mut Errors) {
    const NAMESPACE: Rules =
        &[Needs("namespace", "must specify namespace for service account"), Is("namespace", Text(names::check_label))];
    place.check(&[Required("name")], errors);
    if place.text("name") != "*" {
        place.check(&[Is("name", Text(names::check_subdomain))], errors);
    }
    place.check(NAMESPACE, errors);
}

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn verbs(rule: &Location<'_>, errors: &mut Errors) {
    let list = rule.list("verbs");
    if list.is_empty() {
        errors.push(FieldError::required(rule.at("verbs"), "verbs must contain at least one value"));
    } else if has_star(list) {
        alone(rule, "verbs", "verbs", errors);
    } else if !list.iter().all(|verb| verb.as_str().is_some_and(|verb| VERBS.contains(&verb))) {
        errors.push(FieldError::not_supported(rule.at("verbs"), json!(list), &VERBS.map(str::to_owned)));
    }
}

fn has_star(list: &[Value]) -> bool {
    list.iter().any(|entry| entry == "*")
}

/// A star stands for all, so that nothing else can stand beside it.
fn alone(rule: &Location<'_>, field: &str, what: &str, errors: &mut Errors) {
    let list = rule.list(field);
    if list.len() > 1 && has_star(list) {
        errors.push(rule.invalid(field, format!("if '*' is present, must not specify other {what}")));
    }
}

fn resource_rule(rule: &Location<'_>, errors: &mut Errors) {
    verbs(rule, errors);
    for (field, one, other) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        if rule.list(field).is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(rule.at(field), detail));
        }
        alone(rule, field, other, errors);
    }
    let namespaces = rule.list("namespaces");
    if namespaces.is_empty() && rule.get("clusterScope") != Some(&Value::Bool(true)) {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(rule.at("namespaces"), detail));
    } else if has_star(namespaces) {
        alone(rule, "namespaces", "namespaces", errors);
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            for problem in names::check_label(namespace.as_str().unwrap_or_default()) {
                let path = format!("{}[{index}]", rule.at("namespaces"));
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                errors.push(FieldError::invalid(path, namespace.clone(), detail));
            }
        }
    }
}

fn other_rule(rule: &Location<'_>, errors: &mut Errors) {
    verbs(rule, errors);
    let list = rule.list("nonResourceURLs");
    if list.is_empty() {
        let detail = "nonResourceURLs must contain at least one value";
        errors.push(FieldError::required(rule.at("nonResourceURLs"), detail));
    } else if has_star(list) {
        alone(rule, "nonResourceURLs", "non-resource URLs", errors);
    } else {
        for (index, path) in list.iter().enumerate() {
            if let Some(problem) = path_problem(path.as_str().unwrap_or_default()) {
                let field = format!("{}[{index}]", rule.at("nonResourceURLs"));
                errors.push(FieldError::invalid(field, path.clone(), problem));
            }
        }
    }
}

fn path_problem(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

pub(super) const PRIORITY_LEVEL: Rules = &[
    Code(exempt_by_name),
    Within(
        "spec",
        &[
            If(Condition::Lacks("type"), &[Required("type")]),
            Is("type", OneOf(&["Exempt", "Limited"])),
            If(
                Condition::Is("type", "Exempt"),
                &[
                    If(Condition::Has("limited"), &[Forbid("limited", "must be nil if the type is not Limited")]),
                    In("exempt", &[Code(shares), Given("lendablePercent", Between(0, 100))]),
                ],
            ),
            If(
                Condition::Is("type", "Limited"),
                &[
                    If(Condition::Has("exempt"), &[Forbid("exempt", "must be nil if the type is Limited")]),
                    If(Condition::Lacks("limited"), &[Needs("limited", "must not be empty when type is Limited")]),
                    In(
                        "limited",
                        &[
                            Code(shares),
                            Within("limitResponse", &[Code(response)]),
                            Given("lendablePercent", Between(0, 100)),
                            Code(borrowing),
                        ],
                    ),
                ],
            ),
        ],
    ),
];

fn exempt_by_name(level: &Location<'_>, errors: &mut Errors) {
    if (level.text("metadata.name") == "exempt") != (level.text("spec.type") == "Exempt") {
        errors.push(level.invalid("spec.type", "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
}

fn shares(level: &Location<'_>, errors: &mut Errors) {
    if level.number("nominalConcurrencyShares").is_some_and(|shares| shares < 0) {
        errors.push(level.invalid("nominalConcurrencyShares", "must be a non-negative integer"));
    }
}

fn borrowing(level: &Location<'_>, errors: &mut Errors) {
    if level.number("borrowingLimitPercent").is_some_and(|percent| percent < 0) {
        errors.push(level.invalid("borrowingLimitPercent", "if specified, must be a non-negative integer"));
    }
}

fn response(response: &Location<'_>, errors: &mut Errors) {
    match (response.text("type"), response.enter("queuing")) {
        ("Reject", Some(queuing)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(queuing.path, detail));
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(response.at("queuing"), detail));
        }
        ("Queue", Some(place)) => queuing(&place, errors),
        _ => response.check(&[Required("type"), Is("type", OneOf(&["Queue", "Reject"]))], errors),
    }
}

const MAX_QUEUES: i64 = 10_000_000;
/// The bits that there are for dealing requests to queues.
const MAX_HASH_BITS: f64 = 60.0;

fn queuing(place: &Location<'_>, errors: &mut Errors) {
    let number = |field: &str| place.number(field).unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    let mut refuse = |field: &str, detail: String| errors.push(place.invalid(field, detail));
    if number("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive".to_owned());
    }
    if queues <= 0 {
        refuse("queues", "must be positive".to_owned());
    } else if queues > MAX_QUEUES {
        refuse("queues", format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive".to_owned());
    } else if hand > queues {
        refuse("handSize", format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > MAX_HASH_BITS {
        refuse(
            "handSize",
            format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than \
                 {MAX_HASH_BITS}"
            ),
        );
    }
}

/// How many bits it takes to draw a hand out of a deck, at most.
fn entropy_bits(deck: i64, hand: i64) -> f64 {
    ((deck as f64).log2() * hand as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    fn errors_of(rules: Rules, object: &Value) -> String {
        run(rules, object, None).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn priority_levels() {
        for (spec, expected) in [
            (json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}), ""),
            (json!({"type": "Limited"}), "spec.limited: Required value: must not be empty when type is Limited"),
            (json!({}), "spec.type: Required value"),
            (
                json!({"type": "Limited", "limited": {"lendablePercent": 101, "limitResponse": {"type": "Queue",
                    "queuing": {"queues": 2, "handSize": 3, "queueLengthLimit": 1}}}}),
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: should not be greater than queues (2); \
                 spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            ),
        ] {
            let level = json!({"metadata": {"name": "a"}, "spec": spec});
            assert_eq!(errors_of(PRIORITY_LEVEL, &level), expected);
        }
    }

    #[test]
    fn flow_schemas() {
        let schema = |rules: Value| {
            json!({"metadata": {"name": "a"}, "spec": {"matchingPrecedence": 5,
                "priorityLevelConfiguration": {"name": "b"}, "rules": rules}})
        };
        let user = json!([{"kind": "User", "user": {"name": "u"}}]);
        for (rules, expected) in [
            (json!([]), ""),
            (json!([{"subjects": user, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]}]), ""),
            (
                json!([{"subjects": [{"kind": "Group"}], "resourceRules": [{"verbs": ["*"], "apiGroups": ["a", "*"],
                    "resources": ["*"], "clusterScope": true}]}]),
                "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'; \
                 spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"a\",\"*\"]: if '*' is present, must not \
                 specify other api groups",
            ),
            (
                json!([{"subjects": user}]),
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ),
        ] {
            assert_eq!(errors_of(FLOW_SCHEMA, &schema(rules)), expected);
        }
    }
}
