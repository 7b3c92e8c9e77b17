//! Defaults of built-in kinds, as far as clients observe them.
//!
//! The published schemas of built-in kinds name almost none: in a real server they are code.
//! Here they are a table of paths and values. `admit.rs` fills them in before anything is checked.

use serde_json::{Value, json};

use crate::catalog::ResourceType;

/// Paths below a pod template or a pod. `[]` stands for every item of a list.
const POD: &[(&str, &str)] = &[
    ("restartPolicy", "\"Always\""),
    ("terminationGracePeriodSeconds", "30"),
    ("dnsPolicy", "\"ClusterFirst\""),
    ("securityContext", "{}"),
    ("schedulerName", "\"default-scheduler\""),
    ("volumes[].emptyDir?", "{}"),
    ("volumes[].secret.defaultMode", "420"),
    ("volumes[].configMap.defaultMode", "420"),
    ("volumes[].projected.defaultMode", "420"),
    ("volumes[].downwardAPI.defaultMode", "420"),
    ("volumes[].hostPath.type", "\"\""),
    ("volumes[].downwardAPI.items[].fieldRef.apiVersion", "\"v1\""),
    ("volumes[].downwardAPI.items[].resourceFieldRef.divisor", "\"0\""),
    ("volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion", "\"v1\""),
    ("volumes[].projected.sources[].serviceAccountToken.expirationSeconds", "3600"),
    ("volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode", "\"Filesystem\""),
    ("volumes[].iscsi.iscsiInterface", "\"default\""),
    ("volumes[].rbd.pool", "\"rbd\""),
    ("volumes[].rbd.user", "\"admin\""),
    ("volumes[].rbd.keyring", "\"/etc/ceph/keyring\""),
    ("volumes[].azureDisk.cachingMode", "\"ReadWrite\""),
    ("volumes[].azureDisk.kind", "\"Shared\""),
    ("volumes[].azureDisk.fsType", "\"ext4\""),
    ("volumes[].azureDisk.readOnly", "false"),
    ("volumes[].scaleIO.storageMode", "\"ThinProvisioned\""),
    ("volumes[].scaleIO.fsType", "\"xfs\""),
];

/// Paths below each container.
const CONTAINER: &[(&str, &str)] = &[
    ("resources", "{}"),
    ("terminationMessagePath", "\"/dev/termination-log\""),
    ("terminationMessagePolicy", "\"File\""),
    ("ports[].protocol", "\"TCP\""),
    ("env[].valueFrom.fieldRef.apiVersion", "\"v1\""),
    ("livenessProbe.timeoutSeconds", "1"),
    ("livenessProbe.periodSeconds", "10"),
    ("livenessProbe.successThreshold", "1"),
    ("livenessProbe.failureThreshold", "3"),
    ("livenessProbe.httpGet.path", "\"/\""),
    ("livenessProbe.httpGet.scheme", "\"HTTP\""),
    ("livenessProbe.grpc.service", "\"\""),
    ("readinessProbe.timeoutSeconds", "1"),
    ("readinessProbe.periodSeconds", "10"),
    ("readinessProbe.successThreshold", "1"),
    ("readinessProbe.failureThreshold", "3"),
    ("readinessProbe.httpGet.path", "\"/\""),
    ("readinessProbe.httpGet.scheme", "\"HTTP\""),
    ("readinessProbe.grpc.service", "\"\""),
    ("lifecycle.postStart.httpGet.path", "\"/\""),
    ("lifecycle.postStart.httpGet.scheme", "\"HTTP\""),
    ("lifecycle.preStop.httpGet.path", "\"/\""),
    ("lifecycle.preStop.httpGet.scheme", "\"HTTP\""),
    ("env[].valueFrom.resourceFieldRef.divisor", "\"0\""),
    ("startupProbe.timeoutSeconds", "1"),
    ("startupProbe.periodSeconds", "10"),
    ("startupProbe.successThreshold", "1"),
    ("startupProbe.failureThreshold", "3"),
    ("startupProbe.httpGet.path", "\"/\""),
    ("startupProbe.httpGet.scheme", "\"HTTP\""),
    ("startupProbe.grpc.service", "\"\""),
];

/// Paths of whole objects, by `plural.group`.
const KINDS: &[(&str, &[(&str, &str)])] = &[
    ("pods", &[("spec.enableServiceLinks", "true")]),
    ("endpoints", &[("subsets[].ports[].protocol", "\"TCP\"")]),
    (
        "endpointslices.discovery.k8s.io",
        &[("endpoints[].conditions", "{}"), ("ports[].name", "\"\""), ("ports[].protocol", "\"TCP\"")],
    ),
    (
        "deployments.apps",
        &[
            ("spec.replicas", "1"),
            ("spec.strategy", "{}"),
            ("spec.strategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.progressDeadlineSeconds", "600"),
        ],
    ),
    ("replicasets.apps", &[("spec.replicas", "1")]),
    ("replicationcontrollers", &[("spec.replicas", "1")]),
    (
        "statefulsets.apps",
        &[
            ("spec.replicas", "1"),
            ("spec.podManagementPolicy", "\"OrderedReady\""),
            ("spec.updateStrategy", "{}"),
            ("spec.updateStrategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.persistentVolumeClaimRetentionPolicy", "{\"whenDeleted\":\"Retain\",\"whenScaled\":\"Retain\"}"),
        ],
    ),
    (
        "daemonsets.apps",
        &[
            ("spec.updateStrategy", "{}"),
            ("spec.updateStrategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
        ],
    ),
    (
        "jobs.batch",
        &[
            ("spec.completions", "1"),
            ("spec.parallelism", "1"),
            ("spec.backoffLimit", "6"),
            ("spec.completionMode", "\"NonIndexed\""),
            ("spec.suspend", "false"),
            ("spec.manualSelector", "false"),
            ("spec.template.metadata", "{}"),
            ("spec.podReplacementPolicy", "\"TerminatingOrFailed\""),
        ],
    ),
    (
        "cronjobs.batch",
        &[
            ("spec.concurrencyPolicy", "\"Allow\""),
            ("spec.suspend", "false"),
            ("spec.successfulJobsHistoryLimit", "3"),
            ("spec.failedJobsHistoryLimit", "1"),
            ("spec.jobTemplate.metadata", "{}"),
            ("spec.jobTemplate.spec.template.metadata", "{}"),
        ],
    ),
    (
        "services",
        &[
            ("spec.type", "\"ClusterIP\""),
            ("spec.sessionAffinity", "\"None\""),
            ("spec.internalTrafficPolicy", "\"Cluster\""),
            ("spec.ports[].protocol", "\"TCP\""),
        ],
    ),
    ("secrets", &[("type", "\"Opaque\"")]),
    ("persistentvolumeclaims", &[("spec.volumeMode", "\"Filesystem\"")]),
    (
        "persistentvolumes",
        &[
            ("spec.volumeMode", "\"Filesystem\""),
            ("spec.persistentVolumeReclaimPolicy", "\"Retain\""),
            ("spec.hostPath.type", "\"\""),
        ],
    ),
    (
        "horizontalpodautoscalers.autoscaling",
        &[
            ("spec.minReplicas", "1"),
            (
                "spec.metrics",
                "[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\",\
                 \"averageUtilization\":80}}}]",
            ),
        ],
    ),
    ("ingresses.networking.k8s.io", &[("spec.rules[].http.paths[].pathType", "\"ImplementationSpecific\"")]),
    ("networkpolicies.networking.k8s.io", &[("spec.policyTypes", "[\"Ingress\"]")]),
    ("storageclasses.storage.k8s.io", &[("reclaimPolicy", "\"Delete\""), ("volumeBindingMode", "\"Immediate\"")]),
    ("priorityclasses.scheduling.k8s.io", &[("preemptionPolicy", "\"PreemptLowerPriority\"")]),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        &[
            ("webhooks[].failurePolicy", "\"Fail\""),
            ("webhooks[].matchPolicy", "\"Equivalent\""),
            ("webhooks[].namespaceSelector", "{}"),
            ("webhooks[].objectSelector", "{}"),
            ("webhooks[].reinvocationPolicy", "\"Never\""),
            ("webhooks[].timeoutSeconds", "10"),
            ("webhooks[].rules[].scope", "\"*\""),
            ("webhooks[].clientConfig.service.port", "443"),
        ],
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        &[
            ("webhooks[].failurePolicy", "\"Fail\""),
            ("webhooks[].matchPolicy", "\"Equivalent\""),
            ("webhooks[].namespaceSelector", "{}"),
            ("webhooks[].objectSelector", "{}"),
            ("webhooks[].timeoutSeconds", "10"),
            ("webhooks[].rules[].scope", "\"*\""),
            ("webhooks[].clientConfig.service.port", "443"),
        ],
    ),
];

/// Fills in what is missing in an object of a built-in kind.
pub fn fill_in(resource: &ResourceType, object: &mut Value) {
    let name = resource.qualified();
    for (kind, paths) in KINDS {
        if *kind == name {
            fill_all(object, paths);
        }
    }
    let pod = match name.as_str() {
        "pods" => object.get_mut("spec"),
        "cronjobs.batch" => object.pointer_mut("/spec/jobTemplate/spec/template/spec"),
        "podtemplates" => object.pointer_mut("/template/spec"),
        _ => object.pointer_mut("/spec/template/spec"),
    };
    if let Some(pod) = pod.filter(|pod| pod.is_object() && resource.custom().is_none()) {
        fill_pod(pod);
        if name == "pods" {
            fill_requests(pod);
        }
    }
    match name.as_str() {
        "deployments.apps" if object["spec"]["strategy"]["type"] == "RollingUpdate" => {
            let rolling = [
                ("spec.strategy.rollingUpdate", "{}"),
                ("spec.strategy.rollingUpdate.maxUnavailable", "\"25%\""),
                ("spec.strategy.rollingUpdate.maxSurge", "\"25%\""),
            ];
            fill_all(object, &rolling);
        }
        "daemonsets.apps" if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" => {
            let rolling = [
                ("spec.updateStrategy.rollingUpdate", "{}"),
                ("spec.updateStrategy.rollingUpdate.maxUnavailable", "1"),
                ("spec.updateStrategy.rollingUpdate.maxSurge", "0"),
            ];
            fill_all(object, &rolling);
        }
        "statefulsets.apps" if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" => {
            let rolling =
                [("spec.updateStrategy.rollingUpdate", "{}"), ("spec.updateStrategy.rollingUpdate.partition", "0")];
            fill_all(object, &rolling);
        }
        "services" => fill_target_ports(object),
        _ => {}
    }
}

fn fill_pod(pod: &mut Value) {
    fill_all(pod, POD);
    let on_host = pod["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            fill_all(container, CONTAINER);
            for port in
                container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().filter(|_| on_host)
            {
                let same = port.get("containerPort").cloned().unwrap_or_default();
                put(port, "hostPort", &same);
            }
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
            put(container, "imagePullPolicy", &json!(policy));
        }
    }
}

/// What a container of a pod is limited to, it also asks for.
fn fill_requests(pod: &mut Value) {
    if pod["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        pod["terminationGracePeriodSeconds"] = json!(1);
    }
    for list in ["containers", "initContainers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            if limits.is_empty() {
                continue;
            }
            if !container["resources"]["requests"].is_object() {
                container["resources"]["requests"] = json!({});
            }
            for (name, amount) in limits {
                put(&mut container["resources"]["requests"], &name, &amount);
            }
        }
    }
}

/// An image without a tag, or with the tag `latest`, may change any time.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Ports of services lead to the same port of pods, if nothing else is said.
fn fill_target_ports(service: &mut Value) {
    for port in service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_some_and(|target| *target == 0) {
            port["targetPort"] = Value::Null;
        }
        put(port, "targetPort", &same);
    }
}

fn fill_all(object: &mut Value, paths: &[(&str, &str)]) {
    for (path, text) in paths {
        // The table is text of ours; its test reads all of it.
        if let Ok(value) = serde_json::from_str(text) {
            fill(object, path, &value);
        }
    }
}

/// Fills in one path wherever its parents exist.
fn fill(value: &mut Value, path: &str, default: &Value) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match (first.strip_suffix("[]"), rest) {
        (Some(list), rest) => {
            for item in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                fill(item, rest, default);
            }
        }
        (None, "") => match first.strip_suffix('?') {
            // Only where nothing but the name is given: a volume without any source.
            Some(only) if value.as_object().is_some_and(|fields| fields.len() == 1) => put(value, only, default),
            Some(_) => {}
            None => put(value, first, default),
        },
        (None, rest) => {
            if let Some(below) = value.get_mut(first) {
                fill(below, rest, default);
            }
        }
    }
}

fn put(value: &mut Value, field: &str, default: &Value) {
    if let Value::Object(fields) = value {
        let slot = fields.entry(field).or_insert(Value::Null);
        // Empty texts are as good as missing ones.
        if slot.is_null() || slot == "" {
            *slot = default.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn the_tables_can_be_read() {
        let tables = KINDS.iter().flat_map(|(_, paths)| *paths).chain(POD).chain(CONTAINER);
        for (path, text) in tables {
            serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    #[test]
    fn a_deployment_gets_its_defaults() {
        let catalog = Catalog::built_in();
        let mut deployment = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "image": "busybox"}, {"name": "b", "image": "x/y:1", "ports": [{"containerPort": 1}]}]}}}});
        fill_in(catalog.get("apps", "v1", "deployments").unwrap(), &mut deployment);
        // As a real server answers.
        let expected = json!({"replicas": 1, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "template": {"spec": {
                "containers": [
                    {"name": "a", "image": "busybox", "resources": {}, "imagePullPolicy": "Always",
                     "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
                    {"name": "b", "image": "x/y:1", "resources": {}, "imagePullPolicy": "IfNotPresent",
                     "ports": [{"containerPort": 1, "protocol": "TCP"}],
                     "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler"}}});
        assert_eq!(deployment["spec"], expected, "{:#}", deployment["spec"]);
    }
}
