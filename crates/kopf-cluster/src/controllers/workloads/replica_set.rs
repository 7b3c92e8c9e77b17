//! Replica sets and replication controllers: as many pods of one template as wanted.
//!
//! The driver calls it with all pods that the set controls.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{
    available_from, created, is_active, is_deleted, is_over, is_ready, name, number, pod_of, set_count, text,
};
use super::plan::{Action, Api, CONTROLLERS, PODS, Plan, REPLICA_SETS};

/// How many pods are made or deleted at a time, so that others get their turn.
const BURST: usize = 500;

pub(super) fn reconcile(now: Timestamp, api: Api, set: &Value, pods: &[Value]) -> Plan {
    let mut plan = Plan::default();
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    if !is_deleted(set) {
        scale(&mut plan, now, api, set, &active);
    }
    let status = status(&mut plan, now, api, set, pods, &active);
    if status != set["status"] {
        let mut object = set.clone();
        object["status"] = status;
        plan.push(Action::UpdateStatus { api, object, manager: CONTROLLERS });
    }
    plan
}

/// Makes pods that are missing, deletes pods that are too many.
fn scale(plan: &mut Plan, now: Timestamp, api: Api, set: &Value, active: &[&Value]) {
    let component = if api == REPLICA_SETS { "replicaset-controller" } else { "replication-controller" };
    let wanted = usize::try_from(set["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or_default();
    if active.len() < wanted {
        let missing = wanted - active.len();
        for _ in 0..missing.min(BURST) {
            let mut pod = pod_of(&set["spec"]["template"], api, set);
            pod["metadata"]["generateName"] = json!(format!("{}-", name(set)));
            plan.push(Action::Create { api: PODS, object: pod, manager: CONTROLLERS });
            plan.note(api, set, component, "SuccessfulCreate", "Created pod: {name}".to_owned());
        }
        if missing > BURST {
            plan.wake_at(now);
        }
    }
    if active.len() > wanted {
        let mut ranked = active.to_vec();
        ranked.sort_by_cached_key(|pod| rank(pod));
        for pod in ranked.into_iter().take((active.len() - wanted).min(BURST)) {
            plan.push(Action::Delete { api: PODS, object: pod.clone(), grace_period_seconds: None });
            plan.note(api, set, component, "SuccessfulDelete", format!("Deleted pod: {}", name(pod)));
        }
    }
}

/// Which pods are missed least come first.
fn rank(pod: &Value) -> impl Ord + use<> {
    let phase = match text(pod, "/status/phase") {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost: i64 = text(pod, "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost").parse().unwrap_or(0);
    let ready = is_ready(pod);
    let ready_since =
        super::objects::condition(pod, "Ready").and_then(|ready| super::objects::time(ready, "/lastTransitionTime"));
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let restarts: i64 = statuses.map(|status| number(status, "/restartCount")).sum();
    (
        !text(pod, "/spec/nodeName").is_empty(),
        phase,
        ready,
        cost,
        Reverse(ready_since.filter(|_| ready)),
        Reverse(restarts),
        Reverse(created(pod)),
    )
}

fn status(plan: &mut Plan, now: Timestamp, api: Api, set: &Value, pods: &[Value], active: &[&Value]) -> Value {
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let mut available = 0;
    for from in active.iter().filter_map(|pod| available_from(pod, min_ready_seconds)) {
        match from <= now {
            true => available += 1,
            false => plan.wake_at(from),
        }
    }
    let labelled = |pod: &&&Value| labels.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value));
    let count = |found: usize| i64::try_from(found).unwrap_or(i64::MAX);
    let mut status = set["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["replicas"] = json!(active.len());
    set_count(&mut status, "fullyLabeledReplicas", count(active.iter().filter(labelled).count()));
    set_count(&mut status, "readyReplicas", count(active.iter().filter(|pod| is_ready(pod)).count()));
    set_count(&mut status, "availableReplicas", available);
    if api == REPLICA_SETS {
        status["terminatingReplicas"] = json!(pods.iter().filter(|pod| is_deleted(pod) && !is_over(pod)).count());
    }
    status["observedGeneration"] = set["metadata"]["generation"].clone();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::workloads::objects::{namespace, seconds};

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 1},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"x": 1}}},
            "status": {"replicas": 0},
        })
    }

    /// A pod in short: name, phase, whether it is ready.
    fn pod(name: &str, phase: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": "node"},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        })
    }

    /// The actions, abbreviated.
    fn check(set: &Value, pods: &[Value], now: i64, expected: &[&str]) -> Plan {
        let plan = reconcile(seconds(Timestamp::UNIX_EPOCH, now), REPLICA_SETS, set, pods);
        let short: Vec<String> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { object, .. } => Some(format!("create in {}", namespace(object))),
                Action::Delete { object, .. } => Some(format!("delete {}", name(object))),
                Action::UpdateStatus { object, .. } => Some(format!("status {}", object["status"])),
                _ => None,
            })
            .collect();
        assert_eq!(short, expected);
        plan
    }

    #[test]
    fn pods_are_made_and_counted() {
        let observed = r#"status {"replicas":0,"terminatingReplicas":0,"observedGeneration":1}"#;
        let plan = check(&set(2), &[], 0, &["create in default", "create in default", observed]);
        let Action::Create { object, .. } = &plan.actions[0] else { panic!("{plan:?}") };
        assert_eq!(object["metadata"]["generateName"], "web-");
        assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(object["spec"], json!({"x": 1}));
        let counted = r#"status {"replicas":2,"fullyLabeledReplicas":2,"readyReplicas":1,"availableReplicas":1,"terminatingReplicas":0,"observedGeneration":1}"#;
        check(&set(2), &[pod("a", "Running", "True"), pod("b", "Pending", "False")], 0, &[counted]);
        let mut goes = pod("b", "Running", "True");
        goes["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        let terminating = r#"status {"replicas":0,"terminatingReplicas":1,"observedGeneration":1}"#;
        check(&set(0), &[goes, pod("c", "Failed", "False")], 0, &[terminating]);
    }

    #[test]
    fn pods_that_are_missed_least_go_first() {
        let mut unassigned = pod("unassigned", "Pending", "False");
        unassigned["spec"] = json!({});
        let mut cheap = pod("cheap", "Running", "True");
        cheap["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
        let mut restarted = pod("restarted", "Running", "True");
        restarted["status"]["containerStatuses"] = json!([{"restartCount": 3}]);
        let mut pods = vec![pod("old", "Running", "True"), restarted, cheap, pod("unready", "Running", "False")];
        pods.extend([pod("pending", "Pending", "False"), unassigned]);
        let order = ["unassigned", "pending", "unready", "cheap", "restarted", "old"];
        for kept in 0..order.len() {
            let plan = reconcile(Timestamp::UNIX_EPOCH, REPLICA_SETS, &set(kept as i64), &pods);
            let deleted: Vec<&str> = plan
                .actions
                .iter()
                .filter_map(|action| match action {
                    Action::Delete { object, .. } => Some(name(object)),
                    _ => None,
                })
                .collect();
            assert_eq!(deleted, order[..order.len() - kept]);
        }
    }

    #[test]
    fn pods_become_available_after_a_while() {
        let mut set = set(1);
        set["spec"]["minReadySeconds"] = json!(10);
        let pods = [pod("a", "Running", "True")];
        let ready = r#"status {"replicas":1,"fullyLabeledReplicas":1,"readyReplicas":1,"terminatingReplicas":0,"observedGeneration":1}"#;
        let plan = check(&set, &pods, 9, &[ready]);
        assert_eq!(plan.wake, Some(seconds(Timestamp::UNIX_EPOCH, 10)));
        let available = r#"status {"replicas":1,"fullyLabeledReplicas":1,"readyReplicas":1,"availableReplicas":1,"terminatingReplicas":0,"observedGeneration":1}"#;
        check(&set, &pods, 10, &[available]);
    }
}
