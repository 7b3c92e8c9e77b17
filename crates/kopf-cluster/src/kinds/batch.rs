//! Workloads that take over something of their pod templates.

use serde_json::{Value, json};

/// Completes a new job: it finds its pods by its own uid.
pub fn prepare_new(job: &mut Value) {
    if job["spec"]["manualSelector"] == true || !job["spec"].is_object() {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let template = &mut job["spec"]["template"];
    for field in ["metadata", "labels"] {
        let place = if field == "metadata" { &mut *template } else { &mut template["metadata"] };
        if !place[field].is_object() {
            place[field] = json!({});
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

/// Without labels of its own, a workload has those of its pods.
pub fn label_as_template(workload: &mut Value) {
    let labels = workload["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() && workload["metadata"].get("labels").is_none() {
        workload["metadata"]["labels"] = labels;
    }
}

/// Daemon sets count their templates in an annotation, for old clients.
pub fn count_templates(daemon_set: &mut Value) {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let generation = daemon_set["metadata"]["generation"].as_i64().unwrap_or(1);
    if !daemon_set["metadata"]["annotations"].is_object() {
        daemon_set["metadata"]["annotations"] = json!({});
    }
    daemon_set["metadata"]["annotations"][ANNOTATION] = json!(generation.to_string());
}

/// The claims in a stateful set are whole objects.
pub fn complete_claims(stateful_set: &mut Value) {
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
