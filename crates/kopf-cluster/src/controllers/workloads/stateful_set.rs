//! Stateful sets: numbered pods with persistent claims, created one after the other.
//!
//! The driver calls it with the pods and the revisions that the set controls, and the names of the
//! claims that are there.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{available_from, is_deleted, is_over, is_ready, name, namespace, number, pod_of, text};
use super::plan::{Action, CLAIMS, CONTROLLERS, PODS, Plan, STATEFUL_SETS};
use super::revisions::{self, Revisions};

const COMPONENT: &str = "statefulset-controller";
const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn reconcile(
    now: Timestamp,
    set: &Value,
    pods: Vec<Value>,
    known: Vec<Value>,
    claims: &BTreeSet<String>,
) -> Plan {
    let mut revisions = revisions::record(STATEFUL_SETS, set, known);
    let current = revisions.all.iter().find(|revision| name(revision) == text(set, "/status/currentRevision"));
    let current = current.unwrap_or(&revisions.update).clone();
    let mut plan = Plan { actions: std::mem::take(&mut revisions.actions), wake: None };
    let mut reconciler = StatefulSetReconciler {
        now,
        set,
        current,
        revisions,
        claims,
        by_number: BTreeMap::new(),
        current_pods: 0,
        plan: Plan::default(),
    };
    for pod in pods {
        if let Some(number) = reconciler.number_of(&pod) {
            reconciler.by_number.insert(number, pod);
        }
    }
    let status = reconciler.status();
    if !is_deleted(set) {
        reconciler.scale();
        let (used, update) =
            (text(&status, "/currentRevision").to_owned(), name(&reconciler.revisions.update).to_owned());
        let labels: BTreeSet<String> = reconciler
            .by_number
            .values()
            .map(|pod| text(&pod["metadata"]["labels"], "/controller-revision-hash").to_owned())
            .collect();
        reconciler.revisions.forget(set, |revision| {
            name(revision) == used || name(revision) == update || labels.contains(name(revision))
        });
        plan.actions.append(&mut reconciler.revisions.actions);
    }
    plan.actions.append(&mut reconciler.plan.actions);
    plan.wake = reconciler.plan.wake;
    if status != set["status"] {
        let mut object = set.clone();
        object["status"] = status;
        plan.push(Action::UpdateStatus { api: STATEFUL_SETS, object, manager: CONTROLLERS });
    }
    plan
}

struct StatefulSetReconciler<'a> {
    now: Timestamp,
    set: &'a Value,
    /// The revision that pods had before the current rollout.
    current: Value,
    revisions: Revisions,
    claims: &'a BTreeSet<String>,
    by_number: BTreeMap<i64, Value>,
    /// How many pods still have the current revision.
    current_pods: i64,
    plan: Plan,
}

impl StatefulSetReconciler<'_> {
    fn number_of(&self, pod: &Value) -> Option<i64> {
        name(pod).strip_prefix(name(self.set))?.strip_prefix('-')?.parse().ok()
    }

    fn first(&self) -> i64 {
        number(self.set, "/spec/ordinals/start")
    }

    fn wanted(&self) -> i64 {
        self.set["spec"]["replicas"].as_i64().unwrap_or(1)
    }

    /// One after the other, or all at once.
    fn is_ordered(&self) -> bool {
        self.set["spec"]["podManagementPolicy"] != "Parallel"
    }

    fn is_rolling(&self) -> bool {
        self.set["spec"]["updateStrategy"]["type"] != "OnDelete"
    }

    fn partition(&self) -> i64 {
        number(self.set, "/spec/updateStrategy/rollingUpdate/partition")
    }

    fn is_available(&mut self, pod: &Value) -> bool {
        match available_from(pod, number(self.set, "/spec/minReadySeconds")) {
            Some(from) if from > self.now => {
                self.plan.wake_at(from);
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    fn is_healthy(&mut self, pod: &Value) -> bool {
        text(pod, "/status/phase") == "Running" && !is_deleted(pod) && self.is_available(pod)
    }

    /// Moves the pods towards the spec; in ordered mode, by one step.
    fn scale(&mut self) {
        let (first, end) = (self.first(), self.first() + self.wanted());
        for number in first..end {
            match self.by_number.get(&number).cloned() {
                None => {
                    self.create(number);
                    if self.is_ordered() {
                        return;
                    }
                }
                Some(pod) if is_over(&pod) && !is_deleted(&pod) => {
                    self.delete(&pod);
                    if self.is_ordered() {
                        return;
                    }
                }
                Some(pod) => {
                    if self.is_ordered() && !self.is_healthy(&pod) {
                        return;
                    }
                }
            }
        }
        let condemned: Vec<Value> = self
            .by_number
            .iter()
            .rev()
            .filter(|(number, _)| !(first..end).contains(number))
            .map(|(_, pod)| pod.clone())
            .collect();
        for pod in &condemned {
            if !is_deleted(pod) {
                self.delete(pod);
            }
            if self.is_ordered() {
                return;
            }
        }
        if self.is_rolling() {
            self.update(first.max(self.partition() + first), end);
        }
    }

    /// Replaces the last pod that is not up to date, if all after it are well.
    fn update(&mut self, first: i64, end: i64) {
        for number in (first..end).rev() {
            let Some(pod) = self.by_number.get(&number).cloned() else { return };
            let up_to_date = self.revision_of(&pod) == name(&self.revisions.update);
            if !up_to_date && !is_deleted(&pod) {
                self.delete(&pod);
                return;
            }
            if !self.is_healthy(&pod) {
                return;
            }
        }
    }

    fn revision_of<'a>(&self, pod: &'a Value) -> &'a str {
        pod["metadata"]["labels"].get(REVISION_LABEL).and_then(Value::as_str).unwrap_or_default()
    }

    fn create(&mut self, number: i64) {
        let partition = self.partition();
        let kept = match partition {
            0 => self.current_pods,
            partition => partition,
        };
        // Pods that the rollout has not reached come back as they were.
        let old = self.is_rolling() && number < self.first() + kept;
        let revision = if old { &self.current } else { &self.revisions.update }.clone();
        let pod_name = format!("{}-{number}", name(self.set));
        for template in self.set["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default() {
            let claim_name = format!("{}-{pod_name}", name(&template));
            if !self.claims.contains(&claim_name) {
                self.create_claim(&template, &claim_name, &pod_name);
            }
        }
        let pod = pod_for(self.set, &revision, number, &pod_name);
        self.plan.push(Action::Create { api: PODS, object: pod, manager: CONTROLLERS });
        let message = format!("create Pod {pod_name} in StatefulSet {} successful", name(self.set));
        self.plan.note(STATEFUL_SETS, self.set, COMPONENT, "SuccessfulCreate", message);
    }

    fn create_claim(&mut self, template: &Value, claim_name: &str, pod_name: &str) {
        let mut metadata = template["metadata"].clone();
        metadata["name"] = json!(claim_name);
        metadata["namespace"] = json!(namespace(self.set));
        let mut labels = metadata["labels"].as_object().cloned().unwrap_or_default();
        let selector = self.set["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        labels.extend(selector);
        metadata["labels"] = Value::Object(labels);
        if self.set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
            let mut owner = super::objects::controller_reference(STATEFUL_SETS, self.set);
            super::objects::remove_field(&mut owner, "controller");
            super::objects::remove_field(&mut owner, "blockOwnerDeletion");
            metadata["ownerReferences"] = json!([owner]);
        }
        let claim = json!({"metadata": metadata, "spec": template["spec"]});
        self.plan.push(Action::Create { api: CLAIMS, object: claim, manager: CONTROLLERS });
        let message = format!("Create Claim {claim_name} Pod {pod_name} in StatefulSet {} success", name(self.set));
        self.plan.note(STATEFUL_SETS, self.set, COMPONENT, "SuccessfulCreate", message);
    }

    fn delete(&mut self, pod: &Value) {
        self.plan.push(Action::Delete { api: PODS, object: pod.clone(), grace_period_seconds: None });
        let message = format!("delete Pod {} in StatefulSet {} successful", name(pod), name(self.set));
        self.plan.note(STATEFUL_SETS, self.set, COMPONENT, "SuccessfulDelete", message);
    }

    fn status(&mut self) -> Value {
        let mut status = self.set["status"].clone();
        let (mut ready, mut available, mut current, mut updated) = (0, 0, 0, 0);
        let pods: Vec<Value> = self.by_number.values().cloned().collect();
        for pod in &pods {
            if text(pod, "/status/phase") == "Running" && is_ready(pod) {
                ready += 1;
                available += i64::from(self.is_available(pod));
            }
            if !is_deleted(pod) {
                current += i64::from(self.revision_of(pod) == name(&self.current));
                updated += i64::from(self.revision_of(pod) == name(&self.revisions.update));
            }
        }
        self.current_pods = current;
        status["observedGeneration"] = self.set["metadata"]["generation"].clone();
        status["replicas"] = json!(pods.len());
        super::objects::set_count(&mut status, "readyReplicas", ready);
        status["availableReplicas"] = json!(available);
        let wanted = self.wanted();
        let replicas = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        // A rollout that has reached everything makes its revision the current one.
        let done = self.is_rolling() && updated == replicas && ready == replicas && replicas == wanted;
        let revision = if done { &self.revisions.update } else { &self.current };
        super::objects::set_count(&mut status, "currentReplicas", if done { updated } else { current });
        super::objects::set_count(&mut status, "updatedReplicas", updated);
        status["currentRevision"] = json!(name(revision));
        status["updateRevision"] = json!(name(&self.revisions.update));
        if status.get("collisionCount").is_none() {
            status["collisionCount"] = json!(0);
        }
        status
    }
}

fn pod_for(set: &Value, revision: &Value, number: i64, pod_name: &str) -> Value {
    let mut pod = pod_of(&revisions::template_of(revision), STATEFUL_SETS, set);
    pod["metadata"]["name"] = json!(pod_name);
    pod["metadata"]["generateName"] = json!(format!("{}-", name(set)));
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    let labels = &mut pod["metadata"]["labels"];
    labels["statefulset.kubernetes.io/pod-name"] = json!(pod_name);
    labels["apps.kubernetes.io/pod-index"] = json!(number.to_string());
    labels[REVISION_LABEL] = json!(name(revision));
    pod["spec"]["hostname"] = json!(pod_name);
    if let Some(service) = set["spec"]["serviceName"].as_str().filter(|service| !service.is_empty()) {
        pod["spec"]["subdomain"] = json!(service);
    }
    let templates = set["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|template| {
            let claim = format!("{}-{pod_name}", name(template));
            json!({"name": name(template), "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let others = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.extend(others.into_iter().filter(|volume| !templates.iter().any(|claim| name(claim) == volume["name"])));
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = Value::Array(volumes);
    }
    pod
}
