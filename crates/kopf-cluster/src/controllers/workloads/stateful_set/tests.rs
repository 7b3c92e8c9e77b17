//! The tests of `stateful_set.rs`.

use super::*;

fn set(replicas: i64, image: &str, policy: &str) -> Value {
    json!({
        "metadata": {"name": "db", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"replicas": replicas, "serviceName": "db", "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"image": image}}},
        "status": {"replicas": 0},
    })
}

/// A simulation in which pods become ready, and terminate, in the next pass.
#[derive(Default)]
struct Simulation {
    pods: Vec<Value>,
    revisions: Vec<Value>,
    actions: Vec<String>,
}

impl Simulation {
    fn run_until_stable(&mut self, mut set: Value) -> Value {
        for _ in 0..50 {
            let plan =
                reconcile(Timestamp::UNIX_EPOCH, &set, self.pods.clone(), self.revisions.clone(), &BTreeSet::new());
            if plan.actions.is_empty() {
                return set;
            }
            for pod in &mut self.pods {
                pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            }
            for action in plan.actions {
                match action {
                    Action::Create { api, object, .. } if api == PODS => {
                        self.actions.push(format!("+{}", name(&object)));
                        self.pods.push(object);
                    }
                    Action::Create { object, .. } => self.revisions.push(object),
                    Action::Delete { object, .. } => {
                        self.actions.push(format!("-{}", name(&object)));
                        self.pods.retain(|pod| name(pod) != name(&object));
                    }
                    Action::UpdateStatus { object, .. } => set = object,
                    _ => {}
                }
            }
        }
        panic!("the set does not become stable: {:?}", self.actions);
    }
}

#[test]
fn pods_come_and_go_in_order() {
    let mut simulation = Simulation::default();
    let made = simulation.run_until_stable(set(3, "one", "OrderedReady"));
    assert_eq!(std::mem::take(&mut simulation.actions), ["+db-0", "+db-1", "+db-2"]);
    assert_eq!(made["status"]["currentReplicas"], 3, "{made:#}");
    let mut other = set(3, "two", "OrderedReady");
    other["status"] = made["status"].clone();
    let rolled = simulation.run_until_stable(other);
    assert_eq!(std::mem::take(&mut simulation.actions), ["-db-2", "+db-2", "-db-1", "+db-1", "-db-0", "+db-0"]);
    assert_eq!(rolled["status"]["currentRevision"], rolled["status"]["updateRevision"]);
    assert_ne!(rolled["status"]["currentRevision"], made["status"]["currentRevision"]);
    let mut fewer = set(1, "two", "OrderedReady");
    fewer["status"] = rolled["status"].clone();
    simulation.run_until_stable(fewer);
    assert_eq!(simulation.actions, ["-db-2", "-db-1"]);
}

#[test]
fn a_partition_keeps_the_first_pods_as_they_are() {
    let mut simulation = Simulation::default();
    let made = simulation.run_until_stable(set(3, "one", "Parallel"));
    simulation.actions.clear();
    let mut other = set(3, "two", "Parallel");
    other["status"] = made["status"].clone();
    other["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2);
    let rolled = simulation.run_until_stable(other);
    assert_eq!(simulation.actions, ["-db-2", "+db-2"]);
    assert_eq!((number(&rolled, "/status/currentReplicas"), number(&rolled, "/status/updatedReplicas")), (2, 1));
}

#[test]
fn claims_are_made_for_each_pod() {
    let mut with_claims = set(1, "one", "OrderedReady");
    with_claims["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"x": 1}}]);
    let plan = reconcile(Timestamp::UNIX_EPOCH, &with_claims, Vec::new(), Vec::new(), &BTreeSet::new());
    let claims: Vec<&Value> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Create { api, object, .. } if *api == CLAIMS => Some(object),
            _ => None,
        })
        .collect();
    assert_eq!(claims.len(), 1, "{plan:#?}");
    assert_eq!(claims[0]["metadata"]["name"], "data-db-0");
    assert_eq!(claims[0]["metadata"]["labels"], json!({"app": "db"}));
}
