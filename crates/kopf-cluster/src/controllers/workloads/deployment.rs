//! Deployments: one replica set for each template there has been, and the way from one to the next.
//!
//! The driver calls it with all replica sets that the deployment controls. Everything is decided
//! on copies in memory; what differs in the end is written.

pub(super) mod rollout;
mod new_set;
mod status;

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{annotation, condition, created, is_deleted, name, number, remove_field, template_hash, text};
use super::plan::{Action, CONTROLLERS, DEPLOYMENTS, Plan, REPLICA_SETS};
use new_set::revision_of;
use rollout::{Limits, Size, is_rolling, size_of};

const COMPONENT: &str = "deployment-controller";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
const HASH_LABEL: &str = "pod-template-hash";
/// What a deadline is if there is none.
const NO_DEADLINE: i64 = i32::MAX as i64;

pub(super) struct DeploymentInputs {
    /// The replica sets that the deployment controls.
    pub sets: Vec<Value>,
    /// The name of a replica set that it does not control, though it would be the new one's.
    pub taken_name: Option<String>,
    /// Whether a pod of an old replica set still runs, be it on its way out.
    pub old_pods_run: bool,
}

pub(super) fn reconcile(now: Timestamp, deployment: &Value, inputs: DeploymentInputs) -> Plan {
    let mut rollout = Rollout::new(now, deployment, inputs);
    if is_deleted(deployment) {
        rollout.sync_status();
    } else if rollout.is_paused() || rollout.was_scaled() {
        rollout.note_pause();
        rollout.scale_only();
        rollout.sync_status();
    } else {
        rollout.note_pause();
        rollout.roll();
        rollout.sync_progress();
    }
    rollout.into_plan(deployment)
}

/// The name of the replica set of the current template.
pub(super) fn new_set_name(deployment: &Value) -> String {
    let collisions = deployment["status"]["collisionCount"].as_i64();
    format!("{}-{}", name(deployment), template_hash(&deployment["spec"]["template"], collisions))
}

/// Whether a replica set was made of the current template.
pub(super) fn is_current(deployment: &Value, set: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels") {
        remove_field(labels, HASH_LABEL);
    }
    template == deployment["spec"]["template"]
}

struct Rollout {
    now: Timestamp,
    deployment: Value,
    /// The old replica sets, the oldest first.
    old: Vec<Value>,
    /// The replica set of the current template, once there is one.
    new: Option<Value>,
    /// The name that the new replica set cannot have.
    taken_name: Option<String>,
    old_pods_run: bool,
    limits: Limits,
    plan: Plan,
    /// All replica sets as they were read.
    before: Vec<Value>,
}

impl Rollout {
    fn new(now: Timestamp, deployment: &Value, inputs: DeploymentInputs) -> Self {
        let mut sets = inputs.sets;
        sets.sort_by(|one, other| (created(one), name(one)).cmp(&(created(other), name(other))));
        let before = sets.clone();
        let new = sets.iter().position(|set| is_current(deployment, set)).map(|index| sets.remove(index));
        Self {
            now,
            deployment: deployment.clone(),
            old: sets,
            new,
            taken_name: inputs.taken_name,
            old_pods_run: inputs.old_pods_run,
            limits: Limits::of(deployment),
            plan: Plan::default(),
            before,
        }
    }

    fn is_paused(&self) -> bool {
        self.deployment["spec"]["paused"] == true
    }

    /// Whether a client changed the number of replicas since the replica sets were sized.
    fn was_scaled(&self) -> bool {
        let active = self.all().filter(|set| number(set, "/spec/replicas") > 0);
        active.into_iter().any(|set| {
            let desired = annotation(set, DESIRED).and_then(|text| text.parse::<i64>().ok());
            desired.is_some_and(|desired| desired != self.limits.wanted)
        })
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }

    fn sum(&self, pointer: &str) -> i64 {
        self.all().map(|set| number(set, pointer)).sum()
    }

    /// Pausing and resuming show in the conditions.
    fn note_pause(&mut self) {
        if self.deadline().is_none() {
            return;
        }
        let reason = condition(&self.deployment, "Progressing").map(|known| text(known, "/reason").to_owned());
        // A missed deadline is more informative.
        if reason.as_deref() == Some("ProgressDeadlineExceeded") {
            return;
        }
        let was_paused = reason.as_deref() == Some("DeploymentPaused");
        match (self.is_paused(), was_paused) {
            (true, false) => self.set_progress("Unknown", "DeploymentPaused", "Deployment is paused".to_owned()),
            (false, true) => self.set_progress("Unknown", "DeploymentResumed", "Deployment is resumed".to_owned()),
            _ => {}
        }
    }

    /// One step from the old template to the current one.
    fn roll(&mut self) {
        if is_rolling(&self.deployment) {
            self.find_or_make_new();
            if self.grow_new() || self.shrink_old() {
                return;
            }
        } else {
            self.sync_revision();
            let sizes = vec![0; self.old.len()];
            if self.resize_old(&sizes) || self.old_pods_run {
                return;
            }
            self.find_or_make_new();
            if self.grow_new() {
                return;
            }
        }
        if self.is_complete(&self.counted_status()) {
            self.forget_old();
        }
    }

    /// No new templates are rolled out, but the number of pods is kept up with.
    fn scale_only(&mut self) {
        self.sync_revision();
        let active: Vec<usize> = self.positions_of_active();
        let only = match (active.as_slice(), &self.new) {
            ([], Some(_)) => Some(self.old.len()),
            ([], None) => self.old.len().checked_sub(1),
            ([only], _) => Some(*only),
            _ => None,
        };
        if let Some(index) = only {
            self.resize_at(index, self.limits.wanted);
        } else if self.is_saturated() {
            let sizes = vec![0; self.old.len()];
            self.resize_old(&sizes);
        } else if is_rolling(&self.deployment) {
            self.scale_proportionally(active);
        }
        if self.is_paused() {
            self.forget_old();
        }
    }

    /// Replica sets with pods; the new one comes after the old ones.
    fn positions_of_active(&self) -> Vec<usize> {
        self.all().enumerate().filter(|(_, set)| number(set, "/spec/replicas") > 0).map(|(index, _)| index).collect()
    }

    fn is_saturated(&self) -> bool {
        let wanted = self.limits.wanted;
        self.new.as_ref().is_some_and(|new| {
            let size = size_of(new);
            let desired = annotation(new, DESIRED).and_then(|text| text.parse::<i64>().ok());
            desired == Some(wanted) && size.replicas == wanted && size.available == wanted
        })
    }

    fn scale_proportionally(&mut self, mut active: Vec<usize>) {
        let sets: Vec<Value> = self.all().cloned().collect();
        let total: i64 = active.iter().map(|index| number(&sets[*index], "/spec/replicas")).sum();
        let grows = self.limits.wanted + self.limits.max_surge > total;
        // Bigger sets come first; among equals the newer ones if there is more to have, or else the older ones.
        active.sort_by_key(|index| {
            let (replicas, age) = (number(&sets[*index], "/spec/replicas"), created(&sets[*index]));
            let age = age.as_second();
            (Reverse(replicas), if grows { -age } else { age })
        });
        let most = |set: &Value| annotation(set, MAXIMUM).and_then(|text| text.parse::<i64>().ok());
        let known = number(&self.deployment, "/status/replicas");
        let sizes: Vec<(i64, i64)> = active
            .iter()
            .map(|index| (number(&sets[*index], "/spec/replicas"), most(&sets[*index]).unwrap_or(known)))
            .collect();
        for (index, size) in active.into_iter().zip(self.limits.proportional(&sizes)) {
            self.resize_at(index, size);
        }
    }

    /// Scales the new replica set up as far as the limits allow.
    fn grow_new(&mut self) -> bool {
        let Some(new) = &self.new else { return false };
        let current = number(new, "/spec/replicas");
        let wanted = match current > self.limits.wanted {
            true => self.limits.wanted,
            false => self.limits.new_size(is_rolling(&self.deployment), current, self.sum("/spec/replicas")),
        };
        self.resize_at(self.old.len(), wanted)
    }

    fn shrink_old(&mut self) -> bool {
        let sizes: Vec<Size> = self.old.iter().map(size_of).collect();
        let new = self.new.as_ref().map_or(Size { replicas: 0, available: 0 }, size_of);
        let sizes = self.limits.old_sizes(&sizes, new);
        self.resize_old(&sizes)
    }

    fn resize_old(&mut self, sizes: &[i64]) -> bool {
        let mut changed = false;
        for (index, size) in sizes.iter().enumerate() {
            if number(&self.old[index], "/spec/replicas") != *size {
                changed |= self.resize_at(index, *size);
            }
        }
        changed
    }

    /// Sets the size of an old replica set, or of the new one, which comes after them.
    fn resize_at(&mut self, index: usize, size: i64) -> bool {
        let found = if index < self.old.len() { self.old.get(index) } else { self.new.as_ref() };
        let Some(mut set) = found.cloned() else { return false };
        let current = number(&set, "/spec/replicas");
        self.put_sizes(&mut set);
        if current != size {
            let way = if size > current { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {current} to {size}", name(&set));
            self.plan.note(DEPLOYMENTS, &self.deployment, COMPONENT, "ScalingReplicaSet", message);
            set["spec"]["replicas"] = json!(size);
        }
        match index < self.old.len() {
            true => self.old[index] = set,
            false => self.new = Some(set),
        }
        current != size
    }

    /// Deletes old replica sets over the limit of the history.
    fn forget_old(&mut self) {
        let limit = self.deployment["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(NO_DEADLINE);
        let limit = usize::try_from(limit).unwrap_or_default();
        let mut candidates: Vec<&Value> = self.old.iter().filter(|set| !is_deleted(set)).collect();
        candidates.sort_by_key(|set| revision_of(set));
        let over = candidates.len().saturating_sub(limit);
        for set in candidates.into_iter().take(over) {
            let busy = number(set, "/spec/replicas") > 0 || number(set, "/status/replicas") > 0;
            if !busy && number(set, "/metadata/generation") <= number(set, "/status/observedGeneration") {
                let object = set.clone();
                self.plan.push(Action::Delete { api: REPLICA_SETS, object, grace_period_seconds: None });
            }
        }
    }

    /// Writes the differences: replica sets first, then the status.
    fn into_plan(self, before: &Value) -> Plan {
        let mut plan = self.plan;
        let known = self.old.into_iter().chain(self.new).filter(|set| set["metadata"].get("uid").is_some());
        let changed = known.filter(|set| !self.before.contains(set));
        let mut updates: Vec<Action> =
            changed.map(|object| Action::Update { api: REPLICA_SETS, object, manager: CONTROLLERS }).collect();
        updates.append(&mut plan.actions);
        plan.actions = updates;
        if self.deployment != *before {
            plan.push(Action::UpdateStatus { api: DEPLOYMENTS, object: self.deployment, manager: CONTROLLERS });
        }
        plan
    }
}
