//! Disruption budgets: how many pods may be evicted at the moment.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{is_active, is_ready, scaled, set_condition};
use super::plan::{Action, BUDGETS, CONTROLLERS, Plan};

/// `pods` are those that the budget selects; `wanted` is the number that their owners want.
pub(super) fn reconcile(now: Timestamp, budget: &Value, pods: &[Value], wanted: i64) -> Plan {
    let mut plan = Plan::default();
    let pods: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let found = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let healthy = i64::try_from(pods.iter().filter(|pod| is_ready(pod)).count()).unwrap_or(i64::MAX);
    let spec = &budget["spec"];
    let (expected, desired) = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        (_, Some(most)) => (wanted, (wanted - scaled(most, wanted, true)).max(0)),
        (Some(least @ Value::String(_)), None) => (wanted, scaled(least, wanted, true)),
        (Some(least), None) => (found, scaled(least, found, true)),
        (None, None) => (found, 1),
    };
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let mut status = budget["status"].clone();
    for (field, value) in [
        ("disruptionsAllowed", allowed),
        ("currentHealthy", healthy),
        ("desiredHealthy", desired),
        ("expectedPods", expected),
    ] {
        status[field] = json!(value);
    }
    let generation = budget["metadata"]["generation"].clone();
    status["observedGeneration"] = generation.clone();
    let (allowed_status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = json!({"type": "DisruptionAllowed", "status": allowed_status, "observedGeneration": generation,
        "lastTransitionTime": null, "reason": reason, "message": ""});
    set_condition(&mut status, condition, now);
    if status != budget["status"] {
        let mut object = budget.clone();
        object["status"] = status;
        plan.push(Action::UpdateStatus { api: BUDGETS, object, manager: CONTROLLERS });
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healthy_pods_may_be_disturbed() {
        let pod =
            |ready: &str| json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        let pods = [pod("True"), pod("True"), pod("False")];
        // Allowed, healthy, desired, expected.
        let check = |spec: Value, expected: [i64; 4]| {
            let budget = json!({"metadata": {"generation": 1}, "spec": spec, "status": {}});
            let plan = reconcile(Timestamp::UNIX_EPOCH, &budget, &pods, 4);
            let [Action::UpdateStatus { object, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
            let fields = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            assert_eq!(fields.map(|field| object["status"][field].as_i64().unwrap()), expected, "{budget}");
        };
        check(json!({"minAvailable": 1}), [1, 2, 1, 3]);
        check(json!({"minAvailable": "50%"}), [0, 2, 2, 4]);
        check(json!({"maxUnavailable": 3}), [1, 2, 1, 4]);
        check(json!({"maxUnavailable": "25%"}), [0, 2, 3, 4]);
    }
}
