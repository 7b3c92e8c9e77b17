//! Volumes of pods, by their sources.

use serde_json::{Value, json};

use super::containers;
use super::volume_sources::*;
use crate::builtin::rules::claims::CLAIM_SPEC;
use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use crate::go::quantity::Quantity;
use crate::values::names;
use Rule::{Code, Each, Given, If, In, Is, Must, Required, Unique, Within};
use ValueCheck::{OneOf, Text};

pub(crate) const VOLUME: Rules =
    &[Code(source), Required("name"), Is("name", Text(names::check_label)), Unique("name")];

/// All sources, in the order in which they are looked for; one of them must be there.
const SOURCES: &[(&str, Rules)] = &[
    ("emptyDir", &[Code(size_limit)]),
    ("hostPath", HOST_PATH),
    ("gitRepo", GIT),
    ("gcePersistentDisk", GCE),
    ("awsElasticBlockStore", AWS),
    ("secret", SECRET),
    ("nfs", NFS),
    ("iscsi", ISCSI),
    ("glusterfs", GLUSTER),
    ("flocker", FLOCKER),
    ("persistentVolumeClaim", CLAIM),
    ("rbd", RBD),
    ("cinder", CINDER),
    ("cephfs", CEPH),
    ("quobyte", QUOBYTE),
    ("downwardAPI", DOWNWARD),
    ("fc", FIBRE_CHANNEL),
    ("flexVolume", FLEX),
    ("configMap", CONFIG_MAP),
    ("azureFile", AZURE_FILE),
    ("vsphereVolume", VSPHERE),
    ("photonPersistentDisk", PHOTON),
    ("portworxVolume", PORTWORX),
    ("azureDisk", AZURE_DISK),
    ("storageos", STORAGE_OS),
    ("projected", PROJECTED),
    ("scaleIO", SCALE_IO),
    ("csi", CSI),
    ("ephemeral", EPHEMERAL),
    ("image", IMAGE),
];

fn source(volume: &Location<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (field, rules) in SOURCES {
        let Some(source) = volume.enter(field) else { continue };
        found += 1;
        match found {
            1 => source.check(rules, errors),
            _ => errors.push(FieldError::forbidden(source.path, "may not specify more than 1 volume type")),
        }
    }
    if found == 0 {
        errors.push(FieldError::required(volume.path.clone(), "must specify a volume type"));
    }
}

fn size_limit(directory: &Location<'_>, errors: &mut Errors) {
    let limit = directory.get("sizeLimit").and_then(Quantity::of);
    if limit.is_some_and(Quantity::is_negative) {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(directory.at("sizeLimit"), detail));
    }
}

const SECRET: Rules = &[Required("secretName"), Given("defaultMode", MODE), Each("items", KEY_TO_PATH)];
const CONFIG_MAP: Rules = &[Required("name"), Given("defaultMode", MODE), Each("items", KEY_TO_PATH)];
const MODE: ValueCheck = ValueCheck::Mode;

const KEY_TO_PATH: Rules =
    &[Required("key"), Required("path"), Is("path", Text(values::file_path)), Given("mode", MODE)];

const DOWNWARD: Rules = &[Given("defaultMode", MODE), Code(downward_items)];

/// The server reports errors in the items at the volume.
fn downward_items(downward: &Location<'_>, errors: &mut Errors) {
    for item in downward.list("items") {
        downward.reported_here(item).check(DOWNWARD_ITEM, errors);
    }
}

const DOWNWARD_ITEM: Rules = &[
    Required("path"),
    Is("path", Text(values::file_path)),
    In("fieldRef", &[Code(containers::volume_field_reference)]),
    If(Condition::Lacks("fieldRef"), &[In("resourceFieldRef", &[Code(containers::volume_resource_reference)])]),
    Code(one_downward_source),
    Given("mode", MODE),
];

fn one_downward_source(item: &Location<'_>, errors: &mut Errors) {
    match (item.get("fieldRef").is_some(), item.get("resourceFieldRef").is_some()) {
        (false, false) => {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(item.path.clone(), detail));
        }
        (true, true) => {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(item.path.clone(), json!("resource"), detail));
        }
        _ => {}
    }
}

const PROJECTED: Rules = &[Given("defaultMode", MODE), Code(projected_sources)];

fn projected_sources(projected: &Location<'_>, errors: &mut Errors) {
    let mut paths: Vec<String> = Vec::new();
    projected.items("sources", |source| {
        let mut found = 0;
        for field in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"] {
            let Some(part) = source.enter(field) else { continue };
            found += 1;
            if found > 1 {
                continue;
            }
            match field {
                "secret" | "configMap" => {
                    part.check(&[Required("name"), Each("items", KEY_TO_PATH)], errors);
                    for item in part.list("items") {
                        taken(projected, &mut paths, item, part.text("name"), errors);
                    }
                }
                "downwardAPI" => {
                    part.items("items", |item| item.check(DOWNWARD_ITEM, errors));
                    for item in part.list("items") {
                        taken(projected, &mut paths, item, "", errors);
                    }
                }
                "serviceAccountToken" => token(projected, &part, &mut paths, errors),
                _ => part.check(&[Required("path"), Is("path", Text(values::file_path))], errors),
            }
        }
        if found > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(source.path.clone(), detail));
        }
    });
}

fn taken(projected: &Location<'_>, paths: &mut Vec<String>, item: &Value, name: &str, errors: &mut Errors) {
    let Some(path) = item["path"].as_str().filter(|path| !path.is_empty()) else { return };
    if paths.iter().any(|known| known == path) {
        errors.push(FieldError::invalid(projected.path.clone(), json!(name), "conflicting duplicate paths"));
    }
    paths.push(path.to_owned());
}

fn token(projected: &Location<'_>, token: &Location<'_>, paths: &mut Vec<String>, errors: &mut Errors) {
    let seconds = token.number("expirationSeconds").unwrap_or(3600);
    if seconds < 600 {
        errors.push(token.invalid("expirationSeconds", "may not specify a duration less than 10 minutes"));
    } else if seconds > 1 << 32 {
        errors.push(token.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds"));
    }
    let path = token.text("path");
    if path.is_empty() {
        errors.push(FieldError::required(projected.at("path"), ""));
    }
    for problem in values::file_path(path) {
        errors.push(FieldError::invalid(projected.at("path"), json!(path), problem));
    }
    taken(projected, paths, token.value, "", errors);
}

const CSI: Rules =
    &[Required("driver"), Is("driver", Text(names::check_subdomain)), In("nodePublishSecretRef", &[Required("name")])];

const IMAGE: Rules = &[Required("reference"), Is("pullPolicy", OneOf(&["Always", "IfNotPresent", "Never"]))];

const EPHEMERAL: Rules = &[Required("volumeClaimTemplate"), In("volumeClaimTemplate", &[Within("spec", CLAIM_SPEC)])];

const CLAIM: Rules = &[Required("claimName")];

const NFS: Rules = &[Required("server"), Required("path"), Must("path", Text(values::absolute_path))];
