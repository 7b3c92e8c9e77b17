//! Cron jobs: a job whenever it is time.

pub(super) mod schedule;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::job::is_finished;
use super::objects::{
    condition, controller_reference, created, is_deleted, name, namespace, remove_field, seconds, text, time, uid,
};
use super::plan::{Action, CONTROLLERS, CRON_JOBS, JOBS, Plan};
use crate::support::clock::timestamp;
use schedule::Schedule;

const COMPONENT: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(super) fn reconcile(now: Timestamp, cron: &Value, jobs: &[Value]) -> Plan {
    let mut plan = Plan::default();
    let mut status = cron["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    forget_finished(&mut plan, cron, jobs);
    follow_active(&mut plan, cron, jobs, &mut status);
    if !is_deleted(cron) && cron["spec"]["suspend"] != true {
        run_if_due(&mut plan, now, cron, jobs, &mut status);
    }
    if status != cron["status"] {
        let mut object = cron.clone();
        object["status"] = status;
        plan.push(Action::UpdateStatus { api: CRON_JOBS, object, manager: CONTROLLERS });
    }
    plan
}

fn run_if_due(plan: &mut Plan, now: Timestamp, cron: &Value, jobs: &[Value], status: &mut Value) {
    let schedule = match Schedule::parse(text(cron, "/spec/schedule"), cron["spec"]["timeZone"].as_str()) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: \"{}\" : {error}", text(cron, "/spec/schedule"));
            plan.warn(CRON_JOBS, cron, COMPONENT, "UnparseableSchedule", message);
            return;
        }
    };
    let mut after = time(cron, "/status/lastScheduleTime").unwrap_or_else(|| created(cron));
    if let Some(deadline) = cron["spec"]["startingDeadlineSeconds"].as_i64() {
        after = after.max(seconds(now, -deadline));
    }
    if let Some(next) = schedule.next(now) {
        plan.wake_at(next);
    }
    let Some(due) = schedule.last(after, now) else { return };
    let active: Vec<&Value> = jobs.iter().filter(|job| !is_finished(job) && !is_deleted(job)).collect();
    match cron["spec"]["concurrencyPolicy"].as_str() {
        Some("Forbid") if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.note(CRON_JOBS, cron, COMPONENT, "JobAlreadyActive", message.to_owned());
            return;
        }
        Some("Replace") => {
            for job in &active {
                plan.push(Action::Delete { api: JOBS, object: (*job).clone(), grace_period_seconds: None });
                plan.note(CRON_JOBS, cron, COMPONENT, "SuccessfulDelete", format!("Deleted job {}", name(job)));
            }
        }
        _ => {}
    }
    let job = job_for(cron, due);
    if !jobs.iter().any(|known| name(known) == name(&job)) {
        let message = format!("Created job {}", name(&job));
        plan.push(Action::Create { api: JOBS, object: job, manager: CONTROLLERS });
        plan.note(CRON_JOBS, cron, COMPONENT, "SuccessfulCreate", message);
    }
    status["lastScheduleTime"] = json!(timestamp(due));
}

/// The list of running jobs follows the jobs.
fn follow_active(plan: &mut Plan, cron: &Value, jobs: &[Value], status: &mut Value) {
    let listed = cron["status"]["active"].as_array().cloned().unwrap_or_default();
    for job in jobs.iter().filter(|job| is_finished(job) && listed.iter().any(|known| text(known, "/uid") == uid(job)))
    {
        let ended = if condition(job, "Complete").is_some() { "Complete" } else { "Failed" };
        let message = format!("Saw completed job: {}, condition: {ended}", name(job));
        plan.note(CRON_JOBS, cron, COMPONENT, "SawCompletedJob", message);
    }
    let running = jobs.iter().filter(|job| !is_finished(job) && !is_deleted(job));
    let active: Vec<Value> = running
        .map(|job| {
            let known = listed.iter().find(|known| text(known, "/uid") == uid(job)).cloned();
            known.unwrap_or_else(|| {
                json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace(job), "name": name(job),
                    "uid": uid(job), "resourceVersion": job["metadata"]["resourceVersion"]})
            })
        })
        .collect();
    match active.is_empty() {
        true => remove_field(status, "active"),
        false => status["active"] = Value::Array(active),
    }
    let succeeded = jobs.iter().filter(|job| condition(job, "Complete").is_some());
    let last = succeeded.filter_map(|job| time(job, "/status/completionTime")).max();
    if let Some(last) = last.filter(|last| time(status, "/lastSuccessfulTime").is_none_or(|known| known < *last)) {
        status["lastSuccessfulTime"] = json!(timestamp(last));
    }
}

/// Deletes finished jobs beyond the history limits.
fn forget_finished(plan: &mut Plan, cron: &Value, jobs: &[Value]) {
    for (kind, field) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = cron["spec"][field].as_i64() else { continue };
        let ended = |job: &&Value| condition(job, kind).is_some_and(|known| known["status"] == "True");
        let mut ended: Vec<&Value> = jobs.iter().filter(ended).filter(|job| !is_deleted(job)).collect();
        ended.sort_by_key(|job| (time(job, "/status/startTime"), name(job).to_owned()));
        let over = ended.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for job in ended.into_iter().take(over) {
            plan.push(Action::Delete { api: JOBS, object: job.clone(), grace_period_seconds: None });
            plan.note(CRON_JOBS, cron, COMPONENT, "SuccessfulDelete", format!("Deleted job {}", name(job)));
        }
    }
}

fn job_for(cron: &Value, due: Timestamp) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut metadata = Value::Object(metadata);
    // The name contains the time in minutes, so that no job is created twice.
    metadata["name"] = json!(format!("{}-{}", name(cron), due.as_second() / 60));
    metadata["namespace"] = json!(namespace(cron));
    metadata["annotations"][SCHEDULED] = json!(timestamp(due));
    metadata["ownerReferences"] = json!([controller_reference(CRON_JOBS, cron)]);
    json!({"metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(spec: Value, status: Value) -> Value {
        let mut cron = json!({"metadata": {"name": "c", "namespace": "default", "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": {"x": 1}}},
            "status": status});
        for (field, value) in spec.as_object().into_iter().flatten() {
            cron["spec"][field] = value.clone();
        }
        cron
    }

    fn job(name: &str, ended: Option<&str>) -> Value {
        let conditions: Vec<Value> = ended.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        json!({"metadata": {"name": name, "namespace": "default", "uid": name},
            "status": {"conditions": conditions, "startTime": "2026-01-01T00:00:00Z"}})
    }

    fn check(cron: &Value, jobs: &[Value], now: &str, expected: &[&str]) -> Plan {
        let plan = reconcile(now.parse().unwrap(), cron, jobs);
        let short: Vec<String> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { object, .. } => Some(format!("+{}", name(object))),
                Action::Delete { object, .. } => Some(format!("-{}", name(object))),
                Action::UpdateStatus { object, .. } => Some(format!("at {}", text(object, "/status/lastScheduleTime"))),
                _ => None,
            })
            .collect();
        assert_eq!(short, expected, "{cron:#}");
        plan
    }

    #[test]
    fn jobs_are_made_in_time() {
        let fresh = cron(json!({}), json!({}));
        let plan = check(&fresh, &[], "2026-01-01T00:00:45Z", &[]);
        assert_eq!(plan.wake, Some("2026-01-01T00:01:00Z".parse().unwrap()));
        // 29453761 minutes after the epoch.
        check(&fresh, &[], "2026-01-01T00:01:00Z", &["+c-29453761", "at 2026-01-01T00:01:00Z"]);
        let ran = cron(json!({}), json!({"lastScheduleTime": "2026-01-01T00:01:00Z"}));
        check(&ran, &[], "2026-01-01T00:01:59Z", &[]);
        // After a pause only the last one is made up for.
        check(&ran, &[], "2026-01-01T01:00:10Z", &["+c-29453820", "at 2026-01-01T01:00:00Z"]);
        let late = cron(json!({"startingDeadlineSeconds": 5}), json!({}));
        check(&late, &[], "2026-01-01T01:00:10Z", &[]);
        check(&cron(json!({"suspend": true}), json!({})), &[], "2026-01-01T01:00:10Z", &[]);
    }

    #[test]
    fn running_jobs_count() {
        let status = json!({"lastScheduleTime": "2026-01-01T00:01:00Z", "active": [
            {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "old", "uid": "old",
             "resourceVersion": null}]});
        let due = "2026-01-01T00:02:00Z";
        let with = |policy: &str| cron(json!({"concurrencyPolicy": policy}), status.clone());
        check(&with("Allow"), &[job("old", None)], due, &["+c-29453762", "at 2026-01-01T00:02:00Z"]);
        check(&with("Forbid"), &[job("old", None)], due, &[]);
        check(&with("Replace"), &[job("old", None)], due, &["-old", "+c-29453762", "at 2026-01-01T00:02:00Z"]);
    }

    #[test]
    fn finished_jobs_are_forgotten() {
        let ran = cron(json!({}), json!({"lastScheduleTime": "2026-01-01T00:02:00Z"}));
        let jobs = [job("a", Some("Complete")), job("b", Some("Complete")), job("c", Some("Failed"))];
        check(&ran, &jobs, "2026-01-01T00:02:01Z", &["-a"]);
    }
}
