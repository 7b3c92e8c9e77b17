//! The validation of built-in kinds beyond their schemas: rules as data.
//!
//! In a real server this is code, thousands of lines per group of kinds. Here each group is a table
//! of [`Rule`]s, read from top to bottom, because clients see the errors in that order. A function in the
//! table covers what no rule expresses. `builtin/kinds.rs` calls [`check`] for every object that is written.

mod evaluate;
mod value_checks;
mod selectors;
mod claims;
mod pods;
mod workloads;
mod statuses;
mod jobs;
mod autoscaling;
mod services;
mod configuration;
mod flow_control;
mod storage;
mod access;
mod network;
mod registration;
mod policies;
mod certificates;
mod events;
mod warnings;

use serde_json::Value;

use crate::catalog::ResourceType;
use crate::go::FieldError;

pub(crate) use warnings::{has_warnings, warnings};

use evaluate::{Condition, Location, Rule, Rules, ValueCheck};
use value_checks::is_empty;

/// The tables by `plural.group`: the rules for an object, and for its status alone.
const KINDS: &[(&str, Rules, Rules)] = &[
    ("pods", pods::POD, pods::STATUS),
    ("podtemplates", workloads::POD_TEMPLATE_OBJECT, &[]),
    ("replicationcontrollers", workloads::REPLICATION_CONTROLLER, statuses::REPLICATION_CONTROLLER),
    ("deployments.apps", workloads::DEPLOYMENT, statuses::DEPLOYMENT),
    ("replicasets.apps", workloads::REPLICA_SET, statuses::REPLICA_SET),
    ("statefulsets.apps", workloads::STATEFUL_SET, statuses::STATEFUL_SET),
    ("daemonsets.apps", workloads::DAEMON_SET, statuses::DAEMON_SET),
    ("controllerrevisions.apps", workloads::CONTROLLER_REVISION, &[]),
    ("jobs.batch", jobs::JOB, statuses::JOB),
    ("cronjobs.batch", jobs::CRON_JOB, &[]),
    ("poddisruptionbudgets.policy", workloads::DISRUPTION_BUDGET, statuses::DISRUPTION_BUDGET),
    ("horizontalpodautoscalers.autoscaling", autoscaling::AUTOSCALER, statuses::AUTOSCALER),
    ("services", services::SERVICE, services::STATUS),
    ("endpoints", services::ENDPOINTS, &[]),
    ("endpointslices.discovery.k8s.io", services::ENDPOINT_SLICE, &[]),
    ("configmaps", configuration::CONFIG_MAP, &[]),
    ("secrets", configuration::SECRET, &[]),
    ("namespaces", configuration::NAMESPACE, &[]),
    ("nodes", configuration::NODE, configuration::NODE_STATUS),
    ("limitranges", configuration::LIMIT_RANGE, &[]),
    ("resourcequotas", configuration::RESOURCE_QUOTA, configuration::QUOTA_STATUS),
    ("leases.coordination.k8s.io", configuration::LEASE, &[]),
    ("priorityclasses.scheduling.k8s.io", configuration::PRIORITY_CLASS, &[]),
    ("runtimeclasses.node.k8s.io", configuration::RUNTIME_CLASS, &[]),
    ("flowschemas.flowcontrol.apiserver.k8s.io", flow_control::FLOW_SCHEMA, flow_control::STATUS),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", flow_control::PRIORITY_LEVEL, flow_control::STATUS),
    ("persistentvolumeclaims", claims::CLAIM, claims::CLAIM_STATUS),
    ("persistentvolumes", storage::VOLUME, &[]),
    ("storageclasses.storage.k8s.io", storage::CLASS, &[]),
    ("csidrivers.storage.k8s.io", storage::csi::DRIVER, &[]),
    ("csinodes.storage.k8s.io", storage::csi::NODE, &[]),
    ("csistoragecapacities.storage.k8s.io", storage::csi::CAPACITY, &[]),
    ("volumeattachments.storage.k8s.io", storage::csi::ATTACHMENT, storage::csi::ATTACHMENT_STATUS),
    ("volumeattributesclasses.storage.k8s.io", storage::csi::ATTRIBUTES_CLASS, &[]),
    ("roles.rbac.authorization.k8s.io", access::ROLE, &[]),
    ("clusterroles.rbac.authorization.k8s.io", access::CLUSTER_ROLE, &[]),
    ("rolebindings.rbac.authorization.k8s.io", access::ROLE_BINDING, &[]),
    ("clusterrolebindings.rbac.authorization.k8s.io", access::CLUSTER_ROLE_BINDING, &[]),
    ("ingresses.networking.k8s.io", network::INGRESS, network::INGRESS_STATUS),
    ("ingressclasses.networking.k8s.io", network::INGRESS_CLASS, &[]),
    ("networkpolicies.networking.k8s.io", network::NETWORK_POLICY, &[]),
    ("ipaddresses.networking.k8s.io", network::ADDRESS, &[]),
    ("servicecidrs.networking.k8s.io", network::SERVICE_RANGES, &[]),
    ("certificatesigningrequests.certificates.k8s.io", certificates::SIGNING_REQUEST, certificates::SIGNING_REQUEST),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", registration::WEBHOOKS, &[]),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", registration::WEBHOOKS, &[]),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", policies::VALIDATING, &[]),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", policies::VALIDATING_BINDING, &[]),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", policies::MUTATING, &[]),
    ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", policies::MUTATING_BINDING, &[]),
    ("apiservices.apiregistration.k8s.io", registration::API_SERVICE, &[]),
    ("events", events::OLD, &[]),
    ("events.events.k8s.io", events::NEW, &[]),
];

/// The errors in an object besides its metadata.
pub(crate) fn check(resource: &ResourceType, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    find(resource).map(|(_, rules, _)| evaluate::run(rules, object, old)).unwrap_or_default()
}

/// The errors in a new status of an object.
pub(crate) fn check_status(resource: &ResourceType, object: &Value, old: &Value) -> Vec<FieldError> {
    find(resource).map(|(_, _, rules)| evaluate::run(rules, object, Some(old))).unwrap_or_default()
}

fn find(resource: &ResourceType) -> Option<&'static (&'static str, Rules, Rules)> {
    let name = resource.qualified();
    KINDS.iter().find(|(kind, _, _)| *kind == name && resource.custom().is_none())
}
