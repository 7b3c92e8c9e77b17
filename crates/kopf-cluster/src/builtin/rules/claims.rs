//! Persistent volume claims, as objects and as templates in pods and stateful sets.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::selectors::LABEL_SELECTOR;
use super::{Condition, Location, Rule, Rules, ValueCheck, is_empty};
use crate::go::quantity::Quantity;
use crate::go::{FieldError, internal};
use crate::values::names;
use Rule::{Code, If, In, Is, Needs, Within};
use ValueCheck::{OneOf, Text};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) const CLAIM: Rules = &[Within("spec", CLAIM_SPEC), If(Condition::Changing, &[Code(claim_changes)])];

/// The spec of a claim; also in templates.
pub(super) const CLAIM_SPEC: Rules = &[
    Needs("accessModes", "at least 1 access mode is required"),
    In("selector", LABEL_SELECTOR),
    Code(access_modes),
    Code(claimed_storage),
    Is("storageClassName", Text(names::check_subdomain)),
    Is("volumeMode", OneOf(&["Block", "Filesystem"])),
    Is("volumeAttributesClassName", Text(names::check_subdomain)),
];

pub(super) const CLAIM_STATUS: Rules = &[Code(|claim, errors| quantities(claim, "status.capacity", errors))];

/// Shared with volumes.
pub(super) fn access_modes(spec: &Location<'_>, errors: &mut Errors) {
    let modes = spec.list("accessModes");
    for mode in modes.iter().filter(|mode| !mode.as_str().is_some_and(|mode| MODES.contains(&mode))) {
        errors.push(FieldError::not_supported(spec.at("accessModes"), mode.clone(), &MODES.map(str::to_owned)));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(spec.at("accessModes"), detail));
    }
}

fn claimed_storage(spec: &Location<'_>, errors: &mut Errors) {
    let path = format!("{}[storage]", spec.at("resources"));
    match spec.get("resources.requests.storage").and_then(Quantity::of) {
        None => errors.push(FieldError::required(path, "")),
        Some(size) if size.is_negative() || size.is_zero() => {
            errors.push(FieldError::invalid(path, json!(size.to_string()), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

fn quantities(object: &Location<'_>, field: &str, errors: &mut Errors) {
    for (name, amount) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
        if let Some(quantity) = Quantity::of(amount).filter(|quantity| quantity.is_negative()) {
            let path = format!("{field}[{name}]");
            let shown = serde_json::from_str(&quantity.to_string()).unwrap_or_else(|_| json!(quantity.to_string()));
            errors.push(FieldError::invalid(path, shown, "must be a valid resource quantity"));
        }
    }
}

/// Claims are immutable, except that they can be bound, and bound ones can grow.
fn claim_changes(claim: &Location<'_>, errors: &mut Errors) {
    let Some(old) = claim.old else { return };
    let (before, after) = (&old["spec"], &claim.value["spec"]);
    let (mut was, mut is) = (before.clone(), after.clone());
    let is_bound = claim.value["status"]["phase"] == "Bound";
    if is_empty(&before["volumeName"]) {
        restore(&mut was, after, "volumeName");
    }
    if before["storageClassName"].is_null() {
        restore(&mut is, before, "storageClassName");
    }
    if is_bound {
        if is["resources"]["requests"].is_object() {
            restore(&mut is["resources"]["requests"], &before["resources"]["requests"], "storage");
        }
        restore(&mut is, before, "volumeAttributesClassName");
    }
    if is != was {
        let changes = internal::difference("PersistentVolumeClaimSpec", &was, &is);
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                      bound claims";
        errors.push(FieldError::forbidden("spec", format!("{detail}\n{changes}")));
    }
    // A missing quantity is less than any other, and equals none.
    let size = |amounts: &Value| Quantity::of(&amounts["storage"]);
    let (asked, given) = (size(&after["resources"]["requests"]), size(&old["status"]["capacity"]));
    if asked < size(&before["resources"]["requests"]) && asked <= given {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    if after["volumeMode"] != before["volumeMode"] {
        errors.push(FieldError::invalid("volumeMode", after["volumeMode"].clone(), "field is immutable"));
    }
}

fn restore(target: &mut Value, source: &Value, field: &str) {
    if let Some(fields) = target.as_object_mut() {
        match source.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.shift_remove(field),
        };
    }
}
