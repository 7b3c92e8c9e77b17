//! What a controller wants to happen: the common language of all kinds and the driver.

use jiff::Timestamp;
use serde_json::Value;

/// The key of a resource in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Api {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
}

pub(super) const PODS: Api = Api { group: "", version: "v1", plural: "pods", kind: "Pod" };
pub(super) const NODES: Api = Api { group: "", version: "v1", plural: "nodes", kind: "Node" };
pub(super) const EVENTS: Api = Api { group: "", version: "v1", plural: "events", kind: "Event" };
pub(super) const LEASES: Api = Api { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease" };
pub(super) const DEPLOYMENTS: Api = Api { group: "apps", version: "v1", plural: "deployments", kind: "Deployment" };
pub(super) const REPLICA_SETS: Api = Api { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet" };
pub(super) const REPLICATION_CONTROLLERS: Api =
    Api { group: "", version: "v1", plural: "replicationcontrollers", kind: "ReplicationController" };

pub(super) const CONTROLLER_REVISIONS: Api =
    Api { group: "apps", version: "v1", plural: "controllerrevisions", kind: "ControllerRevision" };
pub(super) const STATEFUL_SETS: Api = Api { group: "apps", version: "v1", plural: "statefulsets", kind: "StatefulSet" };
pub(super) const DAEMON_SETS: Api = Api { group: "apps", version: "v1", plural: "daemonsets", kind: "DaemonSet" };
pub(super) const JOBS: Api = Api { group: "batch", version: "v1", plural: "jobs", kind: "Job" };
pub(super) const CRON_JOBS: Api = Api { group: "batch", version: "v1", plural: "cronjobs", kind: "CronJob" };
pub(super) const CLAIMS: Api =
    Api { group: "", version: "v1", plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim" };
pub(super) const VOLUMES: Api = Api { group: "", version: "v1", plural: "persistentvolumes", kind: "PersistentVolume" };
pub(super) const STORAGE_CLASSES: Api =
    Api { group: "storage.k8s.io", version: "v1", plural: "storageclasses", kind: "StorageClass" };
pub(super) const SERVICES: Api = Api { group: "", version: "v1", plural: "services", kind: "Service" };
pub(super) const ENDPOINTS: Api = Api { group: "", version: "v1", plural: "endpoints", kind: "Endpoints" };
pub(super) const ENDPOINT_SLICES: Api =
    Api { group: "discovery.k8s.io", version: "v1", plural: "endpointslices", kind: "EndpointSlice" };
pub(super) const BUDGETS: Api =
    Api { group: "policy", version: "v1", plural: "poddisruptionbudgets", kind: "PodDisruptionBudget" };

impl Api {
    /// `apps/v1`, as in objects.
    pub(super) fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Who writes what the controllers write.
pub(super) const CONTROLLERS: &str = "kube-controller-manager";
/// Who writes the status of pods and nodes.
pub(super) const KUBELET: &str = "kubelet";
pub(super) const SCHEDULER: &str = "kube-scheduler";

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// A new object; its namespace is in its metadata.
    Create { api: Api, object: Value, manager: &'static str },
    /// The next state of an object without its status. It fails if the object has changed in between.
    Update { api: Api, object: Value, manager: &'static str },
    /// The next status of an object, likewise.
    UpdateStatus { api: Api, object: Value, manager: &'static str },
    /// A pod gets its node.
    Bind { pod: Value, node: String },
    /// The end of an object, if it is still the same one.
    Delete { api: Api, object: Value, grace_period_seconds: Option<i64> },
    /// Something people may want to know about an object.
    EventNote(EventNote),
}

/// An event of the API, as `kubectl describe` shows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventNote {
    pub api: Api,
    /// The object that it is about.
    pub about: Value,
    pub component: &'static str,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// What to do about an object now, and when to reconcile it again even if nothing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub actions: Vec<Action>,
    pub wake: Option<Timestamp>,
}

impl Plan {
    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Requeues the object at a time; the earliest one wins.
    pub(super) fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |known| known.min(time)));
    }

    pub(super) fn note(
        &mut self,
        api: Api,
        about: &Value,
        component: &'static str,
        reason: &'static str,
        message: String,
    ) {
        self.push(Action::EventNote(EventNote {
            api,
            about: about.clone(),
            component,
            warning: false,
            reason,
            message,
        }));
    }

    pub(super) fn warn(
        &mut self,
        api: Api,
        about: &Value,
        component: &'static str,
        reason: &'static str,
        message: String,
    ) {
        self.push(Action::EventNote(EventNote {
            api,
            about: about.clone(),
            component,
            warning: true,
            reason,
            message,
        }));
    }
}
