//! What the controllers, the scheduler and the node of a real cluster do: pods that run.
//!
//! Each kind has one file with one pure function: from the time, an object and what belongs to it
//! to a [`Plan`](plan::Plan), which says what to write, and when to look again. The driver follows
//! the changes of the store, asks the kinds that a change concerns, and carries their plans out by
//! the same verbs that requests use. It remembers nothing that cannot be found in the store again,
//! so a cluster that was loaded from a disk goes on where it was.

// The way of a change.
mod driver;
mod agenda;
mod concerns;
mod gather;
mod carry_out;
mod plan;

// From the owners to what they own.
mod deployment;
mod rollout;
mod replica_set;
mod stateful_set;
mod daemon_set;
mod revisions;
mod cron_job;
mod schedule;
mod job;
mod pod;
mod containers;
mod scheduling;
mod node;

// What is around pods.
mod claim;
mod service;
mod budget;

// What they share.
mod objects;
mod quantity;

use std::sync::Arc;
use std::time::Duration;

pub use driver::start;

use serde_json::{Value, json};

use crate::clock::timestamp;
use crate::render::decode;
use crate::state::State;
use crate::status::Refusal;
use crate::store::{Place, Stored, Write};
use crate::verbs::write_if_unchanged;

/// Gives a new claim the default class, if it names none.
pub fn complete_claim(state: &State, claim: &mut Value) {
    if claim["spec"].get("storageClassName").is_some() || !claim["spec"].is_object() {
        return;
    }
    let api = plan::STORAGE_CLASSES;
    let Some(resource) = state.built_in(api.group, api.version, api.plural) else { return };
    let classes = state.store().list(&resource.storage, None, None);
    let default = classes.iter().map(|class| decode(&resource, class)).find(claim::is_default);
    if let Some(class) = default {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

/// Takes the eviction of a pod from the budgets that select it, if they allow it.
pub fn take_from_budgets(state: &Arc<State>, stored: &Stored) -> Result<(), Refusal> {
    let api = plan::BUDGETS;
    let Some(resource) = state.built_in(api.group, api.version, api.plural) else { return Ok(()) };
    let pod = stored.decode();
    // Pods that do not run yet, or not any more, are no loss.
    if objects::is_over(&pod) || objects::is_deleted(&pod) || objects::text(&pod, "/status/phase") == "Pending" {
        return Ok(());
    }
    let budgets = state.store().list(&resource.storage, Some(&stored.place.namespace), None);
    for budget in budgets {
        let object = decode(&resource, &budget);
        if !objects::selects(&object["spec"]["selector"], |key| stored.label(key)) {
            continue;
        }
        write_if_unchanged(state, &resource, &budget.place, false, |old| {
            let allowed = objects::number(old, "/status/disruptionsAllowed");
            if allowed <= 0 {
                return Err(budget::refusal(old));
            }
            let mut next = old.clone();
            next["status"]["disruptionsAllowed"] = json!(allowed - 1);
            Ok(next)
        })?;
    }
    Ok(())
}

/// How workloads are simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workloads {
    /// From the assignment of a pod to a node until it is ready.
    pub ready_delay: Duration,
    /// How long the pods of jobs run, once they are ready.
    pub run_duration: Duration,
    /// From the deletion of a pod until its containers have stopped; its grace at most.
    pub stop_delay: Duration,
}

impl Default for Workloads {
    fn default() -> Self {
        Self {
            // Short, but long enough to be seen.
            ready_delay: Duration::from_millis(100),
            run_duration: Duration::from_millis(100),
            stop_delay: Duration::from_millis(50),
        }
    }
}

/// Makes what is there in a cluster with nodes before anybody does anything.
///
/// It is known to be right, so it goes straight into the store: a cluster starts in no time.
pub fn create_initial(state: &Arc<State>) {
    let now = state.now();
    for (api, mut object) in node::initial(now).into_iter().chain([claim::initial()]) {
        let Some(resource) = state.built_in(api.group, api.version, api.plural) else { continue };
        object["metadata"]["uid"] = json!(state.randomness().uid());
        object["metadata"]["creationTimestamp"] = json!(timestamp(now));
        let place = Place::new(objects::namespace(&object), objects::name(&object));
        // In a store that was loaded, it is there already.
        let _ = state.apply(&resource, Write::Create { place, value: object });
    }
}
