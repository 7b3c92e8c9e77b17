//! What may be changed about a pod that exists: next to nothing.

use serde_json::{Value, json};

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Location, Rule, Rules};
use crate::go::FieldError;
use Rule::Code;

pub(crate) const RULES: Rules = &[Code(changes)];

const FORBIDDEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn changes(pod: &Location<'_>, errors: &mut Errors) {
    let Some(old) = pod.old else { return };
    let (before, after) = (&old["spec"], &pod.value["spec"]);
    let count = |spec: &Value, list: &str| spec[list].as_array().map(Vec::len).unwrap_or_default();
    if count(before, "containers") != count(after, "containers") {
        errors.push(FieldError::forbidden("spec.containers", "pod updates may not add or remove containers"));
        return;
    }
    if count(before, "initContainers") != count(after, "initContainers") {
        errors.push(FieldError::forbidden("spec.initContainers", "pod updates may not add or remove containers"));
        return;
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in after[list].as_array().into_iter().flatten().enumerate() {
            if container["image"].as_str().is_none_or(|image| image.trim().is_empty()) {
                errors.push(FieldError::required(format!("spec.{list}[{index}].image"), ""));
            }
        }
    }
    deadline(before, after, errors);
    gates(before, after, errors);
    let mut munged = after.clone();
    for list in ["containers", "initContainers"] {
        let images = before[list].as_array().into_iter().flatten().map(|container| container["image"].clone());
        let containers = munged.get_mut(list).and_then(Value::as_array_mut);
        for (container, image) in containers.into_iter().flatten().zip(images) {
            container["image"] = image;
        }
    }
    let had_gates = before["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let mut movable = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if had_gates {
        // A pod with scheduling gates can still be directed to nodes.
        movable.extend(["nodeSelector", "affinity"]);
    }
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && after["terminationGracePeriodSeconds"] == 1
    {
        movable.push("terminationGracePeriodSeconds");
    }
    if let (Some(fields), Some(before)) = (munged.as_object_mut(), before.as_object()) {
        for field in movable {
            match before.get(field) {
                Some(value) => fields.insert(field.to_owned(), value.clone()),
                None => fields.shift_remove(field),
            };
        }
        if *fields != *before {
            errors.push(FieldError::forbidden("spec", FORBIDDEN));
        }
    }
}

fn deadline(before: &Value, after: &Value, errors: &mut Errors) {
    let (old, new) = (before["activeDeadlineSeconds"].as_i64(), after["activeDeadlineSeconds"].as_i64());
    match (old, new) {
        (Some(old), Some(new)) if new > old => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", json!(new), detail));
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", Value::Null, detail));
        }
        _ => {}
    }
}

fn gates(before: &Value, after: &Value, errors: &mut Errors) {
    let known = before["schedulingGates"].as_array().cloned().unwrap_or_default();
    for (index, gate) in after["schedulingGates"].as_array().into_iter().flatten().enumerate() {
        if !known.iter().any(|other| other["name"] == gate["name"]) {
            let name = gate["name"].as_str().unwrap_or_default();
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(format!("spec.schedulingGates[{index}].name"), detail));
        }
    }
}
