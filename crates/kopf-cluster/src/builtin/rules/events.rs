//! Events, in the words of both their APIs. Messages about them use the names of the old one.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::{Condition, Location, Rule, Rules};
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::names;
use Rule::{Code, If, Required};

/// Of the core group.
pub(super) const OLD: Rules =
    &[Code(|event, errors| about(event, "involvedObject", "reportingComponent", "message", errors))];

/// Events of `events.k8s.io`, which forbid the deprecated fields.
pub(super) const NEW: Rules = &[
    Code(|event, errors| about(event, "regarding", "reportingController", "note", errors)),
    If(Condition::New, &[Code(series), Code(event_time), Code(event_type), Code(old_fields)]),
    If(Condition::Changing, &[Code(changed_series), Code(changes)]),
];

const SHORT: usize = 128;
const NOTE: usize = 1024;

/// The rules for all events. Events with an event time are stricter.
fn about(event: &Location<'_>, object: &str, controller: &'static str, note: &str, errors: &mut Errors) {
    let namespace = event.text("metadata.namespace");
    let other = event.text(&format!("{object}.namespace"));
    let is_newer = event.get("eventTime").is_some();
    let fits = match (other, is_newer) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (other, false) => other == namespace,
        (_, true) => true,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", json!(other), detail));
    }
    if !is_newer {
        return;
    }
    let name = event.text(controller);
    if name.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    for problem in names::check_qualified_name(name) {
        errors.push(FieldError::invalid(controller, json!(name), problem));
    }
    for field in ["reportingInstance", "action", "reason"] {
        if event.text(field).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        limit(field, event.text(field), SHORT, errors);
    }
    limit("message", event.text(note), NOTE, errors);
}

fn limit(field: &str, text: &str, most: usize, errors: &mut Errors) {
    if text.len() > most {
        errors.push(FieldError::invalid(field, json!(""), format!("can have at most {most} characters")));
    }
}

fn series(event: &Location<'_>, errors: &mut Errors) {
    let Some(series) = event.enter("series") else { return };
    if series.number("count").unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", json!(""), "should be at least 2"));
    }
    series.check(&[Required("lastObservedTime")], errors);
}

fn changed_series(event: &Location<'_>, errors: &mut Errors) {
    if event.changes("series") {
        series(event, errors);
    }
}

fn event_time(event: &Location<'_>, errors: &mut Errors) {
    if event.get("eventTime").is_none() {
        errors.push(FieldError::required("eventTime", ""));
    }
}

fn event_type(event: &Location<'_>, errors: &mut Errors) {
    let kind = event.text("type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.push(FieldError::invalid("type", json!(""), format!("has invalid value: {kind}")));
    }
}

/// Fields that only old events may have.
fn old_fields(event: &Location<'_>, errors: &mut Errors) {
    for (field, reported_as) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if event.get(field).is_some_and(|value| !super::is_empty(value)) {
            errors.push(FieldError::invalid(reported_as, json!(""), "needs to be unset"));
        }
    }
}

/// What happened does not change; only how often it happens.
fn changes(event: &Location<'_>, errors: &mut Errors) {
    const REFERENCE: StructFields = &[
        ("kind", "Kind", FieldShape::Text),
        ("namespace", "Namespace", FieldShape::Text),
        ("name", "Name", FieldShape::Text),
        ("uid", "UID", FieldShape::Text),
        ("apiVersion", "APIVersion", FieldShape::Text),
        ("resourceVersion", "ResourceVersion", FieldShape::Text),
        ("fieldPath", "FieldPath", FieldShape::Text),
    ];
    const DETAIL: &str = "field is immutable";
    // The reason is looked at twice.
    for (field, reported_as, empty) in [
        ("regarding", "involvedObject", "{}"),
        ("reason", "reason", "\"\""),
        ("note", "message", "\"\""),
        ("deprecatedSource", "source", "{}"),
        ("deprecatedFirstTimestamp", "firstTimestamp", "null"),
        ("deprecatedLastTimestamp", "lastTimestamp", "null"),
        ("deprecatedCount", "count", "0"),
        ("reason", "reason", "\"\""),
        ("type", "type", "\"\""),
        ("eventTime", "eventTime", "null"),
        ("action", "action", "\"\""),
        ("related", "related", "null"),
        ("reportingController", "reportingController", "\"\""),
        ("reportingInstance", "reportingInstance", "\"\""),
    ] {
        if !event.changes(field) {
            continue;
        }
        let value = event.get(field).filter(|value| !super::is_empty(value));
        if matches!(field, "regarding" | "related") && (value.is_some() || field == "regarding") {
            let quoted = struct_text::quote(value.unwrap_or(&Value::Null), REFERENCE);
            errors.push(FieldError::quoting(FieldErrorKind::Invalid, reported_as, &quoted, DETAIL));
        } else {
            let shown = value.cloned().or_else(|| serde_json::from_str(empty).ok()).unwrap_or_default();
            errors.push(FieldError::invalid(reported_as, shown, DETAIL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    fn errors_of(rules: Rules, event: &Value, old: Option<&Value>) -> String {
        run(rules, event, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn old_events_are_where_their_objects_are() {
        const OTHER: &str = "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace";
        const NONE: &str = "involvedObject.namespace: Invalid value: \"\": does not match event.namespace";
        for (namespace, object, expected) in [("a", "a", ""), ("a", "b", OTHER), ("a", "", NONE), ("default", "", "")] {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": object}});
            assert_eq!(errors_of(OLD, &event, None), expected);
        }
    }

    #[test]
    fn newer_events_say_who_reports_what() {
        let event = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "type": "Normal",
            "eventTime": "2024-01-01T00:00:00.000000Z", "action": "A", "reason": "R",
            "reportingController": "x.com/c", "reportingInstance": "i"});
        assert_eq!(errors_of(NEW, &event, None), "");
        let mut silent = event.clone();
        silent["action"] = json!("");
        silent["series"] = json!({"count": 1, "lastObservedTime": "2024-01-01T00:00:00.000000Z"});
        assert_eq!(
            errors_of(NEW, &silent, None),
            "action: Required value; series.count: Invalid value: \"\": should be at least 2"
        );
        let mut other = event.clone();
        other["reason"] = json!("S");
        let twice = "reason: Invalid value: \"S\": field is immutable";
        assert_eq!(errors_of(NEW, &other, Some(&event)), format!("{twice}; {twice}"));
    }
}
