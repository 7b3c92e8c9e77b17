//! The rules for statuses: no negative numbers, and no part greater than the whole.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::{Location, Rule, Rules, ValueCheck};
use crate::go::{FieldError, FieldErrorKind};
use Rule::{Code, Given, Within};
use ValueCheck::NonNegative;

pub(super) const DEPLOYMENT: Rules = &[Within(
    "status",
    &[
        Given("observedGeneration", NonNegative),
        Given("replicas", NonNegative),
        Given("updatedReplicas", NonNegative),
        Given("readyReplicas", NonNegative),
        Given("availableReplicas", NonNegative),
        Given("unavailableReplicas", NonNegative),
        Given("collisionCount", NonNegative),
        Code(|status, errors| parts(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], errors)),
        Code(|status, errors| no_more_than(status, "availableReplicas", "readyReplicas", "readyReplicas", errors)),
        Code(fewer_collisions),
    ],
)];

pub(super) const REPLICA_SET: Rules = &[Within(
    "status",
    &[
        Given("replicas", NonNegative),
        Given("fullyLabeledReplicas", NonNegative),
        Given("readyReplicas", NonNegative),
        Given("availableReplicas", NonNegative),
        Given("observedGeneration", NonNegative),
        Code(|status, errors| parts(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], errors)),
        Code(|status, errors| no_more_than(status, "availableReplicas", "readyReplicas", "readyReplicas", errors)),
    ],
)];

pub(super) const REPLICATION_CONTROLLER: Rules = REPLICA_SET;

pub(super) const STATEFUL_SET: Rules = &[Within(
    "status",
    &[
        Given("replicas", NonNegative),
        Given("readyReplicas", NonNegative),
        Given("currentReplicas", NonNegative),
        Given("updatedReplicas", NonNegative),
        Given("availableReplicas", NonNegative),
        Given("observedGeneration", NonNegative),
        Given("collisionCount", NonNegative),
        Code(|status, errors| {
            parts(status, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"], errors);
        }),
        Code(|status, errors| {
            no_more_than(status, "availableReplicas", "readyReplicas", "status.readyReplicas", errors)
        }),
        Code(fewer_collisions),
    ],
)];

pub(super) const DAEMON_SET: Rules = &[Within(
    "status",
    &[
        Given("currentNumberScheduled", NonNegative),
        Given("numberMisscheduled", NonNegative),
        Given("desiredNumberScheduled", NonNegative),
        Given("numberReady", NonNegative),
        Given("observedGeneration", NonNegative),
        Given("updatedNumberScheduled", NonNegative),
        Given("numberAvailable", NonNegative),
        Given("numberUnavailable", NonNegative),
        Given("collisionCount", NonNegative),
        Code(fewer_collisions),
    ],
)];

pub(super) const DISRUPTION_BUDGET: Rules = &[Within(
    "status",
    &[
        Given("disruptionsAllowed", NonNegative),
        Given("currentHealthy", NonNegative),
        Given("desiredHealthy", NonNegative),
        Given("expectedPods", NonNegative),
    ],
)];

pub(super) const AUTOSCALER: Rules =
    &[Within("status", &[Given("currentReplicas", NonNegative), Given("desiredReplicas", NonNegative)])];

pub(super) const JOB: Rules = &[Within(
    "status",
    &[
        Given("active", NonNegative),
        Given("succeeded", NonNegative),
        Given("failed", NonNegative),
        Given("ready", NonNegative),
        Given("terminating", NonNegative),
        Code(job_counters),
        Code(job_end),
        Code(job_start),
    ],
)];

fn count(status: &Location<'_>, field: &str) -> i64 {
    status.number(field).unwrap_or_default()
}

fn parts(status: &Location<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        no_more_than(status, field, "replicas", "status.replicas", errors);
    }
}

fn no_more_than(status: &Location<'_>, field: &str, whole: &str, named: &str, errors: &mut Errors) {
    if count(status, field) > count(status, whole) {
        let detail = format!("cannot be greater than {named}");
        errors.push(FieldError::invalid(status.at(field), json!(count(status, field)), detail));
    }
}

fn fewer_collisions(status: &Location<'_>, errors: &mut Errors) {
    let old = status.old.map(|old| old["collisionCount"].as_i64().unwrap_or_default()).unwrap_or_default();
    let new = count(status, "collisionCount");
    let known = status.old.is_some_and(|old| old.get("collisionCount").is_some());
    if known && new < old {
        errors.push(FieldError::invalid(status.at("collisionCount"), json!(new), "cannot be decremented"));
    }
}

/// Counters of finished pods never go back.
fn job_counters(status: &Location<'_>, errors: &mut Errors) {
    for field in ["failed", "succeeded"] {
        let old = status.old.and_then(|old| old[field].as_i64()).unwrap_or_default();
        let new = count(status, field);
        if new < old {
            let detail = format!("cannot decrease the {field} counter");
            errors.push(FieldError::invalid(status.at(field), json!(new), detail));
        }
    }
}

/// A job that runs has begun when it has begun.
fn job_start(status: &Location<'_>, errors: &mut Errors) {
    let before = status.old.map(|old| &old["startTime"]).filter(|time| time.is_string());
    let suspended = status.parent.is_some_and(|job| job.get("spec.suspend") == Some(&Value::Bool(true)));
    let now = status.get("startTime");
    if before.is_some() && before != now && !suspended {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(status.at("startTime"), now.cloned().unwrap_or_default(), detail));
    }
}

/// A job ends in an order: first the reason is known, then it is over.
fn job_end(status: &Location<'_>, errors: &mut Errors) {
    let is = |name: &str| {
        status.list("conditions").iter().any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let (completion, start) = (status.get("completionTime"), status.get("startTime"));
    if is("Complete") && completion.is_none() {
        let detail = "completionTime is required for Complete jobs";
        errors.push(FieldError::required(status.at("completionTime"), detail));
    }
    if let Some(time) = completion.filter(|_| !is("Complete")) {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.push(FieldError::invalid(status.at("completionTime"), time.clone(), detail));
    }
    for (end, reason, words) in [
        (
            "Complete",
            "SuccessCriteriaMet",
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        ("Failed", "FailureTarget", "cannot set Failed=True condition without the FailureTarget=true condition"),
    ] {
        if is(end) && !is(reason) {
            errors.push(FieldError::quoting(FieldErrorKind::Invalid, status.at("conditions"), words, ""));
        }
    }
    if (is("Complete") || is("Failed")) && start.is_none() {
        errors.push(FieldError::required(status.at("startTime"), "startTime is required for finished job"));
    }
    let earlier = |one: &Value, other: &Value| one.as_str().zip(other.as_str()).is_some_and(|(one, other)| one < other);
    if let (Some(end), Some(start)) = (completion, start)
        && earlier(end, start)
    {
        let detail = "must be equal to or after `startTime`";
        errors.push(FieldError::invalid(status.at("completionTime"), end.clone(), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    #[test]
    fn the_start_of_a_job_that_runs_is_fixed() {
        let job = |time: Value, suspended: bool| json!({"spec": {"suspend": suspended}, "status": {"startTime": time}});
        let begun = job(json!("2024-01-01T00:00:00Z"), false);
        for (next, refused) in
            [(begun.clone(), false), (job(Value::Null, false), true), (job(Value::Null, true), false)]
        {
            let errors = run(JOB, &next, Some(&begun));
            assert_eq!(!errors.is_empty(), refused, "{errors:?}");
        }
        assert!(run(JOB, &begun, Some(&job(Value::Null, false))).is_empty());
    }
}
