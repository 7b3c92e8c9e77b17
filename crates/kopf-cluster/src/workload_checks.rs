//! What is checked about workloads beyond their schemas, as far as people run into it.
//!
//! In a real server these are thousands of lines of code; here are the complaints that a first
//! try of a manifest meets. `kinds.rs` calls it for all built-in kinds.

use serde_json::{Value, json};

use crate::catalog::ResourceType;
use crate::schema::FieldError;

pub fn check(resource: &ResourceType, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match resource.qualified().as_str() {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            let mut errors = check_selector(object, old);
            errors.extend(check_pod(&object["spec"]["template"]["spec"], "spec.template.spec"));
            errors
        }
        "jobs.batch" => check_pod(&object["spec"]["template"]["spec"], "spec.template.spec"),
        "cronjobs.batch" => {
            let path = "spec.jobTemplate.spec.template.spec";
            check_pod(&object["spec"]["jobTemplate"]["spec"]["template"]["spec"], path)
        }
        "pods" if old.is_none() => check_pod(&object["spec"], "spec"),
        "services"
            if object["spec"]["ports"].as_array().is_none_or(Vec::is_empty)
                && object["spec"]["clusterIP"] != "None"
                && object["spec"]["type"] != "ExternalName" =>
        {
            vec![FieldError::required("spec.ports", "")]
        }
        _ => Vec::new(),
    }
}

/// The selector must be there, must fit the template, and must stay as it is.
fn check_selector(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let selector = &object["spec"]["selector"];
    if let Some(old) = old {
        return match old["spec"]["selector"] == *selector {
            true => Vec::new(),
            false => {
                vec![FieldError::invalid("spec.selector", selector.clone(), "field is immutable")]
            }
        };
    }
    let mut errors = Vec::new();
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let expected = selector["matchLabels"].as_object();
    let fits = !selector.is_null()
        && expected.into_iter().flatten().all(|(key, value)| labels.get(key).is_some_and(|label| label == value));
    if !fits {
        let shown = if labels.is_null() { Value::Null } else { labels.clone() };
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
    }
    errors
}

fn check_pod(spec: &Value, path: &str) -> Vec<FieldError> {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        return vec![FieldError::required(format!("{path}.containers"), "")];
    }
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let field = |name: &str| format!("{path}.containers[{index}].{name}");
        match container["name"].as_str().unwrap_or_default() {
            "" => errors.push(FieldError::required(field("name"), "")),
            name => {
                for problem in crate::names::check_label(name) {
                    errors.push(FieldError::invalid(field("name"), json!(name), problem));
                }
                if names.contains(&name) {
                    errors.push(FieldError::duplicate(field("name"), json!(name)));
                }
                names.push(name);
            }
        }
        if container["image"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(field("image"), ""));
        }
    }
    errors
}
