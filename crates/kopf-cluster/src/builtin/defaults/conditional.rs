//! Defaults that depend on other fields of an object.

use serde_json::{Map, Value, json};

use super::{fill_all, put};
use crate::catalog::ResourceType;

const ACCESS_GROUP: &str = "rbac.authorization.k8s.io";
/// For how long a client is led to the same pod.
const AFFINITY_SECONDS: i64 = 10_800;

/// Sets the defaults that depend on other fields.
pub(crate) fn fill_in(resource: &ResourceType, object: &mut Value) {
    match resource.qualified() {
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
        "services" => fill_service(object),
        "limitranges" => fill_limits(object),
        "networkpolicies.networking.k8s.io" => fill_policy_types(object),
        "csidrivers.storage.k8s.io" => {
            if let Some(spec) = object.get_mut("spec") {
                fill_list(spec, "volumeLifecycleModes", json!(["Persistent"]));
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            fill_subjects(object);
        }
        "horizontalpodautoscalers.autoscaling" if resource.version != "v1" => fill_autoscaler(object),
        _ => {}
    }
}

/// Fills in what the table for jobs must not see filled in already.
pub(crate) fn fill_in_first(resource: &ResourceType, object: &mut Value) {
    if !resource.is("batch", "jobs") || !object["spec"].is_object() {
        return;
    }
    let spec = &mut object["spec"];
    let missing = |field: &str| spec.get(field).is_none_or(Value::is_null);
    if missing("completions") && missing("parallelism") {
        put(spec, "completions", &json!(1));
    }
    if spec.get("backoffLimitPerIndex").is_some_and(|limit| !limit.is_null()) {
        put(spec, "backoffLimit", &json!(i32::MAX));
    }
    if spec.get("podFailurePolicy").is_some_and(Value::is_object) {
        put(spec, "podReplacementPolicy", &json!("Failed"));
    }
}

/// Fills in a list where there is none, or an empty one.
fn fill_list(parent: &mut Value, field: &str, default: Value) {
    if let Value::Object(fields) = parent
        && fields.get(field).is_none_or(|list| list.as_array().is_none_or(Vec::is_empty))
    {
        fields.insert(field.to_owned(), default);
    }
}

/// The target port of a service defaults to its port.
fn fill_service(service: &mut Value) {
    let kind = service["spec"]["type"].as_str().unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        put(&mut service["spec"], "externalTrafficPolicy", &json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        put(&mut service["spec"], "allocateLoadBalancerNodePorts", &json!(true));
    }
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").and_then(Value::as_i64) == Some(0) {
            port["targetPort"] = Value::Null;
        }
        put(port, "targetPort", &same);
    }
    match spec["sessionAffinity"].as_str() {
        Some("None") => {
            if let Value::Object(fields) = spec {
                fields.shift_remove("sessionAffinityConfig");
            }
        }
        Some("ClientIP") if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
        _ => {}
    }
    if spec["type"] != "ExternalName" {
        put(spec, "internalTrafficPolicy", &json!("Cluster"));
    }
}

/// The requests of containers default to their limits.
fn fill_limits(range: &mut Value) {
    for item in range.pointer_mut("/spec/limits").and_then(Value::as_array_mut).into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let source = item[from].as_object().cloned().unwrap_or_default();
            for (name, amount) in source {
                if !item[to].is_object() {
                    item[to] = Value::Object(Map::new());
                }
                put(&mut item[to], &name, &amount);
            }
        }
    }
}

fn fill_policy_types(policy: &mut Value) {
    let egress = policy["spec"]["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    if let Some(spec) = policy.get_mut("spec") {
        fill_list(spec, "policyTypes", types);
    }
}

fn fill_subjects(binding: &mut Value) {
    for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            put(subject, "apiGroup", &json!(ACCESS_GROUP));
        }
    }
}

fn fill_autoscaler(autoscaler: &mut Value) {
    let Some(spec) = autoscaler.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    fill_list(spec, "metrics", json!([cpu_utilization(80)]));
    if !spec["behavior"].is_object() {
        return;
    }
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (field, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        put(&mut spec["behavior"], field, &json!({}));
        for (name, default) in defaults.as_object().into_iter().flatten() {
            put(&mut spec["behavior"][field], name, default);
        }
    }
}

/// The default metric of autoscalers.
pub(crate) fn cpu_utilization(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    /// The defaults of what is given, and what they must be.
    #[test]
    fn what_depends_on_other_fields() {
        let catalog = Catalog::built_in();
        for (group, version, plural, given, expected) in [
            (
                "networking.k8s.io",
                "v1",
                "networkpolicies",
                json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}),
                json!({"spec": {"egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
                    "policyTypes": ["Ingress", "Egress"]}}),
            ),
            (
                "networking.k8s.io",
                "v1",
                "networkpolicies",
                json!({"spec": {"policyTypes": ["Egress"]}}),
                json!({"spec": {"policyTypes": ["Egress"]}}),
            ),
            (
                "rbac.authorization.k8s.io",
                "v1",
                "rolebindings",
                json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s"}]}),
                json!({"roleRef": {"kind": "Role", "name": "r", "apiGroup": ACCESS_GROUP},
                    "subjects": [{"kind": "User", "name": "u", "apiGroup": ACCESS_GROUP},
                        {"kind": "ServiceAccount", "name": "s"}]}),
            ),
            (
                "flowcontrol.apiserver.k8s.io",
                "v1",
                "prioritylevelconfigurations",
                json!({"spec": {"limited": {"nominalConcurrencyShares": 0,
                    "limitResponse": {"queuing": {"queues": 0, "handSize": 3}}}}}),
                json!({"spec": {"limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0,
                    "limitResponse": {"queuing": {"queues": 64, "handSize": 3, "queueLengthLimit": 50}}}}}),
            ),
            (
                "autoscaling",
                "v2",
                "horizontalpodautoscalers",
                json!({"spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}}),
                json!({"spec": {"minReplicas": 1, "metrics": [cpu_utilization(80)], "behavior": {
                    "scaleUp": {"selectPolicy": "Min", "stabilizationWindowSeconds": 0,
                        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15},
                            {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                    "scaleDown": {"selectPolicy": "Max",
                        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}}}),
            ),
            (
                "autoscaling",
                "v1",
                "horizontalpodautoscalers",
                json!({"spec": {"maxReplicas": 3}}),
                json!({"spec": {"maxReplicas": 3, "minReplicas": 1}}),
            ),
            (
                "",
                "v1",
                "limitranges",
                json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}}),
                json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"},
                    "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}]}}),
            ),
        ] {
            let mut object = given;
            crate::builtin::defaults::fill_in(catalog.get(group, version, plural).unwrap(), &mut object);
            assert_eq!(object, expected, "{plural}: {object:#}");
        }
    }

    #[test]
    fn jobs_of_several_pods_have_no_fixed_number_of_completions() {
        let catalog = Catalog::built_in();
        for (spec, completions, backoff, replacement) in [
            (json!({}), json!(1), 6, "TerminatingOrFailed"),
            (json!({"parallelism": 3}), Value::Null, 6, "TerminatingOrFailed"),
            (
                json!({"completions": 3, "backoffLimitPerIndex": 1}),
                json!(3),
                i64::from(i32::MAX),
                "TerminatingOrFailed",
            ),
            (json!({"podFailurePolicy": {"rules": []}}), json!(1), 6, "Failed"),
        ] {
            let mut job = json!({"spec": spec});
            crate::builtin::defaults::fill_in(catalog.get("batch", "v1", "jobs").unwrap(), &mut job);
            assert_eq!(job["spec"]["completions"], completions, "{job:#}");
            assert_eq!(job["spec"]["backoffLimit"], backoff, "{job:#}");
            assert_eq!(job["spec"]["podReplacementPolicy"], replacement, "{job:#}");
        }
    }
}
