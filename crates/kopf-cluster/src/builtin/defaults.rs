//! Defaults of built-in kinds, as far as clients observe them.
//!
//! The published schemas of built-in kinds name almost none: in a real server they are code.
//! Here they are tables of paths and values, in `builtin/defaults/tables.rs`; those that depend on other
//! fields are in `builtin/defaults/conditional.rs`. `admit.rs` fills them in before anything is checked.

mod tables;
pub(crate) mod conditional;

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use tables::{CONTAINER, KINDS, POD};

/// Sets the defaults of an object of a built-in kind.
pub(crate) fn fill_in(resource: &ResourceType, object: &mut Value) {
    let name = resource.qualified();
    if resource.custom().is_none() {
        conditional::fill_in_first(resource, object);
    }
    for (kind, paths) in KINDS {
        if *kind == name {
            fill_all(object, paths);
        }
    }
    let pod = match name {
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
    if resource.custom().is_none() {
        conditional::fill_in(resource, object);
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
        (None, "") => match (first.strip_suffix('?'), first.strip_suffix('!')) {
            // A volume without any source.
            (Some(only), _) if value.as_object().is_some_and(|fields| fields.len() == 1) => put(value, only, default),
            (Some(_), _) => {}
            (None, Some(field)) => {
                if value.get(field).and_then(Value::as_i64) == Some(0) {
                    value[field] = Value::Null;
                }
                put(value, field, default);
            }
            (None, None) => put(value, first, default),
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
