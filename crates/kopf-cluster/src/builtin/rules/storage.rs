//! Volumes, storage classes, drivers.

pub(super) mod csi;

use serde_json::{Value, json};

use super::claims::access_modes;
use super::evaluate::Errors;
use super::pods::scheduling::NODE_SELECTOR;
use super::pods::volume_sources::*;
use super::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::quantity::Quantity;
use crate::go::{FieldError, internal};
use crate::values::names;
use Rule::{Code, Each, Forbid, If, Immutable, In, Is, Must, Needs, Required, Within};
use ValueCheck::{OneOf, Text};

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
