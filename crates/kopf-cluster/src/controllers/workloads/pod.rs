//! Pods on a node: what a kubelet does with them, without any container.
//!
//! A pod starts, runs, and stops; the pods of jobs end by themselves; containers with images that
//! start with `fail/` end at once, again and again. Times of objects are whole seconds, so the
//! driver remembers since when a pod has been in its stage.

pub(super) mod containers;
pub(super) mod scheduling;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{controller_of, is_deleted, is_over, number, set_condition, text, time};
use super::plan::{Action, KUBELET, PODS, Plan};
use crate::support::clock::{later, timestamp};
use crate::support::options::Workloads;
use containers::ContainerPhase;

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It has no node yet.
    Unscheduled,
    /// It has a node, and its containers are being made.
    Starting,
    /// Its containers run, or are made to run again after this many restarts.
    Running { restarts: i64 },
    /// It was deleted, and its containers are being stopped.
    Stopping,
    /// Nothing will happen to it any more.
    Over,
}

/// What the controller knows about a pod besides the object itself.
#[derive(Clone, Debug)]
pub(super) struct PodContext {
    /// Since when it has been in its stage.
    pub since: Timestamp,
    /// The address of its node.
    pub host: String,
    /// The address that it gets if it needs one.
    pub address: String,
    pub workloads: Workloads,
}

pub(super) fn stage(pod: &Value) -> Stage {
    if text(pod, "/spec/nodeName").is_empty() {
        return Stage::Unscheduled;
    }
    if is_deleted(pod) {
        let stopped = number(pod, "/metadata/deletionGracePeriodSeconds") == 0;
        return if stopped { Stage::Over } else { Stage::Stopping };
    }
    match text(pod, "/status/phase") {
        _ if is_over(pod) => Stage::Over,
        "Running" => Stage::Running { restarts: containers::restarts(pod) },
        _ => Stage::Starting,
    }
}

pub(super) fn reconcile(now: Timestamp, pod: &Value, setting: &PodContext) -> Plan {
    let mut plan = Plan::default();
    match stage(pod) {
        Stage::Starting => start(&mut plan, now, pod, setting),
        Stage::Running { .. } => run(&mut plan, now, pod, setting),
        Stage::Stopping => {
            let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
            let stopped = later(setting.since, setting.workloads.stop_delay.min(grace));
            match stopped <= now {
                true => {
                    plan.push(Action::Delete { api: PODS, object: pod.clone(), grace_period_seconds: Some(0) });
                }
                false => plan.wake_at(stopped),
            }
        }
        Stage::Unscheduled | Stage::Over => {}
    }
    plan
}

fn start(plan: &mut Plan, now: Timestamp, pod: &Value, setting: &PodContext) {
    let ready = later(setting.since, setting.workloads.ready_delay);
    if ready <= now {
        let mut object = pod.clone();
        let address = match pod["spec"]["hostNetwork"] == true {
            true => setting.host.clone(),
            false => setting.address.clone(),
        };
        for (field, value) in [
            ("hostIP", json!(setting.host)),
            ("podIP", json!(address)),
            ("podIPs", json!([{"ip": address}])),
            ("hostIPs", json!([{"ip": setting.host}])),
        ] {
            object["status"][field] = value;
        }
        if object["status"].get("startTime").is_none() {
            object["status"]["startTime"] = json!(timestamp(now));
        }
        live_on(plan, now, pod, object, ContainerPhase::Started);
        return;
    }
    if pod["status"].get("startTime").is_none() {
        let mut object = pod.clone();
        object["status"]["hostIP"] = json!(setting.host);
        object["status"]["startTime"] = json!(timestamp(now));
        show(&mut object, now, ContainerPhase::Creating);
        plan.push(Action::UpdateStatus { api: PODS, object, manager: KUBELET });
    }
    plan.wake_at(ready);
}

fn run(plan: &mut Plan, now: Timestamp, pod: &Value, setting: &PodContext) {
    let in_job = controller_of(pod).is_some_and(|owner| owner["kind"] == "Job");
    if let Some(crashed) = containers::crashed_at(pod) {
        // The first restart is at once; then it takes longer and longer.
        let restarts = containers::restarts(pod);
        let again = match restarts {
            0 => later(setting.since, setting.workloads.ready_delay),
            _ => later(crashed, containers::back_off(restarts)),
        };
        match again <= now {
            true => live_on(plan, now, pod, pod.clone(), ContainerPhase::Restarted),
            false => plan.wake_at(again),
        }
    } else if in_job {
        let done = later(setting.since, setting.workloads.run_duration);
        match done <= now {
            true => live_on(plan, now, pod, pod.clone(), ContainerPhase::Completed),
            false => plan.wake_at(done),
        }
    } else {
        // Conditions that the pod waits for may have come true.
        let mut object = pod.clone();
        show(&mut object, now, ContainerPhase::Unchanged);
        if object != *pod {
            plan.push(Action::UpdateStatus { api: PODS, object, manager: KUBELET });
        }
    }
}

/// The next moment in the life of the containers.
fn live_on(plan: &mut Plan, now: Timestamp, pod: &Value, mut object: Value, life: ContainerPhase) {
    show(&mut object, now, life);
    for (warning, reason, message) in containers::notes(&object, life) {
        match warning {
            true => plan.warn(PODS, pod, "kubelet", reason, message),
            false => plan.note(PODS, pod, "kubelet", reason, message),
        }
    }
    plan.actions.insert(0, Action::UpdateStatus { api: PODS, object, manager: KUBELET });
}

/// Puts the containers and all that follows from them into the status.
fn show(object: &mut Value, now: Timestamp, life: ContainerPhase) {
    containers::live(object, now, life);
    let initialized = containers::all_initialized(object);
    let unready = containers::unready(object);
    let phase = containers::phase(object);
    object["status"]["phase"] = json!(phase);
    let over = matches!(phase, "Succeeded" | "Failed");
    let mut conditions: Vec<Value> = Vec::new();
    conditions.push(match initialized {
        true => plain("Initialized", true),
        false => {
            reasoned("Initialized", "ContainersNotInitialized", "containers with incomplete status: [{}]", &unready)
        }
    });
    let ready = match (over, unready.is_empty()) {
        (true, _) => json!({"status": "False", "reason": "PodCompleted"}),
        (false, true) => json!({"status": "True"}),
        (false, false) => reasoned("", "ContainersNotReady", "containers with unready status: [{}]", &unready),
    };
    let mut pod_ready = ready.clone();
    if let Some(message) = missing_gates(object).filter(|_| ready["status"] == "True") {
        pod_ready = json!({"status": "False", "reason": "ReadinessGatesNotReady", "message": message});
    }
    for (kind, mut condition) in [("Ready", pod_ready), ("ContainersReady", ready)] {
        condition["type"] = json!(kind);
        conditions.push(condition);
    }
    let known = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let own = |kind: &Value| conditions.iter().any(|condition| condition["type"] == *kind);
    let others: Vec<Value> = known.iter().filter(|condition| !own(&condition["type"])).cloned().collect();
    let mut merged = Vec::new();
    for mut condition in conditions {
        condition["lastProbeTime"] = Value::Null;
        let before = known.iter().find(|before| before["type"] == condition["type"]);
        let unchanged = before.filter(|before| before["status"] == condition["status"]);
        let since = unchanged.and_then(|before| time(before, "/lastTransitionTime")).unwrap_or(now);
        let mut holder = json!({});
        set_condition(&mut holder, condition, since);
        merged.extend(holder["conditions"].as_array().cloned().unwrap_or_default());
    }
    merged.extend(others);
    object["status"]["conditions"] = Value::Array(merged);
}

fn plain(kind: &str, status: bool) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }})
}

fn reasoned(kind: &str, reason: &str, message: &str, names: &[String]) -> Value {
    let message = message.replace("{}", &names.join(" "));
    json!({"type": kind, "status": "False", "reason": reason, "message": message})
}

/// Conditions that others have to set before a pod counts as ready.
fn missing_gates(pod: &Value) -> Option<String> {
    let gates = pod["spec"]["readinessGates"].as_array()?;
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let messages: Vec<String> = gates
        .iter()
        .map(|gate| text(gate, "/conditionType"))
        .filter_map(|kind| match conditions.iter().find(|condition| condition["type"] == kind) {
            None => Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
            Some(found) if found["status"] != "True" => Some(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                text(found, "/status")
            )),
            Some(_) => None,
        })
        .collect();
    (!messages.is_empty()).then(|| messages.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::workloads::objects::seconds;

    fn pod(image: &str, restart_policy: &str) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "node", "restartPolicy": restart_policy, "containers": [{"name": "c", "image": image}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        })
    }

    fn owned_by_job(mut pod: Value) -> Value {
        pod["metadata"]["ownerReferences"] = json!([{"kind": "Job", "uid": "j", "controller": true}]);
        pod
    }

    /// Lives through the whole life of a pod: from wake-up to wake-up, as the driver does.
    fn live(mut pod: Value, until: i64) -> Vec<String> {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut since = (stage(&pod), now);
        let mut history = Vec::new();
        loop {
            if stage(&pod) != since.0 {
                since = (stage(&pod), now);
            }
            let setting = PodContext {
                since: since.1,
                host: "10.0.0.1".into(),
                address: "10.244.0.1".into(),
                workloads: Workloads::default(),
            };
            let plan = reconcile(now, &pod, &setting);
            let mut changed = false;
            for action in plan.actions {
                if let Action::UpdateStatus { object, .. } = action {
                    changed = true;
                    pod = object;
                    let status = &pod["status"]["containerStatuses"][0];
                    let state = status["state"].as_object().unwrap().keys().next().unwrap();
                    let ready = crate::controllers::workloads::objects::is_ready(&pod);
                    let reason = text(status, &format!("/state/{state}/reason"));
                    history.push(format!(
                        "{}s {} {state} {reason} x{} {}",
                        now.as_second(),
                        text(&pod, "/status/phase"),
                        status["restartCount"],
                        if ready { "ready" } else { "unready" }
                    ));
                }
            }
            match plan.wake {
                _ if changed => {}
                Some(time) if time <= seconds(Timestamp::UNIX_EPOCH, until) => now = time,
                _ => return history,
            }
        }
    }

    #[test]
    fn pods_start_and_run() {
        let expected = ["0s Pending waiting ContainerCreating x0 unready", "0s Running running  x0 ready"];
        assert_eq!(live(pod("nginx", "Always"), 3600), expected);
        // The simulation cannot know when other pods would end.
        assert_eq!(live(pod("nginx", "Never"), 3600), expected);
    }

    #[test]
    fn pods_of_jobs_end() {
        let history = live(owned_by_job(pod("perl", "Never")), 3600);
        assert_eq!(history.last().unwrap(), "0s Succeeded terminated Completed x0 unready", "{history:?}");
        let history = live(owned_by_job(pod("fail/perl", "Never")), 3600);
        assert_eq!(history.last().unwrap(), "0s Failed terminated Error x0 unready", "{history:?}");
    }

    #[test]
    fn failing_images_crash_and_back_off() {
        let expected = [
            "0s Pending waiting ContainerCreating x0 unready",
            "0s Running terminated Error x0 unready",
            "0s Running waiting CrashLoopBackOff x1 unready",
            "10s Running waiting CrashLoopBackOff x2 unready",
            "30s Running waiting CrashLoopBackOff x3 unready",
            "70s Running waiting CrashLoopBackOff x4 unready",
            "150s Running waiting CrashLoopBackOff x5 unready",
            "310s Running waiting CrashLoopBackOff x6 unready",
            "610s Running waiting CrashLoopBackOff x7 unready",
            "910s Running waiting CrashLoopBackOff x8 unready",
        ];
        assert_eq!(live(pod("fail/nginx", "Always"), 1000), expected);
    }

    #[test]
    fn gates_hold_the_readiness() {
        let mut waiting = pod("nginx", "Always");
        waiting["spec"]["readinessGates"] = json!([{"conditionType": "example.com/g"}]);
        show(&mut waiting, Timestamp::UNIX_EPOCH, ContainerPhase::Started);
        let conditions = waiting["status"]["conditions"].as_array().unwrap().clone();
        assert_eq!(conditions[1]["reason"], "ReadinessGatesNotReady", "{conditions:?}");
        assert_eq!(conditions[2]["status"], "True", "{conditions:?}");
        let opened = json!({"type": "example.com/g", "status": "True"});
        waiting["status"]["conditions"].as_array_mut().unwrap().push(opened);
        show(&mut waiting, Timestamp::UNIX_EPOCH, ContainerPhase::Unchanged);
        assert!(crate::controllers::workloads::objects::is_ready(&waiting), "{waiting:#}");
    }

    #[test]
    fn deleted_pods_stop_within_their_grace() {
        let mut deleted = pod("nginx", "Always");
        deleted["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        deleted["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        let setting = PodContext {
            since: Timestamp::UNIX_EPOCH,
            host: String::new(),
            address: String::new(),
            workloads: Workloads { stop_delay: Duration::from_secs(60), ..Workloads::default() },
        };
        let plan = reconcile(Timestamp::UNIX_EPOCH, &deleted, &setting);
        assert_eq!((plan.actions.len(), plan.wake), (0, Some(seconds(Timestamp::UNIX_EPOCH, 30))));
        let plan = reconcile(seconds(Timestamp::UNIX_EPOCH, 30), &deleted, &setting);
        assert!(matches!(plan.actions[..], [Action::Delete { grace_period_seconds: Some(0), .. }]), "{plan:?}");
        deleted["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        assert_eq!(reconcile(seconds(Timestamp::UNIX_EPOCH, 30), &deleted, &setting), Plan::default());
    }
}
