//! Deployments and similar kinds: selectors, templates, strategies, immutable fields.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::pods::TEMPLATE;
use super::selectors::{self, LABEL_SELECTOR};
use super::{Condition, Location, Rule, Rules, ValueCheck};
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::names;
use Rule::{Code, Each, Forbid, Given, If, Immutable, In, Is, Required, Within};
use ValueCheck::{NonNegative, NumberOrPart, NumberOrPercent, OneOf, Text};

pub(super) const DEPLOYMENT: Rules = &[
    Within(
        "spec",
        &[
            Given("replicas", NonNegative),
            Code(selector),
            Code(fitting_template),
            Code(deployment_strategy),
            Given("minReadySeconds", NonNegative),
            Given("revisionHistoryLimit", NonNegative),
            Given("progressDeadlineSeconds", NonNegative),
            Code(progress_deadline),
        ],
    ),
    Code(immutable_selector),
];

pub(super) const REPLICA_SET: Rules = &[
    Within(
        "spec",
        &[
            Given("replicas", NonNegative),
            Given("minReadySeconds", NonNegative),
            Code(selector),
            Code(fitting_template),
        ],
    ),
    Code(immutable_selector),
];

pub(super) const STATEFUL_SET: Rules = &[
    Within(
        "spec",
        &[
            Code(pod_management),
            Code(stateful_strategy),
            In(
                "persistentVolumeClaimRetentionPolicy",
                &[Is("whenDeleted", OneOf(&["Retain", "Delete"])), Is("whenScaled", OneOf(&["Retain", "Delete"]))],
            ),
            Given("replicas", NonNegative),
            Given("minReadySeconds", NonNegative),
            Given("ordinals.start", NonNegative),
            Code(stateful_selector),
            Code(stateful_template),
            Given("revisionHistoryLimit", NonNegative),
            If(Condition::New, &[Is("serviceName", Text(names::check_label))]),
            Each("volumeClaimTemplates", &[Within("spec", super::claims::CLAIM_SPEC)]),
        ],
    ),
    If(Condition::Changing, &[Code(stateful_changes)]),
];

pub(super) const DAEMON_SET: Rules = &[
    Code(immutable_selector),
    Within(
        "spec",
        &[
            Code(daemon_template),
            Given("minReadySeconds", NonNegative),
            Code(daemon_strategy),
            Given("revisionHistoryLimit", NonNegative),
        ],
    ),
];

pub(super) const REPLICATION_CONTROLLER: Rules = &[Within(
    "spec",
    &[
        Given("minReadySeconds", NonNegative),
        Required("selector"),
        Given("replicas", NonNegative),
        Required("template"),
        In("template", &[Code(controlled_template)]),
    ],
)];

pub(super) const POD_TEMPLATE_OBJECT: Rules = &[Within("template", TEMPLATE)];

pub(super) const CONTROLLER_REVISION: Rules =
    &[Rule::Given("revision", NonNegative), If(Condition::New, &[Code(revision_data)]), Immutable("data")];

fn revision_data(revision: &Location<'_>, errors: &mut Errors) {
    match revision.get("data") {
        None => errors.push(FieldError::required("data", "data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(FieldError::required("data", "data must be a valid JSON object")),
    }
}

pub(super) const DISRUPTION_BUDGET: Rules = &[Within(
    "spec",
    &[
        Code(both_limits),
        Given("minAvailable", NumberOrPart),
        Given("maxUnavailable", NumberOrPart),
        In("selector", LABEL_SELECTOR),
        Given("unhealthyPodEvictionPolicy", OneOf(&["AlwaysAllow", "IfHealthyBudget"])),
    ],
)];

fn selector(spec: &Location<'_>, errors: &mut Errors) {
    let Some(selector) = spec.enter("selector") else {
        errors.push(FieldError::required(spec.at("selector"), ""));
        return;
    };
    selector.check(LABEL_SELECTOR, errors);
    if is_empty_selector(selector.value) {
        let detail = "empty selector is invalid for deployment";
        errors.push(FieldError::invalid(selector.path, json!({}), detail));
    }
}

fn is_empty_selector(selector: &Value) -> bool {
    ["matchLabels", "matchExpressions"].iter().all(|field| selector.get(field).is_none_or(super::is_empty))
}

/// Whether a selector can be turned into a query at all.
fn is_usable(selector: &Value) -> bool {
    let mut errors = Vec::new();
    let root = json!({"selector": selector});
    errors.extend(super::evaluate::run(&[In("selector", LABEL_SELECTOR)], &root, None));
    errors.is_empty()
}

/// The template must be one that the selector finds, and one that runs for ever.
fn fitting_template(spec: &Location<'_>, errors: &mut Errors) {
    let selector = spec.get("selector").cloned().unwrap_or_default();
    if !selector.is_null() && !is_usable(&selector) {
        let quoted = struct_text::selector(&selector);
        let detail = "invalid label selector";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, spec.at("selector"), &quoted, detail));
        return;
    }
    if selector.is_null() || !is_empty_selector(&selector) {
        labels_fit(spec, &selector, errors);
    }
    let template = spec.within("template");
    template.check(TEMPLATE, errors);
    endless(&template, "ReplicaSet", errors);
}

fn labels_fit(spec: &Location<'_>, selector: &Value, errors: &mut Errors) {
    let labels = spec.get("template.metadata.labels").cloned().unwrap_or_default();
    if selector.is_null() || !selectors::selects(selector, &labels) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(spec.at("template.metadata.labels"), labels, detail));
    }
}

fn endless(template: &Location<'_>, kind: &str, errors: &mut Errors) {
    let policy = template.text("spec.restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        let field = template.at("spec.restartPolicy");
        errors.push(FieldError::not_supported(field, json!(policy), &["Always".to_owned()]));
    }
    if template.get("spec.activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(template.at("spec.activeDeadlineSeconds"), detail));
    }
}

fn immutable_selector(object: &Location<'_>, errors: &mut Errors) {
    if object.changes("spec.selector") {
        let quoted = struct_text::selector(object.get("spec.selector").unwrap_or(&Value::Null));
        let error = FieldError::quoting(FieldErrorKind::Invalid, "spec.selector", &quoted, "field is immutable");
        errors.push(error);
    }
}

const STRATEGY: StructFields =
    &[("type", "Type", FieldShape::Plain), ("rollingUpdate", "RollingUpdate", FieldShape::Plain)];

fn deployment_strategy(spec: &Location<'_>, errors: &mut Errors) {
    const ROLLING: Rules = &[
        Given("maxUnavailable", NumberOrPercent),
        Given("maxSurge", NumberOrPercent),
        Code(some_progress),
        Given("maxUnavailable", ValueCheck::AtMostAll),
    ];
    let strategy = spec.within("strategy");
    let with_rolling = strategy.get("rollingUpdate").is_some();
    match strategy.text("type") {
        "Recreate" if with_rolling => {
            strategy
                .check(&[Forbid("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")], errors);
        }
        "Recreate" => {}
        "RollingUpdate" => strategy.within("rollingUpdate").check(ROLLING, errors),
        _ => {
            let detail = "supported values: \"Recreate\", \"RollingUpdate\"";
            let quoted = struct_text::quote(strategy.value, STRATEGY);
            errors.push(FieldError::quoting(FieldErrorKind::NotSupported, strategy.path, &quoted, detail));
        }
    }
}

/// The number behind a number or a percentage; texts that are neither count as nothing.
fn amount(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::String(text)) => text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or(0),
        Some(value) => value.as_i64().unwrap_or_default(),
        None => 0,
    }
}

fn some_progress(rolling: &Location<'_>, errors: &mut Errors) {
    if amount(rolling.get("maxUnavailable")) == 0 && amount(rolling.get("maxSurge")) == 0 {
        let value = rolling.get("maxUnavailable").filter(|value| !value.is_string()).cloned().unwrap_or(json!(0));
        let shown = rolling.get("maxUnavailable").cloned().unwrap_or(value);
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(rolling.at("maxUnavailable"), shown, detail));
    }
}

fn progress_deadline(spec: &Location<'_>, errors: &mut Errors) {
    let deadline = spec.number("progressDeadlineSeconds");
    if deadline.is_some_and(|deadline| deadline <= spec.number("minReadySeconds").unwrap_or_default()) {
        errors.push(spec.invalid("progressDeadlineSeconds", "must be greater than minReadySeconds"));
    }
}

fn pod_management(spec: &Location<'_>, errors: &mut Errors) {
    match spec.text("podManagementPolicy") {
        "" => errors.push(FieldError::required(spec.at("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        _ => errors.push(spec.invalid("podManagementPolicy", "must be 'OrderedReady' or 'Parallel'")),
    }
}

fn stateful_strategy(spec: &Location<'_>, errors: &mut Errors) {
    const ROLLING: Rules = &[Given("partition", NonNegative), Given("maxUnavailable", NumberOrPercent)];
    const SHOWN: StructFields =
        &[("partition", "Partition", FieldShape::Plain), ("maxUnavailable", "MaxUnavailable", FieldShape::Plain)];
    let strategy = spec.within("updateStrategy");
    match strategy.text("type") {
        "" => errors.push(FieldError::required(strategy.path, "")),
        "OnDelete" => {
            if let Some(rolling) = strategy.enter("rollingUpdate") {
                let quoted = struct_text::quote(rolling.value, SHOWN);
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(FieldError::quoting(FieldErrorKind::Invalid, rolling.path, &quoted, detail));
            }
        }
        "RollingUpdate" => strategy.within("rollingUpdate").check(ROLLING, errors),
        _ => {
            let quoted = struct_text::quote(strategy.value, STRATEGY);
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::quoting(FieldErrorKind::Invalid, strategy.path, &quoted, detail));
        }
    }
}

fn stateful_selector(spec: &Location<'_>, errors: &mut Errors) {
    let Some(selector) = spec.enter("selector") else {
        errors.push(FieldError::required(spec.at("selector"), ""));
        return;
    };
    selector.check(LABEL_SELECTOR, errors);
    if is_empty_selector(selector.value) {
        let detail = "empty selector is invalid for statefulset";
        errors.push(FieldError::invalid(selector.path, json!({}), detail));
    }
}

fn stateful_template(spec: &Location<'_>, errors: &mut Errors) {
    let selector = spec.get("selector").cloned().unwrap_or_default();
    if !selector.is_null() && !is_usable(&selector) {
        let quoted = struct_text::selector(&selector);
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, spec.at("selector"), &quoted, ""));
        return;
    }
    if selector.is_null() || !is_empty_selector(&selector) {
        labels_fit(spec, &selector, errors);
    }
    let template = spec.within("template");
    template.check(TEMPLATE, errors);
    endless(&template, "StatefulSet", errors);
}

fn stateful_changes(set: &Location<'_>, errors: &mut Errors) {
    const MOVABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let Some(old) = set.old else { return };
    let fixed = |object: &Value| -> Vec<(String, Value)> {
        let fields = object["spec"].as_object().into_iter().flatten();
        let mut kept: Vec<(String, Value)> = fields
            .filter(|(name, value)| !MOVABLE.contains(&name.as_str()) && !super::is_empty(value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        kept.sort_by(|one, other| one.0.cmp(&other.0));
        kept
    };
    if fixed(old) != fixed(set.value) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

fn daemon_template(spec: &Location<'_>, errors: &mut Errors) {
    let selector = spec.get("selector").cloned().unwrap_or_default();
    if let Some(place) = spec.enter("selector") {
        place.check(LABEL_SELECTOR, errors);
    }
    let usable = selector.is_null() || is_usable(&selector);
    if usable
        && (selector.is_null()
            || !selectors::selects(&selector, spec.get("template.metadata.labels").unwrap_or(&Value::Null)))
    {
        labels_fit(spec, &selector, errors);
    }
    if !selector.is_null() && is_empty_selector(&selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(spec.at("selector"), json!({}), detail));
    }
    let template = spec.within("template");
    template.check(TEMPLATE, errors);
    endless(&template, "DaemonSet", errors);
}

fn daemon_strategy(spec: &Location<'_>, errors: &mut Errors) {
    let strategy = spec.within("updateStrategy");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let Some(rolling) = strategy.enter("rollingUpdate") else {
                errors.push(FieldError::required(strategy.at("rollingUpdate"), ""));
                return;
            };
            rolling.check(&[Given("maxUnavailable", NumberOrPart), Given("maxSurge", NumberOrPart)], errors);
            let (missing, surge) = (amount(rolling.get("maxUnavailable")), amount(rolling.get("maxSurge")));
            if missing > 0 && surge > 0 {
                errors.push(rolling.invalid("maxSurge", "may not be set when maxUnavailable is non-zero"));
            } else if missing == 0 && surge == 0 {
                let detail = "cannot be 0 when maxSurge is 0";
                errors.push(FieldError::required(rolling.at("maxUnavailable"), detail));
            }
        }
        _ => {
            let quoted = struct_text::quote(strategy.value, STRATEGY);
            let detail = "supported values: \"RollingUpdate\", \"OnDelete\"";
            errors.push(FieldError::quoting(FieldErrorKind::NotSupported, strategy.path, &quoted, detail));
        }
    }
}

fn controlled_template(template: &Location<'_>, errors: &mut Errors) {
    let selector = template.parent.and_then(|spec| spec.get("selector")).cloned().unwrap_or_default();
    let labels = template.get("metadata.labels").cloned().unwrap_or_default();
    if !super::is_empty(&selector) && !selectors::selects(&json!({"matchLabels": selector}), &labels) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(template.at("metadata.labels"), labels, detail));
    }
    template.check(TEMPLATE, errors);
    endless(template, "ReplicationController", errors);
}

fn both_limits(spec: &Location<'_>, errors: &mut Errors) {
    const SHOWN: StructFields = &[
        ("minAvailable", "MinAvailable", FieldShape::Plain),
        ("selector", "Selector", FieldShape::Plain),
        ("maxUnavailable", "MaxUnavailable", FieldShape::Plain),
        ("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy", FieldShape::Plain),
    ];
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let quoted = struct_text::quote(spec.value, SHOWN);
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, spec.path.clone(), &quoted, detail));
    }
}
