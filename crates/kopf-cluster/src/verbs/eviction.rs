//! Evictions: deletions of pods that respect the disruption budgets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::update::write_if_unchanged;
use crate::publish::render::decode;
use crate::request::status::StatusError;
use crate::state::State;
use crate::store::Stored;
use crate::values::selector::LabelSelector;

/// Counts the eviction of a pod in the budgets that select it, if they allow it.
pub(super) fn take_from_budgets(state: &Arc<State>, stored: &Stored) -> Result<(), StatusError> {
    let Some(resource) = state.built_in("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    let pod = stored.decode();
    // Pods that do not run do not count.
    let is_running = !matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Succeeded" | "Failed"));
    if !is_running || pod["metadata"].get("deletionTimestamp").is_some() {
        return Ok(());
    }
    let budgets = state.store().list(&resource.storage, Some(&stored.object_key.namespace), None);
    for budget in budgets {
        let selector = &decode(&resource, &budget)["spec"]["selector"];
        // A budget without a selector selects nothing.
        if !selector.is_object() || !LabelSelector::of_value(selector).matches(|key| stored.label(key)) {
            continue;
        }
        write_if_unchanged(state, &resource, &budget.object_key, false, |old| {
            let allowed = old["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
            if allowed <= 0 {
                return Err(exhausted(old));
            }
            let mut next = old.clone();
            next["status"]["disruptionsAllowed"] = json!(allowed - 1);
            Ok(next)
        })?;
    }
    Ok(())
}

/// The error if a budget allows no further eviction.
fn exhausted(budget: &Value) -> StatusError {
    let mut status_error = StatusError::bare("Cannot evict pod as it would violate the pod's disruption budget.");
    status_error.code = 429;
    status_error.reason = "TooManyRequests";
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let message = format!(
        "The disruption budget {} needs {} healthy pods and has {} currently",
        budget["metadata"]["name"].as_str().unwrap_or_default(),
        number("desiredHealthy"),
        number("currentHealthy")
    );
    *status_error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
    status_error
}
