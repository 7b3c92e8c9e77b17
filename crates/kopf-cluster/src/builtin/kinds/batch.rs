//! Workloads that take over something of their pod templates.

use serde_json::{Value, json};

pub(super) use crate::builtin::convert::TEMPLATE_GENERATION;

/// Completes a new job: it finds its pods by its own uid.
pub(super) fn prepare_new(job: &mut Value) {
    if job["spec"]["manualSelector"] == true || !job["spec"].is_object() {
        return;
    }
    let uid = job["metadata"]["uid"].clone();
    let name = json!(job["metadata"]["name"].as_str().unwrap_or_default());
    let template = &mut job["spec"]["template"];
    for field in ["metadata", "labels"] {
        let parent = if field == "metadata" { &mut *template } else { &mut template["metadata"] };
        if !parent[field].is_object() {
            parent[field] = json!({});
        }
    }
    let labels = &mut template["metadata"]["labels"];
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels[key] = value.clone();
    }
    job["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    label_as_template(job);
}

/// A workload without labels gets those of its pods.
pub(super) fn label_as_template(workload: &mut Value) {
    let labels = workload["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() && workload["metadata"].get("labels").is_none() {
        workload["metadata"]["labels"] = labels;
    }
}

/// Counts the templates of a daemon set.
pub(super) fn count_templates(daemon_set: &mut Value, old: Option<&Value>) {
    let template = |daemon_set: &Value| daemon_set["spec"]["template"].clone();
    let before = old.and_then(|old| old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str()?.parse::<i64>().ok());
    let generation = match old {
        Some(old) if template(old) == template(daemon_set) => before.unwrap_or_default(),
        Some(_) | None => before.unwrap_or_default() + 1,
    };
    put_template_generation(daemon_set, generation);
}

/// Notes a count of templates.
pub(super) fn put_template_generation(daemon_set: &mut Value, generation: i64) {
    if !daemon_set["metadata"]["annotations"].is_object() {
        daemon_set["metadata"]["annotations"] = json!({});
    }
    daemon_set["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
}

/// The allocatable resources of a node default to its capacity.
pub(super) fn complete_node(node: &mut Value) {
    let capacity = node["status"]["capacity"].clone();
    if capacity.is_object() && node["status"].get("allocatable").is_none() {
        node["status"]["allocatable"] = capacity;
    }
}

/// The claims in a stateful set are whole objects.
pub(super) fn complete_claims(stateful_set: &mut Value) {
    let templates = stateful_set["spec"].get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten().filter(|template| template.is_object()) {
        template["apiVersion"] = json!("v1");
        template["kind"] = json!("PersistentVolumeClaim");
        if template["spec"].is_object() && template["spec"].get("volumeMode").is_none() {
            template["spec"]["volumeMode"] = json!("Filesystem");
        }
        if template["status"].get("phase").is_none() {
            template["status"] = json!({"phase": "Pending"});
        }
    }
}
