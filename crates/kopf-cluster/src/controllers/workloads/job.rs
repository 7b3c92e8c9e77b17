//! Jobs: pods that run to their end, as many as wanted, again if they fail.
//!
//! Pods are counted once, as in a real cluster: they carry a finalizer until they are counted. The uids
//! of ended pods go into `uncountedTerminatedPods`, then the finalizers go, then the counters move on.
//! A controller that stops in between finds its progress in the objects.

mod pods;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{
    condition, created, is_active, is_deleted, is_over, is_ready, name, number, remove_field, seconds, set_count, text,
    time, uid,
};
use super::plan::{Action, CONTROLLERS, JOBS, PODS, Plan};
use crate::support::clock::timestamp;
use pods::{ended, index_of, outcome_of, pod_for, read_indexes, release, show_indexes};

pub(super) use pods::{is_tracked, release_one};

const COMPONENT: &str = "job-controller";
/// How long to wait after a failure, doubled with each.
const FIRST_PAUSE_SECONDS: i64 = 10;
const LAST_PAUSE_SECONDS: i64 = 600;
const BURST: i64 = 500;

pub(super) fn reconcile(now: Timestamp, job: &Value, pods: &[Value]) -> Plan {
    let mut plan = Plan::default();
    if is_finished(job) {
        release(&mut plan, pods.iter().filter(|pod| is_tracked(pod)));
        expire(&mut plan, now, job);
        return plan;
    }
    if is_deleted(job) {
        return plan;
    }
    let mut reconciler = JobReconciler { now, job, pods, status: job["status"].clone(), plan };
    if !reconciler.status.is_object() {
        reconciler.status = json!({});
    }
    reconciler.begin();
    reconciler.count();
    reconciler.decide();
    reconciler.into_plan()
}

struct JobReconciler<'a> {
    now: Timestamp,
    job: &'a Value,
    pods: &'a [Value],
    /// The next status.
    status: Value,
    plan: Plan,
}

impl JobReconciler<'_> {
    fn spec(&self, field: &str) -> Option<i64> {
        self.job["spec"][field].as_i64()
    }

    fn is_suspended(&self) -> bool {
        self.job["spec"]["suspend"] == true
    }

    fn is_indexed(&self) -> bool {
        self.job["spec"]["completionMode"] == "Indexed"
    }

    fn begin(&mut self) {
        let was_suspended = condition(self.job, "Suspended").is_some_and(|known| known["status"] == "True");
        match (self.is_suspended(), was_suspended) {
            (true, false) => {
                self.set_condition("Suspended", "True", "JobSuspended", "Job suspended");
                remove_field(&mut self.status, "startTime");
                self.plan.note(JOBS, self.job, COMPONENT, "Suspended", "Job suspended".to_owned());
            }
            (false, true) => {
                self.set_condition("Suspended", "False", "JobResumed", "Job resumed");
                self.plan.note(JOBS, self.job, COMPONENT, "Resumed", "Job resumed".to_owned());
            }
            _ => {}
        }
        if !self.is_suspended() && self.status.get("startTime").is_none() {
            self.status["startTime"] = json!(timestamp(self.now));
        }
    }

    /// Moves pods that are over into the counters.
    fn count(&mut self) {
        let mut uncounted = self.status["uncountedTerminatedPods"].clone();
        if !uncounted.is_object() {
            uncounted = json!({});
        }
        let tracked = |id: &str| self.pods.iter().any(|pod| uid(pod) == id && is_tracked(pod));
        for outcome in ["succeeded", "failed"] {
            let known = texts(&uncounted[outcome]);
            // Those whose finalizers are gone are counted for good.
            let (waiting, counted): (Vec<String>, Vec<String>) = known.into_iter().partition(|id| tracked(id));
            let total = number(&self.status, &format!("/{outcome}")) + count_of(counted.len());
            set_count(&mut self.status, outcome, total);
            let over = self.pods.iter().filter(|pod| is_tracked(pod) && outcome_of(pod) == Some(outcome));
            let mut next = waiting;
            for pod in over {
                if !next.iter().any(|id| id == uid(pod)) {
                    next.push(uid(pod).to_owned());
                }
            }
            match next.is_empty() {
                true => remove_field(&mut uncounted, outcome),
                false => uncounted[outcome] = json!(next),
            }
        }
        self.status["uncountedTerminatedPods"] = uncounted;
    }

    fn uncounted(&self, outcome: &str) -> i64 {
        count_of(self.status["uncountedTerminatedPods"][outcome].as_array().map_or(0, Vec::len))
    }

    fn total(&self, outcome: &str) -> i64 {
        number(&self.status, &format!("/{outcome}")) + self.uncounted(outcome)
    }

    /// Whether the job is complete, and what is missing if not.
    fn decide(&mut self) {
        let active: Vec<&Value> = self.pods.iter().filter(|pod| is_active(pod)).collect();
        let failure = self.failure(&active);
        let succeeded = match self.is_indexed() {
            true => {
                let completed = self.completed_indexes();
                if !completed.is_empty() {
                    self.status["completedIndexes"] = json!(show_indexes(&completed));
                }
                count_of(completed.len())
            }
            false => self.total("succeeded"),
        };
        let complete = match self.spec("completions") {
            Some(completions) => succeeded >= completions,
            None => succeeded > 0 && active.is_empty(),
        };
        let mut running = count_of(active.len());
        let mut deleted = 0;
        if let Some((reason, message)) = failure {
            deleted = self.delete(&active);
            self.set_condition("FailureTarget", "True", reason, message);
            if self.is_all_counted() {
                self.set_condition("Failed", "True", reason, message);
                self.plan.warn(JOBS, self.job, COMPONENT, reason, message.to_owned());
            }
        } else if complete {
            deleted = self.delete(&active);
            const REACHED: &str = "Reached expected number of succeeded pods";
            self.set_condition("SuccessCriteriaMet", "True", "CompletionsReached", REACHED);
            if self.is_all_counted() {
                self.set_condition("Complete", "True", "CompletionsReached", REACHED);
                self.status["completionTime"] = json!(timestamp(self.now));
                self.plan.note(JOBS, self.job, COMPONENT, "Completed", "Job completed".to_owned());
            }
        } else if self.is_suspended() {
            deleted = self.delete(&active);
        } else {
            running += self.scale(&active, succeeded);
        }
        let ready = active.iter().filter(|pod| is_ready(pod)).count();
        let terminating = self.pods.iter().filter(|pod| is_deleted(pod) && !is_over(pod)).count();
        set_count(&mut self.status, "active", running - deleted);
        self.status["ready"] = json!(if deleted > 0 { 0 } else { ready });
        self.status["terminating"] = json!(count_of(terminating) + deleted);
    }

    fn is_all_counted(&self) -> bool {
        self.status["uncountedTerminatedPods"].as_object().is_none_or(serde_json::Map::is_empty)
    }

    /// Why the job has failed for good.
    fn failure(&mut self, active: &[&Value]) -> Option<(&'static str, &'static str)> {
        if condition(self.job, "FailureTarget").is_some_and(|known| known["reason"] == "DeadlineExceeded") {
            return Some(("DeadlineExceeded", "Job was active longer than specified deadline"));
        }
        let limit = self.spec("backoffLimit").unwrap_or(6);
        let in_place = text(self.job, "/spec/template/spec/restartPolicy") == "OnFailure";
        let restarts: i64 = match in_place {
            true => active.iter().map(|pod| super::pod::containers::restarts(pod)).sum(),
            false => 0,
        };
        let exhausted = restarts > 0 && restarts >= limit;
        if self.total("failed") > limit || exhausted {
            return Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
        }
        let deadline = self.spec("activeDeadlineSeconds").filter(|_| !self.is_suspended())?;
        let end = seconds(time(&self.status, "/startTime")?, deadline);
        if end <= self.now {
            return Some(("DeadlineExceeded", "Job was active longer than specified deadline"));
        }
        self.plan.wake_at(end);
        None
    }

    /// Creates missing pods, or deletes superfluous ones; returns by how many the number of pods grows.
    fn scale(&mut self, active: &[&Value], succeeded: i64) -> i64 {
        let running = count_of(active.len());
        let parallelism = self.spec("parallelism").unwrap_or(1);
        let wanted = match self.spec("completions") {
            Some(completions) => parallelism.min(completions - succeeded),
            // Once one has succeeded, no new ones are made.
            None if succeeded > 0 => running.min(parallelism),
            None => parallelism,
        };
        if running > wanted {
            let mut newest = active.to_vec();
            newest.sort_by_key(|pod| (is_ready(pod), std::cmp::Reverse(created(pod))));
            newest.truncate(usize::try_from(running - wanted).unwrap_or_default());
            return -self.delete(&newest);
        }
        let missing = (wanted - running).min(BURST);
        if missing <= 0 {
            return 0;
        }
        if let Some(again) = self.after_failure().filter(|again| *again > self.now) {
            self.plan.wake_at(again);
            return 0;
        }
        let indexes: Vec<Option<i64>> = match self.is_indexed() {
            false => vec![None; usize::try_from(missing).unwrap_or_default()],
            true => {
                let done = self.completed_indexes();
                let taken: Vec<i64> = active.iter().filter_map(|pod| index_of(pod)).collect();
                let free = (0..self.spec("completions").unwrap_or_default())
                    .filter(|index| !done.contains(index) && !taken.contains(index));
                free.take(usize::try_from(missing).unwrap_or_default()).map(Some).collect()
            }
        };
        for index in &indexes {
            let pod = pod_for(self.job, *index);
            self.plan.push(Action::Create { api: PODS, object: pod, manager: CONTROLLERS });
            self.plan.note(JOBS, self.job, COMPONENT, "SuccessfulCreate", "Created pod: {name}".to_owned());
        }
        count_of(indexes.len())
    }

    /// When new pods may be made after the last failure.
    fn after_failure(&self) -> Option<Timestamp> {
        let failed = self.pods.iter().filter(|pod| outcome_of(pod) == Some("failed"));
        let last = failed.filter_map(ended).max()?;
        let doublings = (self.total("failed") - 1).clamp(0, 10);
        Some(seconds(last, (FIRST_PAUSE_SECONDS << doublings).min(LAST_PAUSE_SECONDS)))
    }

    fn delete(&mut self, pods: &[&Value]) -> i64 {
        for pod in pods {
            self.plan.push(Action::Delete { api: PODS, object: (*pod).clone(), grace_period_seconds: None });
            let message = format!("Deleted pod: {}", name(pod));
            self.plan.note(JOBS, self.job, COMPONENT, "SuccessfulDelete", message);
        }
        count_of(pods.len())
    }

    fn completed_indexes(&self) -> Vec<i64> {
        let mut indexes = read_indexes(text(&self.status, "/completedIndexes"));
        let succeeded = self.pods.iter().filter(|pod| outcome_of(pod) == Some("succeeded"));
        indexes.extend(succeeded.filter_map(index_of));
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let now = timestamp(self.now);
        let mut conditions = self.status["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|known| known["type"] == kind && known["status"] == status) {
            return;
        }
        conditions.retain(|known| known["type"] != kind);
        conditions.push(json!({"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now,
            "reason": reason, "message": message}));
        self.status["conditions"] = Value::Array(conditions);
    }

    /// The status is written before the finalizers go.
    fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        let listed: Vec<String> = ["succeeded", "failed"]
            .iter()
            .flat_map(|outcome| texts(&self.status["uncountedTerminatedPods"][outcome]))
            .collect();
        let mut first = Vec::new();
        if self.status != self.job["status"] {
            let mut object = self.job.clone();
            object["status"] = self.status;
            first.push(Action::UpdateStatus { api: JOBS, object, manager: CONTROLLERS });
        }
        let mut releases = Plan::default();
        release(&mut releases, self.pods.iter().filter(|pod| listed.iter().any(|id| id == uid(pod))));
        first.extend(releases.actions);
        // Creations and deletions come first, since the status reports them.
        plan.actions.extend(first);
        plan
    }
}

fn expire(plan: &mut Plan, now: Timestamp, job: &Value) {
    let Some(ttl) = job["spec"]["ttlSecondsAfterFinished"].as_i64().filter(|_| !is_deleted(job)) else { return };
    let failed = condition(job, "Failed").and_then(|known| time(known, "/lastTransitionTime"));
    let Some(finished) = time(job, "/status/completionTime").or(failed) else { return };
    match seconds(finished, ttl) <= now {
        true => plan.push(Action::Delete { api: JOBS, object: job.clone(), grace_period_seconds: None }),
        false => plan.wake_at(seconds(finished, ttl)),
    }
}

pub(super) fn is_finished(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| condition(job, kind).is_some_and(|known| known["status"] == "True"))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn count_of(found: usize) -> i64 {
    i64::try_from(found).unwrap_or(i64::MAX)
}
