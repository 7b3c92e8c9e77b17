//! Pods: what admission adds to a new one.

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::request::status::StatusError;
use crate::state::State;
use crate::store::ObjectKey;
use crate::support::clock::timestamp;

/// Completes a new pod: its account, tolerations, quality of service.
pub(super) fn prepare_new(state: &State, resource: &ResourceType, pod: &mut Value) -> Result<(), StatusError> {
    let given = |field: &str| pod["spec"][field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let account = given("serviceAccountName").or_else(|| given("serviceAccount")).unwrap_or("default".to_owned());
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let forbid = |why: String| StatusError::forbidden(resource, &name, &why);
    if !pod["spec"].is_object() {
        pod["spec"] = json!({});
    }
    let spec = &mut pod["spec"];
    if find(state, "", "serviceaccounts", &ObjectKey::new(&namespace, &account)).is_none() {
        return Err(forbid(format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        )));
    }
    spec["serviceAccountName"] = json!(account);
    spec["serviceAccount"] = json!(account);
    let class = priority_class(state, spec).map_err(forbid)?;
    let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned();
    let value = class["value"].as_i64().unwrap_or_default();
    if let Some(sent) = spec["priority"].as_i64().filter(|sent| *sent != value) {
        return Err(forbid(format!(
            "the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        )));
    }
    if let Some(sent) = spec["preemptionPolicy"].as_str().filter(|sent| !sent.is_empty() && *sent != policy) {
        return Err(forbid(format!(
            "the string value of PreemptionPolicy ({sent}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    spec["priority"] = json!(value);
    spec["preemptionPolicy"] = json!(policy);
    apply_runtime_class(state, spec).map_err(forbid)?;
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = |toleration: &Value| {
            let effect = toleration["effect"].as_str().unwrap_or_default();
            let everything = toleration["key"].as_str().unwrap_or_default().is_empty();
            (toleration["key"] == key || everything) && matches!(effect, "" | "NoExecute")
        };
        if !tolerations.iter().any(tolerated) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
    mount_account(state, &mut pod["spec"]);
    let quality = quality_of_service(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality});
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": timestamp(state.now()), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    Ok(())
}

fn find(state: &State, group: &str, plural: &str, object_key: &ObjectKey) -> Option<Value> {
    let resource = state.built_in(group, "v1", plural)?;
    state.get(&resource, object_key).map(|stored| stored.decode())
}

/// The class that a pod names, or the one for all others; without any, pods have no priority.
fn priority_class(state: &State, spec: &Value) -> Result<Value, String> {
    match spec["priorityClassName"].as_str().unwrap_or_default() {
        "" => {
            let classes = state.built_in("scheduling.k8s.io", "v1", "priorityclasses");
            let all = classes.map(|resource| state.store().list(&resource.storage, None, None)).unwrap_or_default();
            Ok(all
                .iter()
                .map(|stored| stored.decode())
                .find(|class| class["globalDefault"] == true)
                .unwrap_or_default())
        }
        // Every cluster has these two.
        "system-cluster-critical" => Ok(json!({"value": 2_000_000_000})),
        "system-node-critical" => Ok(json!({"value": 2_000_001_000})),
        name => find(state, "scheduling.k8s.io", "priorityclasses", &ObjectKey::new("", name))
            .ok_or_else(|| format!("no PriorityClass with name {name} was found")),
    }
}

/// The overhead of a pod comes from its runtime class only.
fn apply_runtime_class(state: &State, spec: &mut Value) -> Result<(), String> {
    let class = match spec["runtimeClassName"].as_str().unwrap_or_default() {
        "" => None,
        name => match find(state, "node.k8s.io", "runtimeclasses", &ObjectKey::new("", name)) {
            Some(class) => Some(class),
            None => return Err(format!("pod rejected: RuntimeClass \"{name}\" not found")),
        },
    };
    let overhead = class.as_ref().and_then(|class| class["overhead"].get("podFixed")).cloned();
    match overhead {
        Some(overhead) => spec["overhead"] = overhead,
        None if spec.get("overhead").is_some_and(|overhead| !overhead.is_null()) => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned());
        }
        None => {}
    }
    Ok(())
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
    let given = |container: &Value, kind: &str| {
        ["cpu", "memory"].iter().any(|name| container["resources"][kind].get(name).is_some())
    };
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
