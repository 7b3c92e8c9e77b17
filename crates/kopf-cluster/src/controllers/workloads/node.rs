//! The one node of the cluster: it is ready, and takes all pods that fit it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{condition, remove_field, text};
use super::plan::{Action, Api, CONTROLLERS, LEASES, NODES};
use crate::support::capture::KUBERNETES_VERSION;
use crate::support::clock::timestamp;

pub(super) const NAME: &str = "kopf-node";
const ADDRESS: &str = "10.89.0.2";
/// Nodes take more pods than any test makes.
const PODS: &str = "100k";

/// The node, and the sign that it is alive.
pub(super) fn initial(now: Timestamp) -> Vec<(Api, Value)> {
    let node = json!({
        "metadata": {
            "name": NAME,
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]},
        "status": status(now),
    });
    let lease = json!({
        "metadata": {"name": NAME, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")},
    });
    vec![(NODES, node), (LEASES, lease)]
}

fn status(now: Timestamp) -> Value {
    let now = timestamp(now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now,
            "reason": reason, "message": message})
    };
    let resources = json!({"cpu": "64", "ephemeral-storage": "1Ti", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "256Gi", "pods": PODS});
    json!({
        "capacity": resources, "allocatable": resources,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": NAME}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "embedded", "osImage": "Kopf embedded",
            "containerRuntimeVersion": "kopf://simulated", "kubeletVersion": KUBERNETES_VERSION,
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
    })
}

/// New nodes are tainted until they are ready; a controller takes the taint away.
pub(super) fn admit_pods(node: &Value) -> Option<Action> {
    const TAINT: &str = "node.kubernetes.io/not-ready";
    let taints = node["spec"]["taints"].as_array()?;
    let rest: Vec<Value> = taints.iter().filter(|taint| taint["key"] != TAINT).cloned().collect();
    let ready = condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
    if !ready || rest.len() == taints.len() {
        return None;
    }
    let mut object = node.clone();
    match rest.is_empty() {
        true => remove_field(&mut object["spec"], "taints"),
        false => object["spec"]["taints"] = Value::Array(rest),
    }
    Some(Action::Update { api: NODES, object, manager: CONTROLLERS })
}

/// The address of a node, for the pods on it.
pub(super) fn address(node: &Value) -> &str {
    let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses.find(|address| address["type"] == "InternalIP").map_or(ADDRESS, |address| text(address, "/address"))
}
