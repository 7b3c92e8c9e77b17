//! Carries out what controllers have planned, by the same verbs that requests use.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{controller_of, name, namespace, uid};
use super::plan::{
    Action, Api, CONTROLLERS, DAEMON_SETS, EVENTS, EventNote, JOBS, PODS, Plan, REPLICA_SETS, REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
};
use crate::admit::ownership::Writer;
use crate::admit::{self, Part, WriteOrigin};
use crate::catalog::ResourceType;
use crate::request::status::StatusError;
use crate::state::State;
use crate::store::ObjectKey;
use crate::support::clock::timestamp;
use crate::verbs::{DeleteOptions, create_object, delete_object, write_if_unchanged};

/// How many names the controller attempts for one event.
const NAME_ATTEMPTS: i128 = 64;

/// Executes a whole plan, up to the first error.
///
/// An event after a creation can name the created object as `{name}`.
pub(super) fn execute_all(state: &Arc<State>, notes: &mut EventBudget, plan: Plan) -> Result<(), StatusError> {
    let mut created = String::new();
    for action in plan.actions {
        match action {
            Action::EventNote(mut about) => {
                about.message = about.message.replace("{name}", &created);
                if notes.allows(&about, state.now()) {
                    note(state, &about);
                }
            }
            other => {
                let refused = failed_creation(&other);
                match execute(state, other) {
                    Ok(Some(object)) => created = name(&object).to_owned(),
                    Ok(None) => {}
                    Err(status_error) => {
                        if let Some(mut about) = refused.filter(|about| notes.allows(about, state.now())) {
                            about.message = format!("Error creating: {}", status_error.message);
                            note(state, &about);
                        }
                        return Err(status_error);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The event for the owner of a pod that cannot be created.
fn failed_creation(action: &Action) -> Option<EventNote> {
    let Action::Create { api: PODS, object, .. } = action else { return None };
    let owner = controller_of(object)?;
    let (api, component) = match owner["kind"].as_str()? {
        "ReplicaSet" => (REPLICA_SETS, "replicaset-controller"),
        "ReplicationController" => (REPLICATION_CONTROLLERS, "replication-controller"),
        "StatefulSet" => (STATEFUL_SETS, "statefulset-controller"),
        "DaemonSet" => (DAEMON_SETS, "daemonset-controller"),
        _ => (JOBS, "job-controller"),
    };
    let about = json!({"metadata": {"namespace": namespace(object), "name": owner["name"], "uid": owner["uid"]}});
    Some(EventNote { api, about, component, warning: true, reason: "FailedCreate", message: String::new() })
}

/// Executes one action; returns the created object.
pub(super) fn execute(state: &Arc<State>, action: Action) -> Result<Option<Value>, StatusError> {
    match action {
        Action::Create { api, object, manager } => {
            let resource = resource(state, api)?;
            let namespace = Some(namespace(&object).to_owned()).filter(|namespace| !namespace.is_empty());
            let writer = Writer::system(manager, "");
            create_object(state, &resource, namespace.as_deref(), object, false, Some(&writer)).map(Some)
        }
        Action::Update { api, object, manager } => {
            write(state, api, Part::Main, &object, &Writer::system(manager, "")).map(|()| None)
        }
        Action::UpdateStatus { api, object, manager } => {
            write(state, api, Part::Status, &object, &Writer::system(manager, "status")).map(|()| None)
        }
        Action::Bind { pod, node } => bind(state, &pod, &node).map(|()| None),
        Action::Delete { api, object, grace_period_seconds } => {
            let options = DeleteOptions {
                grace_period_seconds,
                uid: Some(uid(&object).to_owned()),
                propagation: Some(crate::verbs::Propagation::Background),
                ..DeleteOptions::default()
            };
            match delete_object(state, &resource(state, api)?, &object_key(&object), &options) {
                // Another client was faster.
                Err(status_error) if status_error.reason == "NotFound" => Ok(None),
                Err(status_error) => Err(status_error),
                Ok(_) => Ok(None),
            }
        }
        Action::EventNote(about) => {
            note(state, &about);
            Ok(None)
        }
    }
}

/// Writes the next state of an object, if it is still as it was read.
fn write(state: &Arc<State>, api: Api, part: Part, object: &Value, writer: &Writer) -> Result<(), StatusError> {
    let resource = resource(state, api)?;
    write_if_unchanged(state, &resource, &object_key(object), false, |old| {
        admit::new_state(
            state,
            &resource,
            part,
            old,
            object.clone(),
            WriteOrigin { writer: Some(writer), admission: None },
        )
    })?;
    Ok(())
}

/// Assigns a pod to a node. As with a binding request, no field manager owns the fields.
fn bind(state: &Arc<State>, pod: &Value, node: &str) -> Result<(), StatusError> {
    let resource = resource(state, PODS)?;
    let now = timestamp(state.now());
    write_if_unchanged(state, &resource, &object_key(pod), false, |old| {
        if old["metadata"]["uid"] != pod["metadata"]["uid"] || old["spec"].get("nodeName").is_some() {
            return Ok(old.clone());
        }
        let mut bound = old.clone();
        bound["spec"]["nodeName"] = json!(node);
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let mut conditions = bound["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|known| known["type"] != "PodScheduled");
        conditions.push(scheduled);
        bound["status"]["conditions"] = Value::Array(conditions);
        Ok(bound)
    })?;
    Ok(())
}

/// Records an event. That it cannot be recorded must not stop anything.
fn note(state: &Arc<State>, about: &EventNote) {
    let object = &about.about;
    let now = state.now();
    let namespace = Some(namespace(object)).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    let mut involved = json!({
        "apiVersion": about.api.api_version(), "kind": about.api.kind, "name": name(object), "uid": uid(object),
    });
    for field in ["namespace", "resourceVersion"] {
        if let Some(value) = object["metadata"].get(field) {
            involved[field] = value.clone();
        }
    }
    let kind = if about.warning { "Warning" } else { "Normal" };
    let mut event = json!({
        "metadata": {"namespace": namespace},
        "involvedObject": involved, "reason": about.reason, "message": about.message, "type": kind,
        "reportingComponent": about.component, "reportingInstance": "",
    });
    // The scheduler records in the newer way.
    match about.component {
        "default-scheduler" => {
            event["action"] = json!(if about.warning { "Scheduling" } else { "Binding" });
            event["eventTime"] = json!(format!("{now:.6}"));
            event["reportingInstance"] = json!("default-scheduler-kopf");
            event["source"] = json!({});
            event["firstTimestamp"] = Value::Null;
            event["lastTimestamp"] = Value::Null;
        }
        component => {
            event["source"] = json!({"component": component});
            event["firstTimestamp"] = json!(timestamp(now));
            event["lastTimestamp"] = json!(timestamp(now));
            event["count"] = json!(1);
            event["eventTime"] = Value::Null;
        }
    }
    // Event names contain the time; several events at one moment get consecutive names.
    for offset in 0..NAME_ATTEMPTS {
        let mut object = event.clone();
        object["metadata"]["name"] = json!(format!("{}.{:x}", name(&about.about), now.as_nanosecond() + offset));
        match execute(state, Action::Create { api: EVENTS, object, manager: CONTROLLERS }) {
            Err(status_error) if status_error.reason == "AlreadyExists" => {}
            _ => return,
        }
    }
}

/// Limits the events per object: a burst, then a slow rate, as in real clusters.
#[derive(Debug, Default)]
pub(super) struct EventBudget {
    /// The remaining events of each object, and when they were counted.
    left: HashMap<String, (f64, Timestamp)>,
}

impl EventBudget {
    const BURST: f64 = 25.0;
    const REFILL_SECONDS: f64 = 300.0;
    /// Beyond this many objects, the budget starts over.
    const OBJECTS: usize = 4096;

    fn allows(&mut self, note: &EventNote, now: Timestamp) -> bool {
        if self.left.len() >= Self::OBJECTS {
            self.left.clear();
        }
        let key = format!("{} {}", note.component, uid(&note.about));
        let (left, counted) = self.left.get(&key).copied().unwrap_or((Self::BURST, now));
        let refilled = now.duration_since(counted).as_secs_f64().max(0.0) / Self::REFILL_SECONDS;
        let left = (left + refilled).min(Self::BURST);
        let allowed = left >= 1.0;
        self.left.insert(key, (if allowed { left - 1.0 } else { left }, now));
        allowed
    }
}

fn resource(state: &State, api: Api) -> Result<Arc<ResourceType>, StatusError> {
    state.built_in(api.group, api.version, api.plural).ok_or_else(StatusError::no_such_resource)
}

fn object_key(object: &Value) -> ObjectKey {
    ObjectKey::new(namespace(object), name(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::workloads::objects::seconds;

    #[test]
    fn events_are_limited_per_object() {
        let mut budget = EventBudget::default();
        let note = EventNote {
            api: PODS,
            about: json!({"metadata": {"uid": "u"}}),
            component: "kubelet",
            warning: false,
            reason: "Started",
            message: String::new(),
        };
        let start = Timestamp::UNIX_EPOCH;
        let allowed = (0..100).filter(|_| budget.allows(&note, start)).count();
        assert_eq!(allowed, 25);
        assert!(!budget.allows(&note, seconds(start, 299)));
        assert!(budget.allows(&note, seconds(start, 600)));
        let other = EventNote { about: json!({"metadata": {"uid": "other"}}), ..note };
        assert!(budget.allows(&other, start));
    }
}
