//! Daemon sets: one pod on each node that fits.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{available_from, is_active, is_deleted, is_ready, name, number, pod_of, scaled, set_count, text};
use super::plan::{Action, CONTROLLERS, DAEMON_SETS, PODS, Plan};
use super::pod::scheduling;
use super::revisions::{self, Revisions};

const COMPONENT: &str = "daemonset-controller";
const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// What daemons put up with on nodes: the key and the effect.
const TOLERATED: [(&str, &str); 6] = [
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
];

pub(super) fn reconcile(now: Timestamp, set: &Value, pods: &[Value], nodes: &[Value], known: Vec<Value>) -> Plan {
    let mut revisions = revisions::record(DAEMON_SETS, set, known);
    let mut plan = Plan { actions: std::mem::take(&mut revisions.actions), wake: None };
    let hash = revisions::hash_of(&revisions.update).to_owned();
    let daemon = pod_for(set, &hash);
    let fitting: Vec<&Value> = nodes.iter().filter(|node| scheduling::tolerates_node(&daemon, node)).collect();
    if !is_deleted(set) {
        place_pods(&mut plan, set, pods, &fitting, &daemon);
        roll(&mut plan, now, set, pods, &hash, fitting.len());
        forget(&mut plan, set, pods, revisions);
    }
    let status = status(&mut plan, now, set, pods, &fitting, &hash);
    if status != set["status"] {
        let mut object = set.clone();
        object["status"] = status;
        plan.push(Action::UpdateStatus { api: DAEMON_SETS, object, manager: CONTROLLERS });
    }
    plan
}

/// Makes pods on nodes without one, deletes those that are over, or too many, or on other nodes.
fn place_pods(plan: &mut Plan, set: &Value, pods: &[Value], fitting: &[&Value], daemon: &Value) {
    let on = |node: &str| pods.iter().filter(move |pod| node_of(pod) == node).collect::<Vec<_>>();
    for node in fitting {
        let here = on(name(node));
        if here.iter().any(|pod| is_active(pod)) {
            continue;
        }
        for pod in here.iter().filter(|pod| text(pod, "/status/phase") == "Failed" && !is_deleted(pod)) {
            delete(plan, set, pod);
        }
        // A terminating pod occupies its node until it is gone.
        if here.is_empty() {
            let mut pod = daemon.clone();
            let only = json!({"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [name(node)]}]}]});
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = only;
            plan.push(Action::Create { api: PODS, object: pod, manager: CONTROLLERS });
            plan.note(DAEMON_SETS, set, COMPONENT, "SuccessfulCreate", "Created pod: {name}".to_owned());
        }
    }
    let misplaced = |pod: &&Value| !fitting.iter().any(|node| name(node) == node_of(pod));
    for pod in pods.iter().filter(|pod| is_active(pod)).filter(misplaced) {
        delete(plan, set, pod);
    }
}

/// Replaces pods of older templates, as many at a time as may be missing.
fn roll(plan: &mut Plan, now: Timestamp, set: &Value, pods: &[Value], hash: &str, nodes: usize) {
    if set["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return;
    }
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
    let limit = &set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
    let limit = if limit.is_null() { 1 } else { scaled(limit, nodes, true) }.max(1);
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    let is_available =
        |pod: &&Value| is_active(pod) && available_from(pod, min_ready_seconds).is_some_and(|from| from <= now);
    let available = i64::try_from(pods.iter().filter(is_available).count()).unwrap_or(i64::MAX);
    let mut room = limit - (nodes - available).max(0);
    for pod in pods.iter().filter(|pod| is_active(pod) && label(pod, HASH_LABEL) != hash) {
        // What does not work is replaced at once.
        if !is_available(&pod) {
            delete(plan, set, pod);
        } else if room > 0 {
            room -= 1;
            delete(plan, set, pod);
        }
    }
}

fn forget(plan: &mut Plan, set: &Value, pods: &[Value], mut revisions: Revisions) {
    let update = name(&revisions.update).to_owned();
    revisions.forget(set, |revision| {
        name(revision) == update || pods.iter().any(|pod| label(pod, HASH_LABEL) == revisions::hash_of(revision))
    });
    plan.actions.append(&mut revisions.actions);
}

fn status(plan: &mut Plan, now: Timestamp, set: &Value, pods: &[Value], fitting: &[&Value], hash: &str) -> Value {
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    let (mut scheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0);
    for node in fitting {
        let Some(pod) = pods.iter().find(|pod| node_of(pod) == name(node) && is_active(pod)) else { continue };
        scheduled += 1;
        updated += i64::from(label(pod, HASH_LABEL) == hash);
        ready += i64::from(is_ready(pod));
        match available_from(pod, min_ready_seconds) {
            Some(from) if from <= now => available += 1,
            Some(from) => plan.wake_at(from),
            None => {}
        }
    }
    let misplaced = pods.iter().filter(|pod| is_active(pod) && !fitting.iter().any(|node| name(node) == node_of(pod)));
    let wanted = i64::try_from(fitting.len()).unwrap_or(i64::MAX);
    let mut status = set["status"].clone();
    status["currentNumberScheduled"] = json!(scheduled);
    status["numberMisscheduled"] = json!(misplaced.count());
    status["desiredNumberScheduled"] = json!(wanted);
    status["numberReady"] = json!(ready);
    status["observedGeneration"] = set["metadata"]["generation"].clone();
    set_count(&mut status, "updatedNumberScheduled", updated);
    set_count(&mut status, "numberAvailable", available);
    set_count(&mut status, "numberUnavailable", wanted - available);
    status
}

fn delete(plan: &mut Plan, set: &Value, pod: &Value) {
    let repeated = plan.actions.iter().any(|action| match action {
        Action::Delete { object, .. } => name(object) == name(pod),
        _ => false,
    });
    if !repeated {
        plan.push(Action::Delete { api: PODS, object: pod.clone(), grace_period_seconds: None });
        plan.note(DAEMON_SETS, set, COMPONENT, "SuccessfulDelete", format!("Deleted pod: {}", name(pod)));
    }
}

fn label<'a>(pod: &'a Value, key: &str) -> &'a str {
    pod["metadata"]["labels"].get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The node of a pod, be it only the one that it is meant for.
fn node_of(pod: &Value) -> &str {
    const MEANT: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                         /nodeSelectorTerms/0/matchFields/0/values/0";
    match text(pod, "/spec/nodeName") {
        "" => text(pod, MEANT),
        node => node,
    }
}

fn pod_for(set: &Value, hash: &str) -> Value {
    let mut pod = pod_of(&set["spec"]["template"], DAEMON_SETS, set);
    pod["metadata"]["generateName"] = json!(format!("{}-", name(set)));
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let generation = set["metadata"]["annotations"].get(GENERATION).cloned();
    pod["metadata"]["labels"]["pod-template-generation"] = generation.unwrap_or_else(|| json!("1"));
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED {
        let key = format!("node.kubernetes.io/{key}");
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    if pod["spec"]["hostNetwork"] == true {
        let key = "node.kubernetes.io/network-unavailable";
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}));
    }
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &Value, pods: &[Value], nodes: &[&str], expected: &[&str]) -> Plan {
        let nodes: Vec<Value> = nodes.iter().map(|node| json!({"metadata": {"name": node}})).collect();
        let known = revisions::record(DAEMON_SETS, set, Vec::new()).all;
        let plan = reconcile(Timestamp::UNIX_EPOCH, set, pods, &nodes, known);
        let short: Vec<String> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { object, .. } => Some(format!("+{}", node_of(object))),
                Action::Delete { object, .. } => Some(format!("-{}", name(object))),
                _ => None,
            })
            .collect();
        assert_eq!(short, expected);
        plan
    }

    fn set(image: &str) -> Value {
        json!({"metadata": {"name": "ds", "namespace": "default", "uid": "u", "generation": 1},
            "spec": {"template": {"spec": {"image": image}}}, "status": {}})
    }

    fn pod(name: &str, node: &str, hash: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {HASH_LABEL: hash}}, "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    #[test]
    fn every_node_has_one() {
        let set_one = set("one");
        let hash = revisions::hash_of(&revisions::record(DAEMON_SETS, &set_one, Vec::new()).update).to_owned();
        check(&set_one, &[], &["a", "b"], &["+a", "+b"]);
        let pods = [pod("x", "a", &hash), pod("y", "b", &hash)];
        let plan = check(&set_one, &pods, &["a", "b"], &[]);
        let Some(Action::UpdateStatus { object, .. }) = plan.actions.last() else { panic!("{plan:?}") };
        let expected = json!({"currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
            "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 2});
        assert_eq!(object["status"], expected);
        check(&set_one, &pods, &["a"], &["-y"]);
        // One at a time.
        check(&set("two"), &pods, &["a", "b"], &["-x"]);
    }
}
