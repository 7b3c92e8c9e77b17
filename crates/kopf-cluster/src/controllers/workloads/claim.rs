//! Claims of storage, and the volumes that they get.
//!
//! Claims of a storage class that is there get a volume made for them; claims without a class get
//! one of the volumes that fit. Nothing is stored anywhere.

use serde_json::{Value, json};

use super::objects::{is_deleted, name, namespace, remove_field, set_annotation, text, uid};
use super::plan::{Action, Api, CLAIMS, CONTROLLERS, Plan, STORAGE_CLASSES, VOLUMES};
use crate::go::quantity::Quantity;

const COMPONENT: &str = "persistentvolume-controller";
const PROVISIONER: &str = "kopf.dev/simulated";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The storage class of the cluster.
pub(super) fn initial() -> (Api, Value) {
    let class = json!({
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    (STORAGE_CLASSES, class)
}

pub(super) fn reconcile(claim: &Value, classes: &[Value], volumes: &[Value]) -> Plan {
    let mut plan = Plan::default();
    if is_deleted(claim) || text(claim, "/status/phase") == "Bound" {
        return plan;
    }
    let bound = volumes.iter().find(|volume| text(volume, "/spec/claimRef/uid") == uid(claim));
    let volume = bound.or_else(|| best(claim, volumes)).cloned();
    let class = classes.iter().find(|class| name(class) == text(claim, "/spec/storageClassName"));
    let volume = match (volume, class) {
        (Some(volume), _) => volume,
        (None, Some(class)) => {
            let volume = volume_for(claim, class);
            let message = format!("Successfully provisioned volume {}", name(&volume));
            plan.push(Action::Create { api: VOLUMES, object: volume, manager: CONTROLLERS });
            plan.note(CLAIMS, claim, COMPONENT, "ProvisioningSucceeded", message);
            // The rest is done when the volume is there.
            return plan;
        }
        // It stays pending until there is something for it.
        (None, None) => return plan,
    };
    plan.actions.extend(bind_volume(claim, &volume));
    let mut object = claim.clone();
    object["spec"]["volumeName"] = json!(name(&volume));
    set_annotation(&mut object, "pv.kubernetes.io/bind-completed", "yes");
    set_annotation(&mut object, "pv.kubernetes.io/bound-by-controller", "yes");
    if let Some(class) = class {
        let provisioner = text(class, "/provisioner").to_owned();
        set_annotation(&mut object, "volume.beta.kubernetes.io/storage-provisioner", &provisioner);
        set_annotation(&mut object, "volume.kubernetes.io/storage-provisioner", &provisioner);
    }
    if object["spec"] != claim["spec"] {
        // The status follows when this is written.
        plan.push(Action::Update { api: CLAIMS, object, manager: CONTROLLERS });
        return plan;
    }
    object["status"] = json!({"phase": "Bound", "accessModes": volume["spec"]["accessModes"],
        "capacity": {"storage": volume["spec"]["capacity"]["storage"]}});
    plan.push(Action::UpdateStatus { api: CLAIMS, object, manager: CONTROLLERS });
    plan
}

/// What becomes of a volume: free to be claimed, or to go with its claim.
pub(super) fn reconcile_volume(volume: &Value, claim: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    if is_deleted(volume) {
        return plan;
    }
    let wanted = text(volume, "/spec/claimRef/uid");
    let phase = match (wanted, claim.filter(|claim| uid(claim) == wanted)) {
        ("", _) => "Available",
        (_, Some(_)) => "Bound",
        (_, None) => "Released",
    };
    if phase == "Released" && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        plan.push(Action::Delete { api: VOLUMES, object: volume.clone(), grace_period_seconds: None });
    } else if text(volume, "/status/phase") != phase {
        plan.push(show_phase(volume, phase));
    }
    plan
}

fn show_phase(volume: &Value, phase: &str) -> Action {
    let mut object = volume.clone();
    object["status"]["phase"] = json!(phase);
    Action::UpdateStatus { api: VOLUMES, object, manager: CONTROLLERS }
}

/// Binds the volume to the claim.
fn bind_volume(claim: &Value, volume: &Value) -> Option<Action> {
    if text(volume, "/spec/claimRef/uid") == uid(claim) {
        return None;
    }
    let mut object = volume.clone();
    object["spec"]["claimRef"] = reference(claim);
    set_annotation(&mut object, "pv.kubernetes.io/bound-by-controller", "yes");
    Some(Action::Update { api: VOLUMES, object, manager: CONTROLLERS })
}

fn reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim),
        "uid": uid(claim), "resourceVersion": claim["metadata"]["resourceVersion"]})
}

/// The smallest free volume that fits, or the one that the claim names.
fn best<'a>(claim: &Value, volumes: &'a [Value]) -> Option<&'a Value> {
    let asked = text(claim, "/spec/volumeName");
    let free = |volume: &&Value| {
        let reserved = &volume["spec"]["claimRef"];
        let own = text(reserved, "/name") == name(claim) && text(reserved, "/namespace") == namespace(claim);
        !is_deleted(volume) && text(reserved, "/uid").is_empty() && (reserved.is_null() || own)
    };
    let size = |volume: &Value| text(volume, "/spec/capacity/storage").to_owned();
    let fits = |volume: &&Value| {
        let modes = volume["spec"]["accessModes"].as_array().cloned().unwrap_or_default();
        let mut wanted = claim["spec"]["accessModes"].as_array().into_iter().flatten();
        text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
            && wanted.all(|mode| modes.contains(mode))
            && compare(&size(volume), text(claim, "/spec/resources/requests/storage"))
                .is_some_and(|order| order.is_ge())
    };
    let mut candidates: Vec<&Value> = volumes.iter().filter(free).collect();
    match asked {
        "" => candidates.retain(fits),
        asked => candidates.retain(|volume| name(volume) == asked),
    }
    candidates.into_iter().min_by(|one, other| {
        compare(&size(one), &size(other)).unwrap_or(std::cmp::Ordering::Equal).then_with(|| name(one).cmp(name(other)))
    })
}

fn volume_for(claim: &Value, class: &Value) -> Value {
    let mut volume = json!({
        "metadata": {
            "name": format!("pvc-{}", uid(claim)),
            "annotations": {"pv.kubernetes.io/provisioned-by": text(class, "/provisioner")},
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
            "storageClassName": name(class), "volumeMode": claim["spec"]["volumeMode"],
            "claimRef": reference(claim),
            "hostPath": {"path": format!("/var/lib/kopf/{}_{}", namespace(claim), name(claim)), "type": "DirectoryOrCreate"},
        },
    });
    if volume["spec"]["volumeMode"].is_null() {
        remove_field(&mut volume["spec"], "volumeMode");
    }
    volume
}

/// Which of two quantities is more; None if one of them is malformed.
fn compare(one: &str, other: &str) -> Option<std::cmp::Ordering> {
    Quantity::parse(one)?.partial_cmp(&Quantity::parse(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: &str, size: &str) -> Value {
        json!({"metadata": {"name": "c", "namespace": "default", "uid": "u"},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Pending"}})
    }

    fn volume(name: &str, size: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "storageClassName": "manual",
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}})
    }

    #[test]
    fn the_smallest_volume_that_fits_is_taken() {
        let volumes = [volume("big", "10Gi"), volume("small", "500Mi"), volume("right", "2Gi")];
        let check = |claim: Value, expected: Option<&str>| {
            assert_eq!(best(&claim, &volumes).map(name), expected, "{claim}");
        };
        check(claim("manual", "1Gi"), Some("right"));
        check(claim("manual", "3Gi"), Some("big"));
        check(claim("manual", "1Ti"), None);
        check(claim("other", "1Gi"), None);
        let mut named = claim("manual", "1Gi");
        named["spec"]["volumeName"] = json!("big");
        check(named, Some("big"));
    }

    #[test]
    fn volumes_are_made_and_bound() {
        let class = json!({"metadata": {"name": "standard"}, "provisioner": "p", "reclaimPolicy": "Delete"});
        let pending = claim("standard", "1Gi");
        let plan = reconcile(&pending, std::slice::from_ref(&class), &[]);
        let Action::Create { object: made, .. } = &plan.actions[0] else { panic!("{plan:?}") };
        assert_eq!((name(made), text(made, "/spec/capacity/storage")), ("pvc-u", "1Gi"));
        let made = std::slice::from_ref(made);
        let plan = reconcile(&pending, std::slice::from_ref(&class), made);
        let [Action::Update { object: named, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
        assert_eq!(text(named, "/spec/volumeName"), "pvc-u");
        let plan = reconcile(named, std::slice::from_ref(&class), made);
        let [Action::UpdateStatus { object: bound, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
        assert_eq!(bound["status"]["phase"], "Bound");
        assert_eq!(reconcile(bound, &[class], made), Plan::default());
        assert_eq!(reconcile(&claim("nope", "1Gi"), &[], &[]), Plan::default());
    }
}
