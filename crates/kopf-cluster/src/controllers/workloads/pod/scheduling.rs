//! Which node a pod goes to: what the scheduler decides, as far as it shows on one node or a few.
//!
//! A pod must fit the node by itself; how much room others leave is not counted, so that a simulated
//! node takes any number of pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::controllers::workloads::objects::{condition, fits, name, number, set_condition, text};
use crate::controllers::workloads::plan::{Action, PODS, Plan, SCHEDULER};
use crate::go::quantity::Quantity;
use jiff::Timestamp;

const COMPONENT: &str = "default-scheduler";

/// The state of a claim that a pod needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Missing,
    Unbound,
    Bound,
}

pub(crate) fn reconcile(now: Timestamp, pod: &Value, nodes: &[Value], claims: &[(String, Claim)]) -> Plan {
    let mut plan = Plan::default();
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        // The API server sets this in the status of a new pod.
        return plan;
    }
    let scheduler = pod["spec"]["schedulerName"].as_str().unwrap_or(COMPONENT);
    if scheduler != COMPONENT {
        return plan;
    }
    match choose(pod, nodes, claims) {
        Ok(node) => {
            let message = format!(
                "Successfully assigned {}/{} to {node}",
                text(pod, "/metadata/namespace"),
                text(pod, "/metadata/name")
            );
            plan.push(Action::Bind { pod: pod.clone(), node });
            plan.note(PODS, pod, COMPONENT, "Scheduled", message);
        }
        Err(message) => {
            if condition(pod, "PodScheduled").is_some_and(|known| known["message"] == message.as_str()) {
                return plan;
            }
            let mut object = pod.clone();
            if let Some(list) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                list.retain(|known| known["type"] != "PodScheduled");
            }
            let refused = json!({"type": "PodScheduled", "status": "False", "lastProbeTime": null,
                "lastTransitionTime": null, "reason": "Unschedulable", "message": message,
                "observedGeneration": number(pod, "/metadata/generation")});
            set_condition(&mut object["status"], refused, now);
            plan.push(Action::UpdateStatus { api: PODS, object, manager: SCHEDULER });
            plan.warn(PODS, pod, COMPONENT, "FailedScheduling", message);
        }
    }
    plan
}

/// The name of a node, or why there is none.
fn choose(pod: &Value, nodes: &[Value], claims: &[(String, Claim)]) -> Result<String, String> {
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let count = nodes.len();
    for (claim, found) in claims {
        match found {
            Claim::Bound => {}
            Claim::Missing => {
                return Err(format!(
                    "0/{count} nodes are available: persistentvolumeclaim \"{claim}\" not found. not found"
                ));
            }
            Claim::Unbound => {
                return Err(format!(
                    "0/{count} nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
                ));
            }
        }
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        match obstacle(pod, node) {
            None => return Ok(name(node).to_owned()),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    let listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    Err(format!(
        "0/{count} nodes are available: {}. no new claims to deallocate, preemption: 0/{count} nodes are available: \
         {count} Preemption is not helpful for scheduling.",
        listed.join(", ")
    ))
}

/// Whether a pod may be on a node at all, for those who go to all nodes.
pub(crate) fn tolerates_node(pod: &Value, node: &Value) -> bool {
    obstacle(pod, node).is_none()
}

/// Why a node cannot take a pod.
fn obstacle(pod: &Value, node: &Value) -> Option<String> {
    let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    if node["spec"]["unschedulable"] == true
        && !tolerations.iter().any(|toleration| {
            tolerates(toleration, &json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
        })
    {
        return Some("node(s) were unschedulable".to_owned());
    }
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut hard = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    if hard.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint))) {
        return Some("node(s) had untolerated taint(s)".to_owned());
    }
    if !fits_node(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let lacking = ["cpu", "memory"].into_iter().find(|resource| {
        let allocatable = node["status"]["allocatable"][resource].as_str().and_then(Quantity::parse);
        allocatable.is_some_and(|allocatable| requested(pod, resource) > allocatable)
    });
    lacking.map(|resource| format!("Insufficient {resource}"))
}

/// What the containers of a pod ask for.
fn requested(pod: &Value, resource: &str) -> Quantity {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .filter_map(|container| container["resources"]["requests"][resource].as_str().and_then(Quantity::parse))
        .sum()
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let given = |field: &str| toleration[field].as_str().filter(|text| !text.is_empty());
    let same =
        |field: &str| toleration[field].as_str().unwrap_or_default() == taint[field].as_str().unwrap_or_default();
    let exists = toleration["operator"] == "Exists";
    (given("effect").is_none() || same("effect"))
        && (given("key").is_none() && exists || same("key"))
        && (exists || same("value"))
}

/// Whether the node selector and the required affinity of a pod fit a node.
fn fits_node(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let selected = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    if !selected.into_iter().all(|(key, value)| label(key) == value.as_str()) {
        return false;
    }
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    let all = |list: &Value, value_of: &dyn Fn(&str) -> Option<String>| {
        let mut requirements = list.as_array().into_iter().flatten();
        requirements.all(|requirement| fits(requirement, value_of(text(requirement, "/key")).as_deref()))
    };
    terms.iter().any(|term| {
        let empty = |field: &str| term[field].as_array().is_none_or(Vec::is_empty);
        !(empty("matchExpressions") && empty("matchFields"))
            && all(&term["matchExpressions"], &|key| label(key).map(str::to_owned))
            && all(&term["matchFields"], &|key| (key == "metadata.name").then(|| name(node).to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: Value, spec: Value) -> Value {
        json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
    }

    fn check(spec: Value, nodes: &[Value], claims: &[(String, Claim)], expected: Result<&str, &str>) {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let chosen = choose(&pod, nodes, claims);
        assert_eq!(chosen.as_deref(), expected.map_err(str::to_owned).as_deref(), "{pod}");
    }

    #[test]
    fn pods_go_where_they_fit() {
        let nodes = [node("one", json!({"disk": "hdd"}), json!({})), node("two", json!({"disk": "ssd"}), json!({}))];
        check(json!({}), &nodes, &[], Ok("one"));
        check(json!({"nodeSelector": {"disk": "ssd"}}), &nodes, &[], Ok("two"));
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [term]}}}})
        };
        let by_name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["two"]}]});
        check(affinity(by_name), &nodes, &[], Ok("two"));
        let by_label = json!({"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]});
        check(affinity(by_label), &nodes, &[], Ok("two"));
        check(
            json!({"nodeSelector": {"disk": "nvme"}}),
            &nodes,
            &[],
            Err("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to \
                 deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."),
        );
        check(json!({}), &[], &[], Err("no nodes available to schedule pods"));
    }

    #[test]
    fn pods_must_fit_the_node_by_themselves() {
        let mut small = node("one", json!({}), json!({}));
        small["status"] = json!({"allocatable": {"cpu": "2", "memory": "1Gi"}});
        let asking = |cpu: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}, {"resources": {}}]});
        check(asking("1500m"), std::slice::from_ref(&small), &[], Ok("one"));
        let refused = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes \
                       are available: 1 Preemption is not helpful for scheduling.";
        check(asking("3"), &[small], &[], Err(refused));
    }

    #[test]
    fn taints_need_tolerations() {
        let nodes = [node("one", json!({}), json!({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}))];
        let refused = "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, \
                       preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        check(json!({}), &nodes, &[], Err(refused));
        check(json!({"tolerations": [{"key": "a", "operator": "Exists"}]}), &nodes, &[], Ok("one"));
        check(json!({"tolerations": [{"key": "a", "value": "b"}]}), &nodes, &[], Ok("one"));
        check(json!({"tolerations": [{"key": "a", "value": "c"}]}), &nodes, &[], Err(refused));
        check(json!({"tolerations": [{"operator": "Exists"}]}), &nodes, &[], Ok("one"));
    }

    #[test]
    fn claims_must_be_bound() {
        let nodes = [node("one", json!({}), json!({}))];
        check(json!({}), &nodes, &[("c".into(), Claim::Bound)], Ok("one"));
        let missing = "0/1 nodes are available: persistentvolumeclaim \"c\" not found. not found";
        check(json!({}), &nodes, &[("c".into(), Claim::Missing)], Err(missing));
        let unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
        check(json!({}), &nodes, &[("c".into(), Claim::Unbound)], Err(unbound));
    }
}
