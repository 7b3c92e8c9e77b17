//! Jobs and cron jobs.

pub(super) mod schedule;

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::pods::TEMPLATE;
use super::selectors::{self, LABEL_SELECTOR};
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::{FieldError, FieldErrorKind, internal, struct_text};
use Rule::{Code, Given, If, Immutable, In, Is, Required, Within};
use ValueCheck::{NonNegative, OneOf, Text};

pub(super) const JOB: Rules = &[
    If(
        Condition::New,
        &[Within("spec", &[Code(job_selector), Code(job_spec), Code(generated_selector), Code(job_labels)])],
    ),
    // The server reports every error in the spec of a changed job twice.
    If(Condition::Changing, &[Within("spec", &[Code(whole_spec), Code(whole_spec)])]),
    If(
        Condition::Changing,
        &[
            Code(completions_change),
            Code(selector_change),
            Code(template_change),
            Immutable("spec.completionMode"),
            Immutable("spec.podFailurePolicy"),
            Immutable("spec.backoffLimitPerIndex"),
            Immutable("spec.managedBy"),
            Immutable("spec.successPolicy"),
        ],
    ),
];

pub(super) const CRON_JOB: Rules = &[
    Within(
        "spec",
        &[
            Required("schedule"),
            Is("schedule", Text(schedule::problems)),
            If(Condition::Has("timeZone"), &[Code(time_zone)]),
            Given("startingDeadlineSeconds", NonNegative),
            Is("concurrencyPolicy", OneOf(&["Allow", "Forbid", "Replace"])),
            Given("successfulJobsHistoryLimit", NonNegative),
            Given("failedJobsHistoryLimit", NonNegative),
            Within("jobTemplate", &[Within("spec", &[Code(job_spec), Code(unset_selector)])]),
        ],
    ),
    If(Condition::New, &[Code(short_name)]),
];

/// What jobs and templates of jobs have in common.
const SPEC: Rules = &[
    Given("parallelism", NonNegative),
    Given("completions", NonNegative),
    Given("activeDeadlineSeconds", NonNegative),
    Given("backoffLimit", NonNegative),
    Given("ttlSecondsAfterFinished", NonNegative),
    Given("backoffLimitPerIndex", NonNegative),
    Given("maxFailedIndexes", NonNegative),
    Code(needed_index_limit),
    Is("managedBy", Text(values::domain_path)),
    Is("completionMode", OneOf(&["NonIndexed", "Indexed"])),
    Code(indexed),
    Code(only_indexed),
    In("podFailurePolicy", &[Rule::Each("rules", &[Code(failure_rule)])]),
    Code(success_policy),
    Is("podReplacementPolicy", OneOf(&["Failed", "TerminatingOrFailed"])),
    Within("template", TEMPLATE),
    Code(ending_template),
];

/// The immutable fields of a job. Errors about its selector come last.
fn whole_spec(spec: &Location<'_>, errors: &mut Errors) {
    job_spec(spec, errors);
    job_selector(spec, errors);
    generated_selector(spec, errors);
    job_labels(spec, errors);
}

fn job_spec(spec: &Location<'_>, errors: &mut Errors) {
    spec.check(SPEC, errors);
}

fn needed_index_limit(spec: &Location<'_>, errors: &mut Errors) {
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(spec.at("backoffLimitPerIndex"), detail));
    }
}

fn indexed(spec: &Location<'_>, errors: &mut Errors) {
    if spec.text("completionMode") != "Indexed" {
        return;
    }
    let Some(completions) = spec.number("completions") else {
        errors.push(FieldError::required(spec.at("completions"), "when completion mode is Indexed"));
        return;
    };
    if spec.number("parallelism").is_some_and(|parallelism| parallelism > 100_000) {
        let detail = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.push(spec.invalid("parallelism", detail));
    }
    if spec.number("maxFailedIndexes").is_some_and(|limit| limit > completions) {
        errors.push(spec.invalid("maxFailedIndexes", "must be less than or equal to completions"));
    }
}

fn only_indexed(spec: &Location<'_>, errors: &mut Errors) {
    if spec.text("completionMode") == "Indexed" {
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if spec.get(field).is_some() {
            errors.push(spec.invalid(field, "requires indexed completion mode"));
        }
    }
}

fn success_policy(spec: &Location<'_>, errors: &mut Errors) {
    let Some(policy) = spec.enter("successPolicy") else { return };
    if spec.text("completionMode") != "Indexed" {
        let rules: Vec<String> = policy
            .list("rules")
            .iter()
            .map(|rule| {
                let field = |name: &str| crate::go::go_json(&rule.get(name).cloned().unwrap_or_default());
                format!(
                    "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                    field("succeededIndexes"),
                    field("succeededCount")
                )
            })
            .collect();
        let quoted = format!("{{\"Rules\":[{}]}}", rules.join(","));
        let detail = "requires indexed completion mode";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, policy.path, &quoted, detail));
        return;
    }
    if policy.list("rules").is_empty() {
        errors.push(FieldError::required(
            policy.at("rules"),
            "at least one rules must be specified when the successPolicy is specified",
        ));
    }
}

fn failure_rule(rule: &Location<'_>, errors: &mut Errors) {
    const ACTIONS: ValueCheck = OneOf(&["Count", "FailIndex", "FailJob", "Ignore"]);
    rule.check(&[Rule::Must("action", ACTIONS)], errors);
    if let Some(codes) = rule.enter("onExitCodes") {
        codes.check(&[Rule::Must("operator", OneOf(&["In", "NotIn"]))], errors);
        let list = codes.list("values");
        if list.is_empty() {
            errors.push(FieldError::invalid(codes.at("values"), json!([]), "at least one value is required"));
        }
        for (index, code) in list.iter().enumerate() {
            let path = format!("{}[{index}]", codes.at("values"));
            if codes.text("operator") == "In" && code.as_i64() == Some(0) {
                errors.push(FieldError::invalid(path, code.clone(), "must not be 0 for the In operator"));
            } else if list.iter().take(index).any(|earlier| earlier == code) {
                errors.push(FieldError::duplicate(path, code.clone()));
            }
        }
    }
    let (codes, conditions) = (rule.get("onExitCodes").is_some(), !rule.list("onPodConditions").is_empty());
    let words = match (codes, conditions) {
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        _ => return,
    };
    errors.push(FieldError::quoting(FieldErrorKind::Invalid, rule.path.clone(), words, ""));
}

/// Jobs come to an end, so their pods must.
fn ending_template(spec: &Location<'_>, errors: &mut Errors) {
    let template = spec.within("template");
    match template.text("spec.restartPolicy") {
        "" | "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(template.at("spec.restartPolicy"), detail));
        }
        "OnFailure" | "Never" => {}
        other => {
            let supported = ["OnFailure", "Never"].map(str::to_owned);
            errors.push(FieldError::not_supported(template.at("spec.restartPolicy"), json!(other), &supported));
        }
    }
}

fn job_selector(spec: &Location<'_>, errors: &mut Errors) {
    match spec.enter("selector") {
        Some(selector) => selector.check(LABEL_SELECTOR, errors),
        None => errors.push(FieldError::required(spec.at("selector"), "")),
    }
}

fn is_manual(spec: &Location<'_>) -> bool {
    spec.get("manualSelector") == Some(&Value::Bool(true))
}

/// The labels by which a job finds its pods are its own.
fn generated_selector(spec: &Location<'_>, errors: &mut Errors) {
    if is_manual(spec) {
        return;
    }
    let Some(job) = spec.parent else { return };
    let Some(selector) = spec.get("selector") else { return };
    let (uid, name) = (job.text("metadata.uid"), job.text("metadata.name"));
    for (key, expected) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let labels = spec.get("template.metadata.labels").cloned().unwrap_or_default();
        let path = format!("{}[{key}]", spec.at("template.metadata.labels"));
        match labels.get(key) {
            None => errors.push(FieldError::required(path, format!("must be '{expected}'"))),
            Some(given) if given != expected => {
                errors.push(FieldError::invalid(path, labels, format!("must be '{expected}'")));
            }
            Some(_) => {}
        }
    }
    let expected = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    if *selector != expected {
        let quoted = struct_text::selector(selector);
        let error =
            FieldError::quoting(FieldErrorKind::Invalid, spec.at("selector"), &quoted, "`selector` not auto-generated");
        errors.push(error);
    }
}

fn job_labels(spec: &Location<'_>, errors: &mut Errors) {
    let labels = spec.get("template.metadata.labels").cloned().unwrap_or_default();
    let fits = spec.get("selector").is_some_and(|selector| selectors::selects(selector, &labels));
    if !fits {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(spec.at("template.metadata.labels"), labels, detail));
    }
}

fn completions_change(job: &Location<'_>, errors: &mut Errors) {
    let indexed = job.text("spec.completionMode") == "Indexed";
    if job.changes("spec.completions") && !indexed {
        errors.push(job.invalid("spec.completions", "field is immutable"));
    }
}

fn selector_change(job: &Location<'_>, errors: &mut Errors) {
    if job.changes("spec.selector") {
        let quoted = struct_text::selector(job.get("spec.selector").unwrap_or(&Value::Null));
        let error = FieldError::quoting(FieldErrorKind::Invalid, "spec.selector", &quoted, "field is immutable");
        errors.push(error);
    }
}

/// Templates are immutable, except for the scheduling directives of a suspended job.
fn template_change(job: &Location<'_>, errors: &mut Errors) {
    let Some(old) = job.old else { return };
    let suspended = old["spec"]["suspend"] == true && old["status"].get("startTime").is_none();
    let mut template = job.value["spec"]["template"].clone();
    if suspended {
        let before = &old["spec"]["template"];
        for field in ["labels", "annotations"] {
            keep(&mut template["metadata"], &before["metadata"], field);
        }
        for field in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
            keep(&mut template["spec"], &before["spec"], field);
        }
    }
    if template != old["spec"]["template"] {
        let quoted = internal::quote("PodTemplateSpec", &job.value["spec"]["template"]);
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec.template", &quoted, "field is immutable"));
    }
}

fn keep(target: &mut Value, source: &Value, field: &str) {
    match (target.as_object_mut(), source.get(field)) {
        (Some(fields), Some(value)) => {
            fields.insert(field.to_owned(), value.clone());
        }
        (Some(fields), None) => {
            fields.shift_remove(field);
        }
        (None, _) => {}
    }
}

fn unset_selector(spec: &Location<'_>, errors: &mut Errors) {
    if let Some(selector) = spec.get("selector") {
        let quoted = struct_text::selector(selector);
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, spec.at("selector"), &quoted, detail));
    }
    if is_manual(spec) {
        let supported = ["nil", "false"].map(str::to_owned);
        errors.push(FieldError::not_supported(spec.at("manualSelector"), json!(true), &supported));
    }
}

fn time_zone(spec: &Location<'_>, errors: &mut Errors) {
    let zone = spec.text("timeZone");
    if zone.is_empty() {
        errors.push(spec.invalid("timeZone", "timeZone must be nil or non-empty string"));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(spec.invalid("timeZone", detail));
    } else if zone != "UTC" && jiff::tz::TimeZone::get(zone).is_err() {
        errors.push(spec.invalid("timeZone", format!("unknown time zone {zone}")));
    }
}

/// Names of jobs are longer than those of their cron jobs.
fn short_name(job: &Location<'_>, errors: &mut Errors) {
    if job.text("metadata.name").len() > 52 {
        errors.push(job.invalid("metadata.name", "must be no more than 52 characters"));
    }
}
