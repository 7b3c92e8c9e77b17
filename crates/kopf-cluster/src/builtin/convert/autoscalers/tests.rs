//! The tests of `autoscalers.rs`.

use super::*;

fn first(metadata: Value, spec: Value, status: Value) -> Value {
    json!({"metadata": metadata, "spec": spec, "status": status})
}

#[test]
fn the_first_version_of_the_usual_metric() {
    let mut autoscaler =
        first(json!({"name": "a"}), json!({"maxReplicas": 3}), json!({"currentReplicas": 0, "desiredReplicas": 0}));
    to_second(&mut autoscaler);
    let expected = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": [cpu_utilization(80)]},
        "status": {"desiredReplicas": 0, "currentMetrics": null}});
    assert_eq!(autoscaler, expected);
    to_first(&mut autoscaler);
    let expected = first(
        json!({"name": "a"}),
        json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 80}),
        json!({"currentReplicas": 0, "desiredReplicas": 0}),
    );
    assert_eq!(autoscaler, expected);
}

#[test]
fn the_state_is_kept_in_an_annotation() {
    let mut autoscaler = first(
        json!({"name": "a"}),
        json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}),
        json!({"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 5}),
    );
    to_second(&mut autoscaler);
    to_first(&mut autoscaler);
    // As a real server shows it.
    let text = "[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"currentAverageUtilization\":5,\
                \"currentAverageValue\":\"0\"}}]";
    assert_eq!(autoscaler["metadata"]["annotations"], json!({CURRENT_METRICS: text}));
    assert_eq!(autoscaler["status"]["currentCPUUtilizationPercentage"], 5);
}

#[test]
fn what_the_first_version_does_not_know_survives_it() {
    let original = json!({"metadata": {"name": "a", "annotations": {"own": "kept"}},
        "spec": {"maxReplicas": 3,
            "metrics": [
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
                    "metric": {"name": "m"}, "target": {"averageValue": "2", "type": "AverageValue"}}},
                {"type": "Pods", "pods": {"metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"averageValue": "10", "type": "AverageValue"}}},
                {"type": "External", "external": {"metric": {"name": "e"},
                    "target": {"value": "7", "type": "Value"}}},
                {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
                    "target": {"averageUtilization": 50, "type": "Utilization"}}},
                cpu_utilization(60)],
            "behavior": {"scaleDown": {"selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}},
        "status": {"desiredReplicas": 1, "currentMetrics": [{"type": "Pods", "pods": {"metric": {"name": "p"},
            "current": {"averageValue": "3"}}}],
            "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": null}]}});
    let mut autoscaler = original.clone();
    to_first(&mut autoscaler);
    assert_eq!(autoscaler["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}));
    to_second(&mut autoscaler);
    assert_eq!(autoscaler, original, "{autoscaler:#}");
}
