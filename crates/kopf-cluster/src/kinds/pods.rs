//! Pods: what admission adds to a new one.

use serde_json::{Value, json};

use crate::state::State;

/// Completes a new pod: its account, tolerations, quality of service.
pub fn prepare_new(state: &State, pod: &mut Value) {
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default").to_owned();
    let spec = &mut pod["spec"];
    if !spec.is_object() {
        return;
    }
    spec["serviceAccountName"] = json!(account);
    spec["serviceAccount"] = json!(account);
    for (field, value) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
        if spec.get(field).is_none() {
            spec[field] = value;
        }
    }
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|toleration| toleration["key"] == key) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
    mount_account(state, &mut pod["spec"]);
    let quality = quality_of_service(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality});
}

/// Pods see the token of their account as files, unless they do not want it.
fn mount_account(state: &State, spec: &mut Value) {
    const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    if spec["automountServiceAccountToken"] == false {
        return;
    }
    let name = format!("kube-api-access-{}", state.randomness().suffix());
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}}]}}));
    spec["volumes"] = Value::Array(volumes);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                container["volumeMounts"] = Value::Array(mounts);
            }
        }
    }
}

fn quality_of_service(spec: &Value) -> &'static str {
    let containers = spec["containers"].as_array().cloned().unwrap_or_default();
    let given =
        |container: &Value, kind: &str| container["resources"][kind].as_object().is_some_and(|map| !map.is_empty());
    if !containers.iter().any(|container| given(container, "limits") || given(container, "requests")) {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|container| {
        let limits = &container["resources"]["limits"];
        ["cpu", "memory"].iter().all(|name| {
            let request = container["resources"]["requests"].get(name);
            limits.get(name).is_some() && request.is_none_or(|request| Some(request) == limits.get(name))
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
