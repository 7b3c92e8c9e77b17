//! Autoscalers in their first version, which knows one metric: how busy the processors are.
//!
//! They are stored in their second version. What the first one has no field for is shown in
//! annotations, as text, so that it survives when the object is written back.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::builtin::defaults::conditional::cpu_utilization;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What stands for fields, and is never anybody's own annotation.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
/// The default target.
const DEFAULT_PERCENT: i64 = 80;

/// Whether a field of the first version is always there, be it zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Optional,
    Name,
    Quantity,
}

use Presence::{Name, Optional, Quantity};

/// A source of metrics, and how its fields are called in the first version and in the second one.
type Source = (&'static str, &'static [(&'static str, &'static str, Presence)]);

const SOURCES: &[Source] = &[
    (
        "object",
        &[
            ("target", "describedObject", Name),
            ("metricName", "metric.name", Name),
            ("targetValue", "target.value", Quantity),
            ("selector", "metric.selector", Optional),
            ("averageValue", "target.averageValue", Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", Name),
            ("targetAverageValue", "target.averageValue", Quantity),
            ("selector", "metric.selector", Optional),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", Name),
            ("targetAverageUtilization", "target.averageUtilization", Optional),
            ("targetAverageValue", "target.averageValue", Optional),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", Name),
            ("targetAverageUtilization", "target.averageUtilization", Optional),
            ("targetAverageValue", "target.averageValue", Optional),
            ("container", "container", Name),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", Name),
            ("metricSelector", "metric.selector", Optional),
            ("targetValue", "target.value", Optional),
            ("targetAverageValue", "target.averageValue", Optional),
        ],
    ),
];

const STATES: &[Source] = &[
    (
        "object",
        &[
            ("target", "describedObject", Name),
            ("metricName", "metric.name", Name),
            ("currentValue", "current.value", Quantity),
            ("selector", "metric.selector", Optional),
            ("averageValue", "current.averageValue", Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", Name),
            ("currentAverageValue", "current.averageValue", Quantity),
            ("selector", "metric.selector", Optional),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", Name),
            ("currentAverageUtilization", "current.averageUtilization", Optional),
            ("currentAverageValue", "current.averageValue", Quantity),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", Name),
            ("currentAverageUtilization", "current.averageUtilization", Optional),
            ("currentAverageValue", "current.averageValue", Quantity),
            ("container", "container", Name),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", Name),
            ("metricSelector", "metric.selector", Optional),
            ("currentValue", "current.value", Quantity),
            ("currentAverageValue", "current.averageValue", Optional),
        ],
    ),
];

/// How the fields of the behaviour are called in its text.
const RULES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];
const DIRECTIONS: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];

/// From the second version to the first one.
pub(super) fn to_first(autoscaler: &mut Value) {
    drop_annotations(autoscaler);
    let metrics = take(autoscaler, "spec", "metrics");
    let behavior = take(autoscaler, "spec", "behavior");
    let current = take(autoscaler, "status", "currentMetrics");
    let conditions = take(autoscaler, "status", "conditions");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (metrics, current, conditions) = (list(&metrics), list(&current), list(&conditions));
    if let Some(percent) = metrics.iter().find_map(|metric| utilization(metric, "target")) {
        autoscaler["spec"]["targetCPUUtilizationPercentage"] = percent;
    }
    if let Some(percent) = current.iter().rev().find_map(|metric| utilization(metric, "current")) {
        autoscaler["status"]["currentCPUUtilizationPercentage"] = percent;
    }
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert(json!(0));
        }
    }
    let others = metrics.iter().filter(|metric| utilization(metric, "target").is_none());
    let others: Vec<Value> = others.map(|metric| older_metric(metric, SOURCES)).collect();
    annotate(autoscaler, METRICS, &Value::Array(others));
    let current = current.iter().map(|metric| older_metric(metric, STATES)).collect();
    annotate(autoscaler, CURRENT_METRICS, &Value::Array(current));
    annotate(autoscaler, BEHAVIOR, &older_behavior(&behavior));
    annotate(autoscaler, CONDITIONS, &Value::Array(conditions.iter().map(ordered_condition).collect()));
}

/// From the first version to the second one.
pub(super) fn to_second(autoscaler: &mut Value) {
    let annotation = |name: &str| {
        let text = autoscaler["metadata"]["annotations"].get(name).and_then(Value::as_str)?;
        serde_json::from_str::<Value>(text).ok()
    };
    let (others, current) = (annotation(METRICS), annotation(CURRENT_METRICS));
    let (behavior, conditions) = (annotation(BEHAVIOR), annotation(CONDITIONS));
    drop_annotations(autoscaler);
    let newer = |list: &Value, sources: &'static [Source]| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(|metric| newer_metric(metric, sources)).collect()
    };
    let mut metrics = others.map(|others| newer(&others, SOURCES)).unwrap_or_default();
    let percent = take(autoscaler, "spec", "targetCPUUtilizationPercentage");
    if let Some(percent) = percent.as_i64() {
        metrics.push(cpu_utilization(percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu_utilization(DEFAULT_PERCENT));
    }
    if autoscaler["spec"].is_object() {
        autoscaler["spec"]["metrics"] = Value::Array(metrics);
        if let Some(behavior) = behavior.as_ref().map(newer_behavior).filter(|found| found.is_object()) {
            autoscaler["spec"]["behavior"] = behavior;
        }
    }
    let percent = take(autoscaler, "status", "currentCPUUtilizationPercentage");
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        status.retain(|name, value| !(name == "currentReplicas" && *value == 0));
        let busy = percent.as_i64().map(|percent| {
            vec![json!({"type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})]
        });
        let current = current.map(|current| newer(&current, STATES)).or(busy);
        status.insert("currentMetrics".into(), current.map_or(Value::Null, Value::Array));
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
}

/// How busy the processors are or shall be, if the metric is about that.
fn utilization(metric: &Value, field: &str) -> Option<Value> {
    let resource = (metric["type"] == "Resource").then(|| &metric["resource"])?;
    let percent = &resource[field]["averageUtilization"];
    (resource["name"] == "cpu" && percent.is_i64()).then(|| percent.clone())
}

fn older_metric(metric: &Value, sources: &[Source]) -> Value {
    let mut older = json!({"type": metric["type"]});
    for (name, fields) in sources {
        let Some(source) = metric.get(name).filter(|source| source.is_object()) else { continue };
        let mut made = Map::new();
        for (first, second, need) in *fields {
            let value = second.split('.').try_fold(source, |value, part| value.get(part));
            match (value.filter(|value| !value.is_null()), need) {
                (Some(value), _) if *first == "target" => made.insert((*first).into(), ordered_reference(value)),
                (Some(value), _) => made.insert((*first).into(), value.clone()),
                (None, Presence::Optional) => None,
                (None, Presence::Name) => made.insert((*first).into(), json!("")),
                (None, Presence::Quantity) => made.insert((*first).into(), json!("0")),
            };
        }
        older[*name] = Value::Object(made);
    }
    older
}

fn newer_metric(metric: &Value, sources: &[Source]) -> Value {
    let mut newer = json!({"type": metric["type"]});
    for (name, fields) in sources {
        let Some(source) = metric.get(name).filter(|source| source.is_object()) else { continue };
        let mut made = json!({});
        for (first, second, _) in *fields {
            let Some(value) = source.get(first).filter(|value| !value.is_null()) else { continue };
            // The first version cannot leave the value of an object out.
            let filler = *second == "target.value" && *name == "object" && source.get("averageValue").is_some();
            if filler && value == "0" {
                continue;
            }
            match second.split_once('.') {
                Some((outer, inner)) => made[outer][inner] = value.clone(),
                None => made[*second] = value.clone(),
            }
        }
        if made.get("target").is_some() {
            made["target"]["type"] = json!(target_type(&made["target"]));
        }
        newer[*name] = made;
    }
    newer
}

/// The type of a target, which the first version does not have.
fn target_type(target: &Value) -> &'static str {
    match () {
        () if target.get("averageUtilization").is_some() => "Utilization",
        () if target.get("averageValue").is_some() => "AverageValue",
        () => "Value",
    }
}

fn older_behavior(behavior: &Value) -> Value {
    if !behavior.is_object() {
        return Value::Null;
    }
    let rules = |value: &Value| match value.is_object() {
        false => Value::Null,
        true => {
            let mut made = renamed(value, &RULES);
            let policies = value["policies"].as_array();
            made["Policies"] =
                policies.map_or(Value::Null, |list| list.iter().map(|one| renamed(one, &POLICY)).collect());
            made
        }
    };
    DIRECTIONS.iter().map(|(text, field)| ((*text).to_owned(), rules(&behavior[*field]))).collect::<Map<_, _>>().into()
}

fn newer_behavior(behavior: &Value) -> Value {
    let mut made = Map::new();
    for (text, field) in DIRECTIONS {
        let rules = &behavior[text];
        if !rules.is_object() {
            continue;
        }
        let mut newer = Map::new();
        for (text, field) in RULES {
            match (&rules[text], field) {
                (Value::Null, _) => {}
                (Value::Array(policies), "policies") => {
                    let policy = |one: &Value| -> Value {
                        POLICY.iter().map(|(text, field)| ((*field).to_owned(), one[*text].clone())).collect()
                    };
                    newer.insert(field.into(), policies.iter().map(policy).collect());
                }
                (value, _) => {
                    newer.insert(field.into(), value.clone());
                }
            }
        }
        made.insert(field.into(), Value::Object(newer));
    }
    if made.is_empty() { Value::Null } else { Value::Object(made) }
}

fn renamed(value: &Value, names: &[(&str, &str)]) -> Value {
    names.iter().map(|(text, field)| ((*text).to_owned(), value[*field].clone())).collect::<Map<_, _>>().into()
}

fn ordered_reference(reference: &Value) -> Value {
    ordered(reference, &["kind", "name"], &["apiVersion"])
}

fn ordered_condition(condition: &Value) -> Value {
    ordered(condition, &["type", "status", "lastTransitionTime"], &["reason", "message"])
}

/// The same fields in the order in which texts show them.
fn ordered(value: &Value, always: &[&str], if_any: &[&str]) -> Value {
    let mut made = Map::new();
    for field in always.iter().chain(if_any) {
        let found = value.get(field).cloned().unwrap_or_default();
        if always.contains(field) || !(found.is_null() || found == "") {
            made.insert((*field).to_owned(), found);
        }
    }
    Value::Object(made)
}

fn take(object: &mut Value, part: &str, field: &str) -> Value {
    let fields = object.get_mut(part).and_then(Value::as_object_mut);
    fields.and_then(|fields| fields.shift_remove(field)).unwrap_or_default()
}

fn annotate(object: &mut Value, name: &str, value: &Value) {
    if value.is_null() || value.as_array().is_some_and(Vec::is_empty) {
        return;
    }
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][name] = json!(value.to_string());
}

fn drop_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    let before = annotations.len();
    annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.shift_remove("annotations");
    }
}
