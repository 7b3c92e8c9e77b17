//! The cells of built-in kinds, by the titles of their columns.
//!
//! Columns with the same title mean the same in most kinds, so they are found by the title first;
//! a kind is named only where it shows something different.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;

pub(super) fn cell(kind: &str, title: &str, object: &Value, now: Timestamp) -> Value {
    let at = |path: &str| object.pointer(path).cloned().unwrap_or_default();
    let number = |path: &str| json!(object.pointer(path).and_then(Value::as_i64).unwrap_or_default());
    let text = |path: &str| json!(object.pointer(path).and_then(Value::as_str).unwrap_or_default());
    let or_none = |path: &str| match object.pointer(path).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => json!(text),
        _ => json!("<none>"),
    };
    match (kind, title) {
        (_, "Name") => text("/metadata/name"),
        (_, "Age") => age(&at("/metadata/creationTimestamp"), now),
        (_, "Created At") => at("/metadata/creationTimestamp"),
        (_, "Containers") => json!(joined(template(kind, object), "name")),
        (_, "Images") => json!(joined(template(kind, object), "image")),
        ("services", "Selector") => json!(labels(&at("/spec/selector"))),
        (_, "Selector") => json!(selector(&at("/spec/selector"))),

        ("namespaces", "Status") => text("/status/phase"),
        ("configmaps", "Data") => json!(count(object, "data") + count(object, "binaryData")),
        ("secrets", "Data") => json!(count(object, "data")),
        ("secrets", "Type") => text("/type"),
        ("leases.coordination.k8s.io", "Holder") => text("/spec/holderIdentity"),

        ("pods", "Ready") => pod_ready(object),
        ("pods", "Status") => pod_status(object),
        ("pods", "Restarts") => pod_restarts(object),
        ("pods", "IP") => or_none("/status/podIP"),
        ("pods", "Node") => or_none("/spec/nodeName"),
        ("pods", "Nominated Node") => or_none("/status/nominatedNodeName"),
        ("pods", "Readiness Gates") => json!("<none>"),

        ("deployments.apps" | "statefulsets.apps", "Ready") => {
            json!(format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")))
        }
        ("deployments.apps", "Up-to-date") => number("/status/updatedReplicas"),
        ("deployments.apps", "Available") => number("/status/availableReplicas"),
        ("replicasets.apps" | "replicationcontrollers", "Desired") => number("/spec/replicas"),
        ("replicasets.apps" | "replicationcontrollers", "Current") => number("/status/replicas"),
        ("replicasets.apps" | "replicationcontrollers", "Ready") => number("/status/readyReplicas"),
        ("daemonsets.apps", "Desired") => number("/status/desiredNumberScheduled"),
        ("daemonsets.apps", "Current") => number("/status/currentNumberScheduled"),
        ("daemonsets.apps", "Ready") => number("/status/numberReady"),
        ("daemonsets.apps", "Up-to-date") => number("/status/updatedNumberScheduled"),
        ("daemonsets.apps", "Available") => number("/status/numberAvailable"),
        ("daemonsets.apps", "Node Selector") => json!(labels(&at("/spec/template/spec/nodeSelector"))),

        ("jobs.batch", "Status") => job_status(object),
        ("jobs.batch", "Completions") => {
            let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
            json!(format!("{}/{wanted}", number("/status/succeeded")))
        }
        ("jobs.batch", "Duration") => job_duration(object, now),
        ("cronjobs.batch", "Schedule") => text("/spec/schedule"),
        ("cronjobs.batch", "Timezone") => or_none("/spec/timeZone"),
        ("cronjobs.batch", "Suspend") => match at("/spec/suspend") {
            Value::Bool(true) => json!("True"),
            Value::Bool(false) => json!("False"),
            _ => json!("<unset>"),
        },
        ("cronjobs.batch", "Active") => json!(at("/status/active").as_array().map_or(0, Vec::len)),
        ("cronjobs.batch", "Last Schedule") => match at("/status/lastScheduleTime") {
            Value::Null => json!("<none>"),
            time => age(&time, now),
        },

        ("services", "Type") => text("/spec/type"),
        ("services", "Cluster-IP") => or_none("/spec/clusterIP"),
        ("services", "External-IP") => service_external(object),
        ("services", "Port(s)") => service_ports(object),

        ("nodes", "Status") => node_status(object),
        ("nodes", "Roles") => node_roles(object),
        ("nodes", "Version") => text("/status/nodeInfo/kubeletVersion"),
        ("nodes", "Internal-IP") => node_address(object, "InternalIP"),
        ("nodes", "External-IP") => node_address(object, "ExternalIP"),
        ("nodes", "OS-Image") => unknown(&at("/status/nodeInfo/osImage")),
        ("nodes", "Kernel-Version") => unknown(&at("/status/nodeInfo/kernelVersion")),
        ("nodes", "Container-Runtime") => unknown(&at("/status/nodeInfo/containerRuntimeVersion")),

        ("events" | "events.events.k8s.io", title) => event_cell(title, object, now),

        ("persistentvolumeclaims" | "persistentvolumes", "Status") => match at("/metadata/deletionTimestamp") {
            Value::Null => text("/status/phase"),
            _ => json!("Terminating"),
        },
        ("persistentvolumeclaims", "Volume") => text("/spec/volumeName"),
        ("persistentvolumeclaims", "Capacity") => text("/status/capacity/storage"),
        ("persistentvolumes", "Capacity") => text("/spec/capacity/storage"),
        ("persistentvolumeclaims", "Access Modes") => json!(access_modes(&at("/status/accessModes"))),
        ("persistentvolumes", "Access Modes") => json!(access_modes(&at("/spec/accessModes"))),
        ("persistentvolumes", "Reclaim Policy") => text("/spec/persistentVolumeReclaimPolicy"),
        ("persistentvolumes", "Claim") => match at("/spec/claimRef") {
            Value::Null => json!(""),
            claim => json!(format!("{}/{}", plain(&claim["namespace"]), plain(&claim["name"]))),
        },
        (_, "StorageClass") => text("/spec/storageClassName"),
        (_, "VolumeAttributesClass") => json!("<unset>"),
        (_, "VolumeMode") => text("/spec/volumeMode"),
        (_, "Reason") => text("/status/reason"),

        ("podtemplates", "Pod Labels") => json!(labels(&at("/template/metadata/labels"))),
        ("endpoints", "Endpoints") => json!(endpoints(object)),
        ("endpointslices.discovery.k8s.io", "Ports") => json!(joined_numbers(&at("/ports"), "port")),
        ("endpointslices.discovery.k8s.io", "Endpoints") => json!(slice_addresses(object)),
        ("ingressclasses.networking.k8s.io", "Controller") => text("/spec/controller"),
        ("ingressclasses.networking.k8s.io", "Parameters") => json!("<none>"),
        ("runtimeclasses.node.k8s.io", "Handler") => text("/handler"),
        ("controllerrevisions.apps", "Controller") => json!("<none>"),
        ("controllerrevisions.apps", "Revision") => number("/revision"),
        ("ingresses.networking.k8s.io", "Class") => or_none("/spec/ingressClassName"),
        ("ingresses.networking.k8s.io", "Hosts") => json!(ingress_hosts(object)),
        ("ingresses.networking.k8s.io", "Address") => json!(joined(at("/status/loadBalancer/ingress"), "ip")),
        ("ingresses.networking.k8s.io", "Ports") => json!(if at("/spec/tls").is_null() { "80" } else { "80, 443" }),
        (_, "Pod-Selector") => json!(selector(&at("/spec/podSelector"))),
        (_, "Role") => json!(format!("{}/{}", plain(&at("/roleRef/kind")), plain(&at("/roleRef/name")))),
        (_, "Users") => json!(subjects(object, "User")),
        (_, "Groups") => json!(subjects(object, "Group")),
        (_, "ServiceAccounts") => json!(subjects(object, "ServiceAccount")),
        (_, "Webhooks") => json!(at("/webhooks").as_array().map_or(0, Vec::len)),
        ("endpointslices.discovery.k8s.io", "AddressType") => text("/addressType"),
        ("storageclasses.storage.k8s.io", "Provisioner") => text("/provisioner"),
        ("storageclasses.storage.k8s.io", "ReclaimPolicy") => text("/reclaimPolicy"),
        ("storageclasses.storage.k8s.io", "VolumeBindingMode") => text("/volumeBindingMode"),
        ("storageclasses.storage.k8s.io", "AllowVolumeExpansion") => json!(at("/allowVolumeExpansion") == true),
        ("priorityclasses.scheduling.k8s.io", "Value") => number("/value"),
        ("priorityclasses.scheduling.k8s.io", "Global-Default") => json!(at("/globalDefault") == true),
        ("priorityclasses.scheduling.k8s.io", "PreemptionPolicy") => text("/preemptionPolicy"),
        ("poddisruptionbudgets.policy", "Min Available") => or_not_available(&at("/spec/minAvailable")),
        ("poddisruptionbudgets.policy", "Max Unavailable") => or_not_available(&at("/spec/maxUnavailable")),
        ("poddisruptionbudgets.policy", "Allowed Disruptions") => number("/status/disruptionsAllowed"),
        ("horizontalpodautoscalers.autoscaling", "Reference") => {
            json!(format!("{}/{}", plain(&at("/spec/scaleTargetRef/kind")), plain(&at("/spec/scaleTargetRef/name"))))
        }
        ("horizontalpodautoscalers.autoscaling", "MinPods") => json!(plain(&at("/spec/minReplicas"))),
        ("horizontalpodautoscalers.autoscaling", "MaxPods") => number("/spec/maxReplicas"),
        ("horizontalpodautoscalers.autoscaling", "Replicas") => number("/status/currentReplicas"),
        _ => json!("<unknown>"),
    }
}

fn template(kind: &str, object: &Value) -> Value {
    let path = match kind {
        "podtemplates" => "/template/spec/containers",
        "cronjobs.batch" => "/spec/jobTemplate/spec/template/spec/containers",
        _ => "/spec/template/spec/containers",
    };
    object.pointer(path).cloned().unwrap_or_default()
}

fn joined(list: Value, field: &str) -> String {
    let items = list.as_array().into_iter().flatten().filter_map(|item| item[field].as_str()).collect::<Vec<_>>();
    items.join(",")
}

fn count(object: &Value, field: &str) -> usize {
    object[field].as_object().map_or(0, serde_json::Map::len)
}

fn labels(value: &Value) -> String {
    let mut pairs: Vec<String> =
        value.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", plain(value))).collect();
    pairs.sort();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

pub(super) fn selector(value: &Value) -> String {
    match value.get("matchLabels") {
        Some(matched) => labels(matched),
        None if value.get("matchExpressions").is_some() => "<expressions>".to_owned(),
        None => labels(value),
    }
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn unknown(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => json!(text),
        _ => json!("<unknown>"),
    }
}

fn or_not_available(value: &Value) -> Value {
    if value.is_null() { json!("N/A") } else { json!(plain(value)) }
}

fn statuses(pod: &Value) -> Vec<&Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten().collect()
}

fn pod_ready(pod: &Value) -> Value {
    let ready = statuses(pod).iter().filter(|status| status["ready"] == true).count();
    json!(format!("{ready}/{}", pod["spec"]["containers"].as_array().map_or(0, Vec::len)))
}

fn pod_restarts(pod: &Value) -> Value {
    json!(statuses(pod).iter().filter_map(|status| status["restartCount"].as_i64()).sum::<i64>().to_string())
}

fn pod_status(pod: &Value) -> Value {
    let mut reason = match pod["status"]["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ => plain(&pod["status"]["phase"]),
    };
    for status in statuses(pod).into_iter().rev() {
        let waiting = status["state"]["waiting"]["reason"].as_str();
        let terminated = status["state"]["terminated"]["reason"].as_str();
        if let Some(found) = waiting.or(terminated).filter(|found| !found.is_empty()) {
            reason = found.to_owned();
        }
    }
    if pod["metadata"].get("deletionTimestamp").is_some() {
        reason = "Terminating".to_owned();
    }
    json!(reason)
}

fn job_status(job: &Value) -> Value {
    let is_true = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let status = match () {
        () if is_true("Complete") => "Complete",
        () if is_true("Failed") => "Failed",
        () if job["metadata"].get("deletionTimestamp").is_some() => "Terminating",
        () if is_true("Suspended") => "Suspended",
        () if is_true("FailureTarget") => "FailureTarget",
        () if is_true("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    json!(status)
}

fn job_duration(job: &Value, now: Timestamp) -> Value {
    let time = |field: &str| job["status"][field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match (time("startTime"), time("completionTime")) {
        (Some(start), end) => json!(super::human_duration(end.unwrap_or(now).duration_since(start).as_secs())),
        (None, _) => json!(""),
    }
}

fn service_external(service: &Value) -> Value {
    let ingress = joined(service["status"]["loadBalancer"]["ingress"].clone(), "ip");
    match service["spec"]["type"].as_str() {
        Some("ExternalName") => json!(plain(&service["spec"]["externalName"])),
        Some("LoadBalancer") if ingress.is_empty() => json!("<pending>"),
        Some("LoadBalancer") => json!(ingress),
        _ => json!("<none>"),
    }
}

fn service_ports(service: &Value) -> Value {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports: Vec<String> = ports
        .map(|port| match port.get("nodePort").and_then(Value::as_i64) {
            Some(node) if node > 0 => format!("{}:{node}/{}", port["port"], plain(&port["protocol"])),
            _ => format!("{}/{}", port["port"], plain(&port["protocol"])),
        })
        .collect();
    json!(if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") })
}

fn node_status(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    json!(status)
}

fn node_roles(node: &Value) -> Value {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    json!(if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") })
}

fn node_address(node: &Value, kind: &str) -> Value {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let found = addresses.into_iter().find(|address| address["type"] == kind).map(|address| plain(&address["address"]));
    json!(found.unwrap_or_else(|| "<none>".to_owned()))
}

fn event_cell(title: &str, event: &Value, now: Timestamp) -> Value {
    let first_of = |names: &[&str]| {
        names.iter().map(|name| event[*name].clone()).find(|value| !value.is_null()).unwrap_or_default()
    };
    let object = first_of(&["involvedObject", "regarding"]);
    let source = first_of(&["source", "deprecatedSource"]);
    match title {
        "Last Seen" => {
            let series = event["series"]["lastObservedTime"].clone();
            let last = first_of(&["lastTimestamp", "deprecatedLastTimestamp", "eventTime"]);
            age(if series.is_null() { &last } else { &series }, now)
        }
        "First Seen" => age(&first_of(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]), now),
        "Type" => event["type"].clone(),
        "Reason" => event["reason"].clone(),
        "Object" => json!(format!("{}/{}", plain(&object["kind"]).to_lowercase(), plain(&object["name"]))),
        "Subobject" => json!(plain(&object["fieldPath"])),
        "Source" => {
            let component = match plain(&source["component"]) {
                given if !given.is_empty() => given,
                _ => plain(&first_of(&["reportingComponent", "reportingController"])),
            };
            let host = match plain(&source["host"]) {
                given if !given.is_empty() => given,
                _ => plain(&event["reportingInstance"]),
            };
            json!(if host.is_empty() { component } else { format!("{component}, {host}") })
        }
        "Message" => json!(plain(&first_of(&["message", "note"])).trim().to_owned()),
        "Count" if event["series"].is_object() => event["series"]["count"].clone(),
        "Count" => json!(first_of(&["count", "deprecatedCount"]).as_i64().filter(|count| *count > 0).unwrap_or(1)),
        _ => event["metadata"]["name"].clone(),
    }
}

fn joined_numbers(list: &Value, field: &str) -> String {
    let items: Vec<String> = list.as_array().into_iter().flatten().map(|item| plain(&item[field])).collect();
    if items.is_empty() { "<unset>".to_owned() } else { items.join(",") }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in object["subsets"].as_array().into_iter().flatten() {
        for port in subset["ports"].as_array().into_iter().flatten() {
            for address in subset["addresses"].as_array().into_iter().flatten() {
                all.push(format!("{}:{}", plain(&address["ip"]), plain(&port["port"])));
            }
        }
    }
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

fn slice_addresses(slice: &Value) -> String {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let addresses: Vec<&str> =
        endpoints.flat_map(|one| one["addresses"].as_array().into_iter().flatten()).filter_map(Value::as_str).collect();
    if addresses.is_empty() { "<unset>".to_owned() } else { addresses.join(",") }
}

fn access_modes(modes: &Value) -> String {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let modes: Vec<&str> = modes.as_array().into_iter().flatten().filter_map(Value::as_str).map(short).collect();
    modes.join(",")
}

fn ingress_hosts(ingress: &Value) -> String {
    let hosts: Vec<&str> =
        ingress["spec"]["rules"].as_array().into_iter().flatten().filter_map(|rule| rule["host"].as_str()).collect();
    if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = binding["subjects"].as_array().into_iter().flatten().filter(|subject| subject["kind"] == kind);
    let names: Vec<String> = subjects
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", plain(&subject["namespace"]), plain(&subject["name"])),
            _ => plain(&subject["name"]),
        })
        .collect();
    names.join(", ")
}
