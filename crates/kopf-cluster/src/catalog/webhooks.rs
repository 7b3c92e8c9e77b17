//! The admission webhooks of a cluster, parsed from their configurations.
//!
//! `state.rs` keeps the current [`Webhooks`] next to the catalog, and replaces them when a configuration changes.

mod target;
mod rules;
mod match_conditions;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ResourceType;
use crate::values::selector::LabelSelector;
use match_conditions::MatchCondition;
use rules::RuleWithOperations;

pub(crate) use match_conditions::{ConditionInput, all_hold};
pub(crate) use rules::Subject;
pub(crate) use target::{Address, ConversionWebhook, Target};

/// All webhooks, in the order in which they are called.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    pub mutating: Vec<Webhook>,
    pub validating: Vec<Webhook>,
}

/// One webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// Unique among all webhooks: the name of the configuration and the index in it.
    pub id: String,
    pub name: String,
    pub target: Arc<Target>,
    pub rules: Vec<RuleWithOperations>,
    pub ignores_failures: bool,
    /// Whether it also matches other versions of the same resources.
    pub matches_equivalent: bool,
    pub namespace_selector: LabelSelector,
    pub object_selector: LabelSelector,
    pub conditions: Vec<MatchCondition>,
    pub may_run_dry: bool,
    pub timeout: Duration,
    /// The version of `AdmissionReview` that it reads.
    pub review_version: String,
    pub reinvoked_if_needed: bool,
}

impl Webhooks {
    /// Whether objects of the resource configure webhooks.
    pub(crate) fn are_configured_by(resource: &ResourceType) -> bool {
        resource.is("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
            || resource.is("admissionregistration.k8s.io", "validatingwebhookconfigurations")
    }

    /// Parses all configurations, each type in the order of the names.
    pub(crate) fn parse(mutating: &[Value], validating: &[Value]) -> Self {
        let read = |configurations: &[Value]| configurations.iter().flat_map(webhooks_of).collect();
        Self { mutating: read(mutating), validating: read(validating) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

fn webhooks_of(configuration: &Value) -> Vec<Webhook> {
    let owner = configuration["metadata"]["name"].as_str().unwrap_or_default();
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten().enumerate();
    webhooks.map(|(position, webhook)| read(format!("{owner}/{position}"), webhook)).collect()
}

fn read(id: String, webhook: &Value) -> Webhook {
    let text = |field: &str| webhook[field].as_str().unwrap_or_default();
    let list = |field: &str| webhook[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let versions = list("admissionReviewVersions").iter().filter_map(Value::as_str);
    let known = |version: &&str| matches!(*version, "v1" | "v1beta1");
    Webhook {
        id,
        name: text("name").to_owned(),
        target: Arc::new(Target::parse(&webhook["clientConfig"])),
        rules: list("rules").iter().map(RuleWithOperations::parse).collect(),
        ignores_failures: text("failurePolicy") == "Ignore",
        matches_equivalent: text("matchPolicy") != "Exact",
        namespace_selector: LabelSelector::of_value(&webhook["namespaceSelector"]),
        object_selector: LabelSelector::of_value(&webhook["objectSelector"]),
        conditions: list("matchConditions").iter().map(MatchCondition::parse).collect(),
        may_run_dry: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
        timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
        review_version: versions.clone().find(known).unwrap_or("v1").to_owned(),
        reinvoked_if_needed: text("reinvocationPolicy") == "IfNeeded",
    }
}
