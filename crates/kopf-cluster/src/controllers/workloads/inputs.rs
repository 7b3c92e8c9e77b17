//! Reads what a controller needs to know from the store, and asks it for its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::affected::ObjectIndex;
use super::objects::{
    controller_of, controller_reference, is_controlled_by, is_deleted, is_over, number, selects, text, uid,
};
use super::plan::{
    Action, Api, BUDGETS, CLAIMS, CONTROLLER_REVISIONS, CONTROLLERS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS,
    ENDPOINT_SLICES, ENDPOINTS, JOBS, NODES, PODS, Plan, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES,
    STATEFUL_SETS, STORAGE_CLASSES, VOLUMES,
};
use super::pod::scheduling::{self, Claim};
use super::pod::{self, PodContext, Stage};
use super::work_queue::{WorkItem, WorkKind};
use super::{budget, claim, cron_job, daemon_set, deployment, job, node, replica_set, service, stateful_set};
use crate::publish::render::decode;
use crate::state::State;
use crate::store::{ObjectKey, Stored};
use crate::support::options::Workloads;

/// The plan for an object; empty if the object is gone.
pub(super) fn plan(
    state: &State,
    memory: &mut ObjectIndex,
    workloads: &Workloads,
    key: &WorkItem,
    now: Timestamp,
) -> Option<Plan> {
    let reader = StoreReader { state };
    let object_key = &key.object_key;
    let plan = match key.kind {
        WorkKind::Node => {
            let actions = node::admit_pods(&reader.get(NODES, object_key)?).into_iter().collect();
            Plan { actions, wake: None }
        }
        WorkKind::Pod => {
            let object = reader.get(PODS, object_key)?;
            pod_plan(&reader, memory, workloads, object_key, &object, now)
        }
        WorkKind::ReplicaSet => {
            let set = reader.get(REPLICA_SETS, object_key)?;
            if let Some(adoption) = adoption(&reader, object_key, (REPLICA_SETS, &set), PODS) {
                return Some(adoption);
            }
            replica_set::reconcile(now, REPLICA_SETS, &set, &reader.controlled(PODS, &set))
        }
        WorkKind::ReplicationController => {
            let controller = reader.get(REPLICATION_CONTROLLERS, object_key)?;
            let pods = reader.controlled(PODS, &controller);
            replica_set::reconcile(now, REPLICATION_CONTROLLERS, &controller, &pods)
        }
        WorkKind::Deployment => {
            let object = reader.get(DEPLOYMENTS, object_key)?;
            if let Some(adoption) = adoption(&reader, object_key, (DEPLOYMENTS, &object), REPLICA_SETS) {
                return Some(adoption);
            }
            let inputs = deployment_inputs(&reader, object_key, &object);
            deployment::reconcile(now, &object, inputs)
        }
        WorkKind::StatefulSet => {
            let set = reader.get(STATEFUL_SETS, object_key)?;
            if let Some(adoption) = adoption(&reader, object_key, (STATEFUL_SETS, &set), PODS) {
                return Some(adoption);
            }
            let (pods, known) = (reader.controlled(PODS, &set), reader.controlled(CONTROLLER_REVISIONS, &set));
            let has_claims = set["spec"]["volumeClaimTemplates"].as_array().is_some_and(|list| !list.is_empty());
            let claims = if has_claims { reader.names(CLAIMS, &object_key.namespace) } else { BTreeSet::new() };
            stateful_set::reconcile(now, &set, pods, known, &claims)
        }
        WorkKind::DaemonSet => {
            let set = reader.get(DAEMON_SETS, object_key)?;
            let known = reader.controlled(CONTROLLER_REVISIONS, &set);
            daemon_set::reconcile(now, &set, &reader.controlled(PODS, &set), &reader.list(NODES), known)
        }
        WorkKind::Job => {
            let object = reader.get(JOBS, object_key)?;
            job::reconcile(now, &object, &reader.controlled(PODS, &object))
        }
        WorkKind::CronJob => {
            let cron = reader.get(CRON_JOBS, object_key)?;
            cron_job::reconcile(now, &cron, &reader.controlled(JOBS, &cron))
        }
        WorkKind::Claim => {
            let object = reader.get(CLAIMS, object_key)?;
            claim::reconcile(&object, &reader.list(STORAGE_CLASSES), &reader.list(VOLUMES))
        }
        WorkKind::Volume => {
            let volume = reader.get(VOLUMES, object_key)?;
            let reference = &volume["spec"]["claimRef"];
            let claimed = ObjectKey::new(text(reference, "/namespace"), text(reference, "/name"));
            claim::reconcile_volume(&volume, reader.get(CLAIMS, &claimed).as_ref())
        }
        WorkKind::Service => {
            let endpoints = reader.get(ENDPOINTS, object_key);
            let Some(object) = reader.get(SERVICES, object_key) else {
                return endpoints.as_ref().map(service::clean_up);
            };
            let selector = json!({"matchLabels": object["spec"]["selector"]});
            let pods = match service::has_selector(&object) {
                true => reader.selected(object_key, &selector),
                false => Vec::new(),
            };
            let slices = reader.controlled(ENDPOINT_SLICES, &object);
            service::reconcile(now, &object, &pods, &slices, endpoints.as_ref())
        }
        WorkKind::Budget => {
            let object = reader.get(BUDGETS, object_key)?;
            let pods = reader.selected(object_key, &object["spec"]["selector"]);
            budget::reconcile(now, &object, &pods, wanted_by_owners(&reader, object_key, &pods))
        }
    };
    Some(plan)
}

/// A controller adopts objects without an owner that match its selector.
fn adoption(reader: &StoreReader<'_>, object_key: &ObjectKey, (api, owner): (Api, &Value), owned: Api) -> Option<Plan> {
    let orphans = match is_deleted(owner) {
        true => Vec::new(),
        false => reader.orphans(owned, object_key, &owner["spec"]["selector"]),
    };
    let actions: Vec<Action> = orphans
        .into_iter()
        .map(|mut object| {
            object["metadata"]["ownerReferences"] = json!([controller_reference(api, owner)]);
            Action::Update { api: owned, object, manager: CONTROLLERS }
        })
        .collect();
    (!actions.is_empty()).then_some(Plan { actions, wake: None })
}

/// How many pods the owners of pods want.
fn wanted_by_owners(reader: &StoreReader<'_>, object_key: &ObjectKey, pods: &[Value]) -> i64 {
    let mut owners: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(reference) = controller_of(pod) else { continue };
        if owners.contains_key(text(reference, "/uid")) {
            continue;
        }
        let api = match text(reference, "/kind") {
            "ReplicaSet" => REPLICA_SETS,
            "StatefulSet" => STATEFUL_SETS,
            "ReplicationController" => REPLICATION_CONTROLLERS,
            _ => continue,
        };
        let mut owner = reader.get(api, &ObjectKey::new(&object_key.namespace, text(reference, "/name")));
        // During a rollout it is the deployment that knows.
        if let Some(above) = owner.as_ref().and_then(controller_of).filter(|above| above["kind"] == "Deployment") {
            owner = reader.get(DEPLOYMENTS, &ObjectKey::new(&object_key.namespace, text(above, "/name")));
        }
        if let Some(owner) = owner {
            owners.insert(uid(&owner).to_owned(), number(&owner, "/spec/replicas"));
        }
    }
    owners.values().sum()
}

fn pod_plan(
    reader: &StoreReader<'_>,
    memory: &mut ObjectIndex,
    workloads: &Workloads,
    object_key: &ObjectKey,
    object: &Value,
    now: Timestamp,
) -> Plan {
    let stage = pod::stage(object);
    let since = memory.since(object_key, stage, now);
    match stage {
        _ if is_abandoned(reader, object_key, object) => Plan { actions: vec![job::release_one(object)], wake: None },
        Stage::Unscheduled => {
            scheduling::reconcile(now, object, &reader.list(NODES), &claims_of(reader, object_key, object))
        }
        _ => {
            let found = reader.get(NODES, &ObjectKey::new("", text(object, "/spec/nodeName")));
            // Without its node, nothing happens to the pod except its deletion.
            if found.is_none() && stage != Stage::Stopping {
                return Plan::default();
            }
            let host = found.as_ref().map(|found| node::address(found).to_owned()).unwrap_or_default();
            let address = match (stage, text(object, "/status/podIP")) {
                (Stage::Starting, _) => memory.address(object_key),
                (_, known) => known.to_owned(),
            };
            pod::reconcile(now, object, &PodContext { since, host, address, workloads: workloads.clone() })
        }
    }
}

/// Whether a pod waits to be counted by a job that is gone.
fn is_abandoned(reader: &StoreReader<'_>, object_key: &ObjectKey, object: &Value) -> bool {
    job::is_tracked(object)
        && controller_of(object).is_none_or(|owner| {
            let found = reader.get(JOBS, &ObjectKey::new(&object_key.namespace, text(owner, "/name")));
            owner["kind"] == "Job" && found.is_none_or(|found| uid(&found) != text(owner, "/uid"))
        })
}

/// The claims that a pod needs, and whether they have volumes.
fn claims_of(reader: &StoreReader<'_>, object_key: &ObjectKey, object: &Value) -> Vec<(String, Claim)> {
    let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names
        .map(|claim| {
            let found = match reader.get(CLAIMS, &ObjectKey::new(&object_key.namespace, claim)) {
                None => Claim::Missing,
                Some(found) if text(&found, "/status/phase") == "Bound" => Claim::Bound,
                Some(_) => Claim::Unbound,
            };
            (claim.to_owned(), found)
        })
        .collect()
}

fn deployment_inputs(reader: &StoreReader<'_>, object_key: &ObjectKey, object: &Value) -> deployment::DeploymentInputs {
    let sets = reader.controlled(REPLICA_SETS, object);
    let new_name = deployment::new_set_name(object);
    let namesake = reader.get(REPLICA_SETS, &ObjectKey::new(&object_key.namespace, &new_name));
    let taken_name = namesake.filter(|set| !is_controlled_by(set, object)).map(|_| new_name);
    let runs = |set: &Value| reader.controlled(PODS, set).iter().any(|pod| !is_over(pod));
    let recreates = object["spec"]["strategy"]["type"] == "Recreate";
    let old_pods_run = recreates && sets.iter().any(|set| !deployment::is_current(object, set) && runs(set));
    deployment::DeploymentInputs { sets, taken_name, old_pods_run }
}

/// Reads objects, for controllers.
struct StoreReader<'a> {
    state: &'a State,
}

impl StoreReader<'_> {
    fn get(&self, api: Api, object_key: &ObjectKey) -> Option<Value> {
        let resource = self.state.built_in(api.group, api.version, api.plural)?;
        self.state.get(&resource, object_key).map(|stored| decode(&resource, &stored))
    }

    fn list(&self, api: Api) -> Vec<Value> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return Vec::new() };
        let found = self.state.store().list(&resource.storage, None, None);
        found.iter().map(|stored| decode(&resource, stored)).collect()
    }

    /// The names of the objects of a resource in a namespace.
    fn names(&self, api: Api, namespace: &str) -> BTreeSet<String> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return BTreeSet::new() };
        let found = self.state.store().list(&resource.storage, Some(namespace), None);
        found.iter().map(|stored| stored.object_key.name.to_string()).collect()
    }

    /// The pods of a namespace that a selector fits.
    fn selected(&self, object_key: &ObjectKey, selector: &Value) -> Vec<Value> {
        let Some(resource) = self.state.built_in(PODS.group, PODS.version, PODS.plural) else { return Vec::new() };
        let mut found = self.state.store().list(&resource.storage, Some(&object_key.namespace), None);
        found.retain(|stored| selects(selector, |key| stored.label(key)));
        found.iter().map(|stored| decode(&resource, stored)).collect()
    }

    /// The objects of a resource without any owner that a selector fits, and that are to stay.
    fn orphans(&self, api: Api, object_key: &ObjectKey, selector: &Value) -> Vec<Value> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return Vec::new() };
        let mut found = self.state.store().list(&resource.storage, Some(&object_key.namespace), None);
        found.retain(|stored| stored.owners().next().is_none() && selects(selector, |key| stored.label(key)));
        let decoded = found.iter().map(|stored| decode(&resource, stored));
        decoded.filter(|object| !is_deleted(object) && !is_over(object)).collect()
    }

    /// The objects of a resource that an owner controls.
    fn controlled(&self, api: Api, owner: &Value) -> Vec<Value> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return Vec::new() };
        let found: Vec<Arc<Stored>> = {
            let store = self.state.store();
            let dependents = store.dependents(uid(owner)).into_iter();
            dependents
                .filter(|(storage, _)| *storage == resource.storage)
                .filter_map(|(storage, object_key)| store.get(&storage, &object_key))
                .collect()
        };
        let decoded = found.iter().map(|stored| decode(&resource, stored));
        decoded.filter(|object| is_controlled_by(object, owner)).collect()
    }
}
