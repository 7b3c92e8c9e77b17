//! Claims, volumes, storage classes, drivers.

pub(super) mod csi;

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::pods::scheduling::NODE_SELECTOR;
use super::pods::volume_sources::*;
use super::selectors::LABEL_SELECTOR;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::quantity::Quantity;
use crate::go::{FieldError, internal};
use crate::values::names;
use Rule::{Code, Each, Forbid, If, Immutable, In, Is, Must, Needs, Required, Within};
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

fn access_modes(spec: &Location<'_>, errors: &mut Errors) {
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
    if super::is_empty(&before["volumeName"]) {
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

pub(super) const VOLUME: Rules = &[
    Within("spec", &[Code(|spec, errors| volume_spec(spec, false, errors))]),
    // The server reports every error in a changed volume twice.
    If(Condition::Changing, &[Within("spec", &[Code(|spec, errors| volume_spec(spec, false, errors))])]),
    If(Condition::Changing, &[Code(volume_changes)]),
];

/// The spec of a volume; some fields are forbidden where it is inline.
pub(super) fn volume_spec(spec: &Location<'_>, is_inline: bool, errors: &mut Errors) {
    const INLINE: Rules = &[
        If(Condition::Has("claimRef"), &[Forbid("claimRef", "may not be specified in the context of inline volumes")]),
        If(Condition::Has("capacity"), &[Forbid("capacity", "may not be specified in the context of inline volumes")]),
        If(Condition::Lacks("csi"), &[Needs("csi", "has to be specified in the context of inline volumes")]),
    ];
    const REST: Rules = &[
        Is("persistentVolumeReclaimPolicy", OneOf(&["Delete", "Recycle", "Retain"])),
        In(
            "nodeAffinity",
            &[Needs("required", "must specify required node constraints"), In("required", NODE_SELECTOR)],
        ),
        Code(volume_source),
        Code(recycled_root),
        Is("storageClassName", Text(names::check_subdomain)),
        Is("volumeMode", OneOf(&["Block", "Filesystem"])),
    ];
    if is_inline {
        spec.check(INLINE, errors);
    }
    spec.check(&[Required("accessModes"), Code(access_modes)], errors);
    if !is_inline {
        spec.check(&[Required("capacity"), Code(capacity)], errors);
    }
    spec.check(REST, errors);
}

fn capacity(spec: &Location<'_>, errors: &mut Errors) {
    let capacity = spec.get("capacity");
    let only_storage =
        capacity.and_then(Value::as_object).is_some_and(|map| map.len() == 1 && map.contains_key("storage"));
    if !only_storage {
        let shown = capacity.cloned().unwrap_or_default();
        errors.push(FieldError::not_supported(spec.at("capacity"), shown, &["storage".to_owned()]));
    }
    for (name, amount) in capacity.and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{}[{name}]", spec.at("capacity"));
        let Some(quantity) = Quantity::of(amount) else { continue };
        if quantity.is_negative() {
            let shown = serde_json::from_str(&quantity.to_string()).unwrap_or_else(|_| json!(quantity.to_string()));
            errors.push(FieldError::invalid(path.clone(), shown, "must be a valid resource quantity"));
        }
        if quantity.is_negative() || quantity.is_zero() {
            errors.push(FieldError::invalid(path, json!(quantity.to_string()), "must be greater than zero"));
        }
    }
}

/// The sources of volumes, in the order in which they are looked for.
const SOURCES: &[(&str, Rules)] = &[
    ("hostPath", HOST_PATH),
    ("gcePersistentDisk", GCE),
    ("awsElasticBlockStore", AWS),
    ("glusterfs", GLUSTER),
    ("flocker", FLOCKER),
    ("nfs", &[Required("server"), Required("path"), Must("path", Text(values::absolute_path))]),
    ("rbd", RBD),
    ("quobyte", QUOBYTE),
    ("cephfs", CEPH),
    ("iscsi", ISCSI),
    ("cinder", CINDER),
    ("fc", FIBRE_CHANNEL),
    ("flexVolume", FLEX),
    ("azureFile", AZURE_FILE),
    ("vsphereVolume", VSPHERE),
    ("photonPersistentDisk", PHOTON),
    ("portworxVolume", PORTWORX),
    ("azureDisk", AZURE_DISK),
    ("scaleIO", SCALE_IO),
    ("local", &[Required("path"), Is("path", Text(values::no_way_up))]),
    ("storageos", STORAGE_OS),
    ("csi", &[Required("driver"), Is("driver", Text(names::check_subdomain)), Required("volumeHandle")]),
];

fn volume_source(spec: &Location<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (field, rules) in SOURCES {
        let Some(source) = spec.enter(field) else { continue };
        found += 1;
        if found > 1 {
            errors.push(FieldError::forbidden(source.path, "may not specify more than 1 volume type"));
            continue;
        }
        source.check(rules, errors);
        if *field == "local" && spec.get("nodeAffinity").is_none() {
            errors.push(FieldError::required(spec.at("nodeAffinity"), "Local volume requires node affinity"));
        }
    }
    if found == 0 {
        errors.push(FieldError::required(spec.path.clone(), "must specify a volume type"));
    }
}

fn recycled_root(spec: &Location<'_>, errors: &mut Errors) {
    if spec.text("hostPath.path") == "/" && spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let rules: Rules =
            &[Forbid("persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")];
        spec.check(rules, errors);
    }
}

fn volume_changes(volume: &Location<'_>, errors: &mut Errors) {
    let changed = SOURCES.iter().any(|(field, _)| volume.changes(&format!("spec.{field}")));
    if let Some(old) = volume.old.filter(|_| changed) {
        let changes = internal::difference("PersistentVolumeSource", &old["spec"], &volume.value["spec"]);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{changes}");
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    if volume.changes("spec.volumeMode") {
        let value = volume.get("spec.volumeMode").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("volumeMode", value, "field is immutable"));
    }
}

pub(super) const CLASS: Rules = &[
    Required("provisioner"),
    Code(|class, errors| csi::qualified(class, "provisioner", errors)),
    Code(csi::parameters),
    Is("reclaimPolicy", OneOf(&["Delete", "Retain"])),
    Is("volumeBindingMode", OneOf(&["Immediate", "WaitForFirstConsumer"])),
    Each(
        "allowedTopologies",
        &[Each("matchLabelExpressions", &[Required("values"), Must("key", Text(names::check_qualified_name))])],
    ),
    Immutable("parameters"),
    Immutable("provisioner"),
    Immutable("reclaimPolicy"),
    Immutable("volumeBindingMode"),
];
