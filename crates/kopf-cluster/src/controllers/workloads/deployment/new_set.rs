//! The replica set of the current template: how it is made, and its annotations.

use serde_json::{Value, json};

use super::rollout::is_rolling;
use super::{COMPONENT, DESIRED, HASH_LABEL, MAXIMUM, Rollout, new_set_name};
use crate::controllers::workloads::objects::{
    annotation, condition, controller_reference, name, namespace, number, set_annotation, set_count,
};
use crate::controllers::workloads::plan::{Action, CONTROLLERS, DEPLOYMENTS, REPLICA_SETS};

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotations of the deployment that its replica sets do not take over.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

impl Rollout {
    /// Brings the new replica set up to date, and makes it if there is none.
    pub(super) fn find_or_make_new(&mut self) {
        self.sync_revision();
        if self.new.is_some() {
            return;
        }
        let set_name = new_set_name(&self.deployment);
        if self.taken_name.as_deref() == Some(&set_name) {
            let collisions = number(&self.deployment, "/status/collisionCount");
            self.deployment["status"]["collisionCount"] = json!(collisions + 1);
            return;
        }
        let hash = set_name.rsplit('-').next().unwrap_or_default().to_owned();
        let mut template = self.deployment["spec"]["template"].clone();
        template["metadata"]["labels"][HASH_LABEL] = json!(hash);
        let mut selector = self.deployment["spec"]["selector"].clone();
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][HASH_LABEL] = json!(hash);
        let total = self.sum("/spec/replicas");
        let replicas = self.limits.new_size(is_rolling(&self.deployment), 0, total);
        let mut set = json!({
            "metadata": {
                "name": set_name, "namespace": namespace(&self.deployment),
                "labels": template["metadata"]["labels"],
                "ownerReferences": [controller_reference(DEPLOYMENTS, &self.deployment)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        });
        let min_ready_seconds = number(&self.deployment, "/spec/minReadySeconds");
        set_count(&mut set["spec"], "minReadySeconds", min_ready_seconds);
        self.put_annotations(&mut set);
        self.put_sizes(&mut set);
        self.plan.push(Action::Create { api: REPLICA_SETS, object: set.clone(), manager: CONTROLLERS });
        if replicas > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {replicas}");
            self.plan.note(DEPLOYMENTS, &self.deployment, COMPONENT, "ScalingReplicaSet", message);
        }
        self.show_revision(&set);
        if self.deadline().is_some() {
            let message = format!("Created new replica set \"{set_name}\"");
            self.set_progress("True", "NewReplicaSetCreated", message);
        }
        self.new = Some(set);
    }

    /// The new replica set has the newest revision, and the annotations of the deployment.
    pub(super) fn sync_revision(&mut self) {
        let Some(mut new) = self.new.clone() else { return };
        self.put_annotations(&mut new);
        let min_ready_seconds = number(&self.deployment, "/spec/minReadySeconds");
        set_count(&mut new["spec"], "minReadySeconds", min_ready_seconds);
        self.show_revision(&new);
        if self.deadline().is_some() && condition(&self.deployment, "Progressing").is_none() {
            let message = format!("Found new replica set \"{}\"", name(&new));
            self.set_progress("True", "FoundNewReplicaSet", message);
        }
        self.new = Some(new);
    }

    fn put_annotations(&self, set: &mut Value) {
        for (key, value) in self.deployment["metadata"]["annotations"].as_object().into_iter().flatten() {
            if let Some(value) = value.as_str().filter(|_| !OWN_ANNOTATIONS.contains(&key.as_str())) {
                set_annotation(set, key, value);
            }
        }
        let newest = self.old.iter().map(revision_of).max().unwrap_or_default() + 1;
        let current = revision_of(set);
        if current < newest {
            if current > 0 {
                let history = annotation(set, REVISION_HISTORY).map(|known| format!("{known},")).unwrap_or_default();
                set_annotation(set, REVISION_HISTORY, &format!("{history}{current}"));
            }
            set_annotation(set, REVISION, &newest.to_string());
        }
    }

    pub(super) fn put_sizes(&self, set: &mut Value) {
        set_annotation(set, DESIRED, &self.limits.wanted.to_string());
        set_annotation(set, MAXIMUM, &(self.limits.wanted + self.limits.max_surge).to_string());
    }

    fn show_revision(&mut self, new: &Value) {
        let revision = revision_of(new).to_string();
        set_annotation(&mut self.deployment, REVISION, &revision);
    }
}

pub(super) fn revision_of(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}
