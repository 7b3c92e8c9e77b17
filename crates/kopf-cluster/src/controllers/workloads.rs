//! What the controllers, the scheduler and the node of a real cluster do: pods that run.
//!
//! Each kind has one file with one pure function: from the time, an object and what belongs to it
//! to a [`Plan`](plan::Plan), which says what to write, and when to look again. The driver follows
//! the changes of the store, asks the kinds that a change affected, and carries their plans out by
//! the same verbs that requests use. It remembers nothing that cannot be found in the store again,
//! so a cluster that was loaded from a disk goes on where it was.

// The way of a change.
mod driver;
mod work_queue;
mod affected;
mod inputs;
mod execute;
mod plan;

// From the owners to what they own.
mod deployment;
mod replica_set;
mod stateful_set;
mod daemon_set;
mod revisions;
mod cron_job;
mod job;
mod pod;
mod node;

// What pods use.
mod claim;
mod service;
mod budget;

// What they share.
mod objects;

use std::sync::Arc;

pub(crate) use driver::start;

use serde_json::json;

use crate::state::State;
use crate::store::{ObjectKey, Write};
use crate::support::clock::timestamp;

/// Creates the initial objects of a cluster with nodes.
///
/// It is known to be right, so it goes straight into the store: a cluster starts in no time.
pub(crate) fn create_initial(state: &Arc<State>) {
    let now = state.now();
    for (api, mut object) in node::initial(now).into_iter().chain([claim::initial()]) {
        let Some(resource) = state.built_in(api.group, api.version, api.plural) else { continue };
        object["metadata"]["uid"] = json!(state.randomness().uid());
        object["metadata"]["creationTimestamp"] = json!(timestamp(now));
        let object_key = ObjectKey::new(objects::namespace(&object), objects::name(&object));
        // In a store that was loaded, it is there already.
        let _ = state.apply(&resource, Write::Create { object_key, value: object });
    }
}
