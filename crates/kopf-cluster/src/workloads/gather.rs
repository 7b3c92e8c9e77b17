//! Reads what a controller needs to know from the store, and asks it for its plan.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::agenda::{Key, Kind};
use super::concerns::Memory;
use super::objects::{is_controlled_by, is_over, text, uid};
use super::plan::{Api, DEPLOYMENTS, NODES, PODS, Plan, REPLICA_SETS, REPLICATION_CONTROLLERS};
use super::pod::{Setting, Stage};
use super::{Workloads, deployment, node, pod, replica_set, scheduling};
use crate::render::decode;
use crate::state::State;
use crate::store::{Place, Stored};

/// What is to be done about an object; nothing if it is gone.
pub fn plan(state: &State, memory: &mut Memory, workloads: &Workloads, key: &Key, now: Timestamp) -> Option<Plan> {
    let reader = Reader { state };
    let place = &key.place;
    let plan = match key.kind {
        Kind::Pod => {
            let object = reader.get(PODS, place)?;
            pod_plan(&reader, memory, workloads, place, &object, now)
        }
        Kind::ReplicaSet => {
            let set = reader.get(REPLICA_SETS, place)?;
            replica_set::reconcile(now, REPLICA_SETS, &set, &reader.controlled(PODS, &set))
        }
        Kind::ReplicationController => {
            let controller = reader.get(REPLICATION_CONTROLLERS, place)?;
            let pods = reader.controlled(PODS, &controller);
            replica_set::reconcile(now, REPLICATION_CONTROLLERS, &controller, &pods)
        }
        Kind::Deployment => {
            let object = reader.get(DEPLOYMENTS, place)?;
            let surroundings = deployment_surroundings(&reader, place, &object);
            deployment::reconcile(now, &object, surroundings)
        }
    };
    Some(plan)
}

fn pod_plan(
    reader: &Reader<'_>,
    memory: &mut Memory,
    workloads: &Workloads,
    place: &Place,
    object: &Value,
    now: Timestamp,
) -> Plan {
    let stage = pod::stage(object);
    let since = memory.since(place, stage, now);
    match stage {
        Stage::Unscheduled => scheduling::reconcile(now, object, &reader.list(NODES), &[]),
        _ => {
            let found = reader.get(NODES, &Place::new("", text(object, "/spec/nodeName")));
            // Without its node, nobody looks after the pod, except for its end.
            if found.is_none() && stage != Stage::Stopping {
                return Plan::default();
            }
            let host = found.as_ref().map(|found| node::address(found).to_owned()).unwrap_or_default();
            let address = match (stage, text(object, "/status/podIP")) {
                (Stage::Starting, _) => memory.address(place),
                (_, known) => known.to_owned(),
            };
            pod::reconcile(now, object, &Setting { since, host, address, workloads: workloads.clone() })
        }
    }
}

fn deployment_surroundings(reader: &Reader<'_>, place: &Place, object: &Value) -> deployment::Surroundings {
    let sets = reader.controlled(REPLICA_SETS, object);
    let new_name = deployment::new_set_name(object);
    let namesake = reader.get(REPLICA_SETS, &Place::new(&place.namespace, &new_name));
    let taken_name = namesake.filter(|set| !is_controlled_by(set, object)).map(|_| new_name);
    let runs = |set: &Value| reader.controlled(PODS, set).iter().any(|pod| !is_over(pod));
    let recreates = object["spec"]["strategy"]["type"] == "Recreate";
    let old_pods_run = recreates && sets.iter().any(|set| !deployment::is_current(object, set) && runs(set));
    deployment::Surroundings { sets, taken_name, old_pods_run }
}

/// Reads objects, for controllers.
struct Reader<'a> {
    state: &'a State,
}

impl Reader<'_> {
    fn get(&self, api: Api, place: &Place) -> Option<Value> {
        let resource = self.state.built_in(api.group, api.version, api.plural)?;
        self.state.get(&resource, place).map(|stored| decode(&resource, &stored))
    }

    fn list(&self, api: Api) -> Vec<Value> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return Vec::new() };
        let found = self.state.store().list(&resource.storage, None, None);
        found.iter().map(|stored| decode(&resource, stored)).collect()
    }

    /// The objects of a resource that an owner controls.
    fn controlled(&self, api: Api, owner: &Value) -> Vec<Value> {
        let Some(resource) = self.state.built_in(api.group, api.version, api.plural) else { return Vec::new() };
        let found: Vec<Arc<Stored>> = {
            let store = self.state.store();
            let dependents = store.dependents(uid(owner)).into_iter();
            dependents
                .filter(|(storage, _)| *storage == resource.storage)
                .filter_map(|(storage, place)| store.get(&storage, &place))
                .collect()
        };
        let decoded = found.iter().map(|stored| decode(&resource, stored));
        decoded.filter(|object| is_controlled_by(object, owner)).collect()
    }
}
