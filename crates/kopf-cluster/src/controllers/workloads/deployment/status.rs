//! The status of a deployment: its counts, and the conditions of its progress.

use serde_json::{Value, json};

use super::{NO_DEADLINE, Rollout};
use crate::controllers::workloads::objects::{condition, name, number, seconds, set_condition, set_count, text, time};
use crate::support::clock::timestamp;

impl Rollout {
    /// How long a rollout may make no progress.
    pub(super) fn deadline(&self) -> Option<i64> {
        self.deployment["spec"]["progressDeadlineSeconds"].as_i64().filter(|seconds| *seconds != NO_DEADLINE)
    }

    pub(super) fn set_progress(&mut self, status: &str, reason: &str, message: String) {
        let now = timestamp(self.now);
        let progress = json!({"type": "Progressing", "status": status, "lastUpdateTime": now,
            "lastTransitionTime": null, "reason": reason, "message": message});
        set_condition(&mut self.deployment["status"], progress, self.now);
    }

    /// The status as the replica sets have it now.
    pub(super) fn counted_status(&self) -> Value {
        let mut status = self.deployment["status"].clone();
        let available = self.sum("/status/availableReplicas");
        status["observedGeneration"] = self.deployment["metadata"]["generation"].clone();
        set_count(&mut status, "replicas", self.sum("/status/replicas"));
        let updated = self.new.as_ref().map_or(0, |new| number(new, "/status/replicas"));
        set_count(&mut status, "updatedReplicas", updated);
        set_count(&mut status, "readyReplicas", self.sum("/status/readyReplicas"));
        set_count(&mut status, "availableReplicas", available);
        set_count(&mut status, "unavailableReplicas", (self.sum("/spec/replicas") - available).max(0));
        if self.all().all(|set| set["status"].get("terminatingReplicas").is_some()) {
            status["terminatingReplicas"] = json!(self.sum("/status/terminatingReplicas"));
        } else if self.new.as_ref().is_some_and(|new| new.get("status").is_none()) {
            status["terminatingReplicas"] = json!(0);
        }
        let (available_status, reason, message) = match available >= self.limits.wanted - self.limits.max_unavailable {
            true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
        };
        let condition = json!({"type": "Available", "status": available_status, "lastUpdateTime": timestamp(self.now),
            "lastTransitionTime": null, "reason": reason, "message": message});
        set_condition(&mut status, condition, self.now);
        status
    }

    pub(super) fn is_complete(&self, status: &Value) -> bool {
        let wanted = self.limits.wanted;
        ["/updatedReplicas", "/replicas", "/availableReplicas"].iter().all(|field| number(status, field) == wanted)
            && number(status, "/observedGeneration") >= number(&self.deployment, "/metadata/generation")
    }

    pub(super) fn sync_status(&mut self) {
        self.deployment["status"] = self.counted_status();
    }

    /// Updates the status of a rollout, and its `Progressing` condition.
    pub(super) fn sync_progress(&mut self) {
        let before = self.deployment["status"].clone();
        let status = self.counted_status();
        let known = condition(&self.deployment, "Progressing").cloned();
        self.deployment["status"] = status.clone();
        let Some(deadline) = self.deadline() else {
            if let Some(list) = self.deployment.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                list.retain(|condition| condition["type"] != "Progressing");
            }
            return;
        };
        let reason = known.as_ref().map(|known| text(known, "/reason")).unwrap_or_default();
        let done =
            number(&status, "/replicas") == number(&status, "/updatedReplicas") && reason == "NewReplicaSetAvailable";
        if done {
            return;
        }
        let subject = match &self.new {
            Some(new) => format!("ReplicaSet \"{}\"", name(new)),
            None => format!("Deployment \"{}\"", name(&self.deployment)),
        };
        if self.is_complete(&status) {
            self.set_progress("True", "NewReplicaSetAvailable", format!("{subject} has successfully progressed."));
        } else if has_progressed(&before, &status) {
            // The time of the update moves on with every step, though the reason stays.
            if let Some(list) = self.deployment.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                list.retain(|condition| condition["type"] != "Progressing");
            }
            self.set_progress("True", "ReplicaSetUpdated", format!("{subject} is progressing."));
            if let (Some(known), Some(last)) = (
                known.filter(|known| known["status"] == "True"),
                self.deployment
                    .pointer_mut("/status/conditions")
                    .and_then(Value::as_array_mut)
                    .and_then(|l| l.last_mut()),
            ) {
                last["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
        } else if reason == "ProgressDeadlineExceeded" {
            // The event was sent before.
        } else if let Some(updated) = known.as_ref().and_then(|known| time(known, "/lastUpdateTime")) {
            match seconds(updated, deadline) < self.now {
                true => {
                    let message = format!("{subject} has timed out progressing.");
                    self.set_progress("False", "ProgressDeadlineExceeded", message);
                }
                false => self.plan.wake_at(seconds(updated, deadline + 1)),
            }
        }
        // The progress of this moment has its deadline, too.
        let progress = condition(&self.deployment, "Progressing");
        if let Some(updated) =
            progress.filter(|known| known["status"] != "False").and_then(|known| time(known, "/lastUpdateTime"))
            && progress.is_some_and(|known| text(known, "/reason") != "NewReplicaSetAvailable")
        {
            self.plan.wake_at(seconds(updated, deadline + 1));
        }
    }
}

/// Whether a status is nearer to the goal than another one.
fn has_progressed(before: &Value, after: &Value) -> bool {
    let old = |status: &Value| number(status, "/replicas") - number(status, "/updatedReplicas");
    number(after, "/updatedReplicas") > number(before, "/updatedReplicas")
        || old(after) < old(before)
        || number(after, "/readyReplicas") > number(before, "/readyReplicas")
        || number(after, "/availableReplicas") > number(before, "/availableReplicas")
}
