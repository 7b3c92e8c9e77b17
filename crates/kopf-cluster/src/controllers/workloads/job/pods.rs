//! The pods of a job: how they are made, tracked, and counted.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::workloads::objects::{is_deleted, name, number, pod_of, text, time};
use crate::controllers::workloads::plan::{Action, CONTROLLERS, JOBS, PODS, Plan};

/// Keeps pods until they are counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn pod_for(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pod_of(&job["spec"]["template"], JOBS, job);
    let mut finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(TRACKING));
    pod["metadata"]["finalizers"] = Value::Array(finalizers);
    let Some(index) = index else {
        pod["metadata"]["generateName"] = json!(format!("{}-", name(job)));
        return pod;
    };
    pod["metadata"]["generateName"] = json!(format!("{}-{index}-", name(job)));
    pod["spec"]["hostname"] = json!(format!("{}-{index}", name(job)));
    for field in ["labels", "annotations"] {
        if !pod["metadata"][field].is_object() {
            pod["metadata"][field] = json!({});
        }
        pod["metadata"][field][INDEX] = json!(index.to_string());
    }
    let variable = json!({"name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']")}}});
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            variables.push(variable.clone());
            container["env"] = Value::Array(variables);
        }
    }
    pod
}

pub(crate) fn is_tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|finalizer| finalizer == TRACKING))
}

/// How a pod has ended. A pod that was deleted before its end has failed.
pub(super) fn outcome_of(pod: &Value) -> Option<&'static str> {
    let stopped = is_deleted(pod) && number(pod, "/metadata/deletionGracePeriodSeconds") == 0;
    match text(pod, "/status/phase") {
        "Succeeded" => Some("succeeded"),
        "Failed" => Some("failed"),
        _ if stopped => Some("failed"),
        _ => None,
    }
}

/// When the last container of a pod has ended.
pub(super) fn ended(pod: &Value) -> Option<Timestamp> {
    let statuses = pod["status"]["containerStatuses"].as_array()?.iter();
    statuses.filter_map(|status| time(status, "/state/terminated/finishedAt")).max()
}

/// Removes the finalizer of the counting from pods.
pub(super) fn release<'a>(plan: &mut Plan, pods: impl Iterator<Item = &'a Value>) {
    plan.actions.extend(pods.map(release_one));
}

/// Removes the finalizer of the counting from a pod.
pub(crate) fn release_one(pod: &Value) -> Action {
    let mut object = pod.clone();
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != TRACKING);
    }
    Action::Update { api: PODS, object, manager: CONTROLLERS }
}

/// The completion index of a pod.
pub(super) fn index_of(pod: &Value) -> Option<i64> {
    pod["metadata"]["annotations"].get(INDEX)?.as_str()?.parse().ok()
}

/// `0-2,5` for the numbers 0, 1, 2 and 5.
pub(super) fn show_indexes(sorted: &[i64]) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for index in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// The numbers of `0-2,5`.
pub(super) fn read_indexes(text: &str) -> Vec<i64> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    ranges
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
        })
        .flatten()
        .collect()
}
