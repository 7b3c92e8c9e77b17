//! What extends the API: webhooks, services of other servers.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::LABEL_SELECTOR;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use crate::values::names;
use Rule::{Code, Each, Given, If, In, Is, Must, Needs, Required, Unique, Within};
use ValueCheck::{OneOf, Text};

pub(super) const WEBHOOKS: Rules = &[Each(
    "webhooks",
    &[
        Code(webhook_name),
        Unique("name"),
        Each("rules", RULE),
        Is("failurePolicy", OneOf(&["Fail", "Ignore"])),
        Is("matchPolicy", OneOf(&["Equivalent", "Exact"])),
        Code(side_effects),
        Code(timeout),
        Is("reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
        In("namespaceSelector", LABEL_SELECTOR),
        In("objectSelector", LABEL_SELECTOR),
        Code(review_versions),
        Code(client),
        Each("matchConditions", CONDITION),
    ],
)];

pub(super) const CONDITION: Rules =
    &[Required("expression"), Required("name"), Is("name", Text(names::check_qualified_name)), Unique("name")];

/// The rules of a webhook or policy: which requests it matches.
pub(super) const RULE: Rules = &[
    Required("operations"),
    Code(operations),
    Required("apiGroups"),
    Code(|rule, errors| alone(rule, "apiGroups", "API groups", errors)),
    Required("apiVersions"),
    Each("apiVersions", &[Required("")]),
    Code(|rule, errors| alone(rule, "apiVersions", "API versions", errors)),
    Required("resources"),
    Code(resources),
    Is("scope", OneOf(&["*", "Cluster", "Namespaced"])),
];

fn webhook_name(webhook: &Location<'_>, errors: &mut Errors) {
    let name = webhook.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(webhook.at("name"), ""));
        return;
    }
    let problems = names::check_subdomain(name);
    if problems.is_empty() && name.split('.').count() < 3 {
        errors.push(webhook.invalid("name", "should be a domain with at least three segments separated by dots"));
    }
    for problem in problems {
        errors.push(webhook.invalid("name", problem));
    }
}

fn operations(rule: &Location<'_>, errors: &mut Errors) {
    const KNOWN: ValueCheck = OneOf(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    alone(rule, "operations", "operations", errors);
    rule.check(&[Each("operations", &[Given("", KNOWN)])], errors);
}

/// A star stands for all, so that nothing else can stand beside it.
fn alone(rule: &Location<'_>, field: &str, what: &str, errors: &mut Errors) {
    let list = rule.list(field);
    if list.len() > 1 && list.iter().any(|entry| entry == "*") {
        errors.push(rule.invalid(field, format!("if '*' is present, must not specify other {what}")));
    }
}

fn resources(rule: &Location<'_>, errors: &mut Errors) {
    let list: Vec<&str> = rule.list("resources").iter().filter_map(Value::as_str).collect();
    for (index, entry) in list.iter().enumerate() {
        let path = format!("{}[{index}]", rule.at("resources"));
        let Some((resource, part)) = entry.split_once('/') else {
            if entry.is_empty() {
                errors.push(FieldError::required(path, ""));
            }
            continue;
        };
        let whole = format!("{resource}/*");
        let every = format!("*/{part}");
        for wide in [whole, every].iter().filter(|wide| wide != entry && list.contains(&wide.as_str())) {
            let detail = format!("if '{wide}' is present, must not specify {entry}");
            errors.push(FieldError::invalid(path.clone(), json!(entry), detail));
        }
    }
    let plain = list.iter().filter(|entry| !entry.contains('/')).count();
    if list.contains(&"*/*") && list.len() > 1 {
        errors.push(rule.invalid("resources", "if '*/*' is present, must not specify other resources"));
    }
    if list.contains(&"*") && plain > 1 {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(rule.invalid("resources", detail));
    }
}

fn side_effects(webhook: &Location<'_>, errors: &mut Errors) {
    const RULES: Rules = &[
        Needs("sideEffects", "must specify one of None, NoneOnDryRun"),
        Is("sideEffects", OneOf(&["None", "NoneOnDryRun"])),
    ];
    webhook.check(RULES, errors);
}

fn timeout(webhook: &Location<'_>, errors: &mut Errors) {
    if webhook.number("timeoutSeconds").is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        errors.push(webhook.invalid("timeoutSeconds", "the timeout value must be between 1 and 30 seconds"));
    }
}

fn review_versions(webhook: &Location<'_>, errors: &mut Errors) {
    let list = webhook.list("admissionReviewVersions");
    if list.is_empty() {
        let field = webhook.at("admissionReviewVersions");
        errors.push(FieldError::required(field, "must specify one of v1, v1beta1"));
        return;
    }
    for (index, version) in list.iter().enumerate() {
        let path = format!("{}[{index}]", webhook.at("admissionReviewVersions"));
        if list.iter().take(index).any(|earlier| earlier == version) {
            errors.push(FieldError::invalid(path, version.clone(), "duplicate version"));
            continue;
        }
        for problem in values::label_1035(version.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path.clone(), version.clone(), problem));
        }
    }
    if !list.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(webhook.invalid("admissionReviewVersions", "must include at least one of v1, v1beta1"));
    }
}

fn client(webhook: &Location<'_>, errors: &mut Errors) {
    let config = webhook.within("clientConfig");
    match (config.get("url"), config.enter("service")) {
        (Some(url), None) => {
            let text = url.as_str().unwrap_or_default();
            for (shown, detail) in url_problems(text) {
                errors.push(FieldError::invalid(config.at("url"), json!(shown), detail));
            }
        }
        (None, Some(service)) => {
            service.check(&[Required("name"), Required("namespace"), Code(service_path), Code(service_port)], errors);
        }
        _ => errors.push(FieldError::required(config.path, "exactly one of url or service is required")),
    }
}

/// The problem of a URL: the part, and why.
fn url_problems(url: &str) -> Vec<(String, String)> {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut problems = Vec::new();
    if scheme != "https" {
        problems.push((scheme.to_owned(), format!("'https' is the only allowed URL scheme{FORM}")));
    }
    if host.is_empty() {
        problems.push((String::new(), format!("host must be specified{FORM}")));
    }
    for (part, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            problems.push((part.to_owned(), what.to_owned()));
        }
    }
    problems
}

fn service_path(service: &Location<'_>, errors: &mut Errors) {
    let path = service.text("path");
    if path.is_empty() || path == "/" {
        return;
    }
    if !path.starts_with('/') {
        errors.push(service.invalid("path", "must start with a '/'"));
    }
    let inner = path.get(1..).unwrap_or_default();
    for (index, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(service.invalid("path", format!("segment[{index}] may not be empty")));
        }
        for problem in names::check_subdomain(segment).into_iter().filter(|_| !segment.is_empty()) {
            errors.push(service.invalid("path", format!("segment[{index}]: {problem}")));
        }
    }
}

fn service_port(service: &Location<'_>, errors: &mut Errors) {
    if service.number("port").is_some_and(|port| !(1..=65535).contains(&port)) {
        errors.push(service.invalid("port", "port is not valid: must be between 1 and 65535, inclusive"));
    }
}

/// Parts of the API that other servers serve.
pub(super) const API_SERVICE: Rules = &[
    Code(service_name),
    Within(
        "spec",
        &[
            Code(legacy_group),
            Must("version", Text(values::label_1035)),
            Code(priorities),
            In("service", &[Required("namespace"), Required("name")]),
            Code(trust),
        ],
    ),
];

fn service_name(service: &Location<'_>, errors: &mut Errors) {
    let expected = format!("{}.{}", service.text("spec.version"), service.text("spec.group"));
    if service.text("metadata.name") != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{expected}\"");
        errors.push(service.invalid("metadata.name", detail));
    }
}

fn legacy_group(spec: &Location<'_>, errors: &mut Errors) {
    let group = spec.text("group");
    if group.is_empty() && spec.text("version") != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(spec.at("group"), detail));
    } else if !group.is_empty() {
        spec.check(&[Is("group", Text(names::check_subdomain))], errors);
    }
}

fn priorities(spec: &Location<'_>, errors: &mut Errors) {
    for (field, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let number = spec.number(field).unwrap_or_default();
        if number <= 0 || number > limit {
            let detail = format!("must be positive and less than {limit}");
            errors.push(FieldError::invalid(spec.at(field), json!(number), detail));
        }
    }
}

fn trust(spec: &Location<'_>, errors: &mut Errors) {
    let skips = spec.get("insecureSkipTLSVerify") == Some(&Value::Bool(true));
    let has_bundle = !spec.text("caBundle").is_empty();
    if spec.get("service").is_none() {
        const LOCAL: Rules = &[
            If(Condition::Has("caBundle"), &[Rule::Refuse("caBundle", "local APIServices may not have a caBundle")]),
            If(
                Condition::True("insecureSkipTLSVerify"),
                &[Rule::Refuse("insecureSkipTLSVerify", "local APIServices may not have insecureSkipTLSVerify")],
            ),
        ];
        return spec.check(LOCAL, errors);
    }
    if skips && has_bundle {
        errors.push(spec.invalid("insecureSkipTLSVerify", "may not be true if caBundle is present"));
    }
}
