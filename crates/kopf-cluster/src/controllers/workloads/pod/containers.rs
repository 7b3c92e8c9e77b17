//! The containers of a pod, as its status shows them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::workloads::objects::{number, text, time};
use crate::support::clock::timestamp;

/// Images that start so cannot run.
const FAILING: &str = "fail/";
const FIRST_BACK_OFF_SECONDS: u64 = 10;
const LAST_BACK_OFF_SECONDS: u64 = 300;

/// What happens to the containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerPhase {
    /// They are being made.
    Creating,
    /// They start.
    Started,
    /// Those that have failed start again, and fail again.
    Restarted,
    /// They have done what they had to do.
    Completed,
    /// Nothing.
    Unchanged,
}

/// Leads the containers through a moment of their lives.
pub(crate) fn live(pod: &mut Value, now: Timestamp, life: ContainerPhase) {
    if life == ContainerPhase::Unchanged {
        return;
    }
    let now = timestamp(now);
    let pod_name =
        format!("{}_{}({})", text(pod, "/metadata/name"), text(pod, "/metadata/namespace"), text(pod, "/metadata/uid"));
    let restarts_failed = text(pod, "/spec/restartPolicy") != "Never";
    let init = list(pod, "/spec/initContainers");
    let init_fails = init.iter().any(|container| fails(container) && !is_sidecar(container));
    let known_statuses = |field: &str| list(pod, &format!("/status/{field}"));
    let (known_init, known_main) = (known_statuses("initContainerStatuses"), known_statuses("containerStatuses"));
    let one = |container: &Value, known: &[Value], waits: bool, ends: bool| {
        let before = known.iter().find(|status| status["name"] == container["name"]);
        let status = Status { container, before, now: &now, pod_name: &pod_name, restarts_failed };
        status.next(life, waits, ends)
    };
    let mut failed = false;
    let mut init_statuses = Vec::new();
    for container in &init {
        // What comes after a failed one never starts.
        init_statuses.push(one(container, &known_init, failed, !is_sidecar(container)));
        failed |= fails(container) && !is_sidecar(container);
    }
    let main = list(pod, "/spec/containers");
    let statuses: Vec<Value> = main.iter().map(|container| one(container, &known_main, init_fails, false)).collect();
    if !init_statuses.is_empty() {
        pod["status"]["initContainerStatuses"] = Value::Array(init_statuses);
    }
    pod["status"]["containerStatuses"] = Value::Array(statuses);
}

/// One container at one moment.
struct Status<'a> {
    container: &'a Value,
    before: Option<&'a Value>,
    now: &'a str,
    pod_name: &'a str,
    restarts_failed: bool,
}

impl Status<'_> {
    /// Its next status; `waits` for others before it can start, `ends` by itself when it has started.
    fn next(&self, life: ContainerPhase, waits: bool, ends: bool) -> Value {
        let restarts = self.before.map_or(0, |before| number(before, "/restartCount"));
        if life == ContainerPhase::Creating || waits {
            let reason = if waits { "PodInitializing" } else { "ContainerCreating" };
            return self.show(json!({"waiting": {"reason": reason}}), json!({}), false, 0);
        }
        if fails(self.container) {
            return self.failed(life, restarts);
        }
        match life {
            ContainerPhase::Started if ends => self.show(self.terminated(0, "Completed"), json!({}), true, restarts),
            ContainerPhase::Completed => self.show(self.terminated(0, "Completed"), json!({}), false, restarts),
            ContainerPhase::Started => {
                self.show(json!({"running": {"startedAt": self.now}}), json!({}), true, restarts)
            }
            // The others live on while failing ones start again.
            _ => self.before.cloned().unwrap_or_default(),
        }
    }

    fn failed(&self, life: ContainerPhase, restarts: i64) -> Value {
        match life {
            ContainerPhase::Restarted if self.restarts_failed => {
                let restarts = restarts + 1;
                let pause = back_off_seconds(restarts);
                // As durations are written in Go.
                let shown = match pause {
                    seconds if seconds < 60 => format!("{seconds}s"),
                    seconds => format!("{}m{}s", seconds / 60, seconds % 60),
                };
                let message = format!(
                    "back-off {shown} restarting failed container={} pod={}",
                    text(self.container, "/name"),
                    self.pod_name
                );
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
                self.show(waiting, self.terminated(1, "Error"), false, restarts)
            }
            ContainerPhase::Started => self.show(self.terminated(1, "Error"), json!({}), false, restarts),
            _ => self.before.cloned().unwrap_or_default(),
        }
    }

    fn terminated(&self, code: i64, reason: &str) -> Value {
        let started = self.before.and_then(|before| before.pointer("/state/running/startedAt")?.as_str());
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": started.unwrap_or(self.now),
            "finishedAt": self.now}})
    }

    fn show(&self, state: Value, last: Value, ready: bool, restarts: i64) -> Value {
        let started = state.get("running").is_some();
        json!({"name": self.container["name"], "state": state, "lastState": last, "ready": ready,
            "restartCount": restarts, "image": self.container["image"], "imageID": "", "started": started})
    }
}

/// How often the containers of a pod have been started again, at most.
pub(crate) fn restarts(pod: &Value) -> i64 {
    statuses(pod).map(|status| number(&status, "/restartCount")).max().unwrap_or_default()
}

/// When a container has failed that is to be started again.
pub(crate) fn crashed_at(pod: &Value) -> Option<Timestamp> {
    if text(pod, "/spec/restartPolicy") == "Never" {
        return None;
    }
    statuses(pod)
        .filter_map(|status| match number(&status, "/state/terminated/exitCode") {
            0 if text(&status, "/state/waiting/reason") == "CrashLoopBackOff" => {
                time(&status, "/lastState/terminated/finishedAt")
            }
            0 => None,
            _ => time(&status, "/state/terminated/finishedAt"),
        })
        .max()
}

/// How long it takes until a container is started again.
pub(crate) fn back_off(restarts: i64) -> Duration {
    Duration::from_secs(back_off_seconds(restarts))
}

fn back_off_seconds(restarts: i64) -> u64 {
    let doublings = u32::try_from(restarts.clamp(1, 10) - 1).unwrap_or_default();
    (FIRST_BACK_OFF_SECONDS << doublings).min(LAST_BACK_OFF_SECONDS)
}

/// Which containers are not ready.
pub(crate) fn unready(pod: &Value) -> Vec<String> {
    let found = list(pod, "/status/containerStatuses");
    found.iter().filter(|status| status["ready"] != true).map(|status| text(status, "/name").to_owned()).collect()
}

/// Whether all that has to be done before the pod runs is done.
pub(crate) fn all_initialized(pod: &Value) -> bool {
    list(pod, "/status/initContainerStatuses").iter().all(|status| status["ready"] == true)
}

/// The phase that follows from the containers.
pub(crate) fn phase(pod: &Value) -> &'static str {
    let statuses = list(pod, "/status/containerStatuses");
    let init = list(pod, "/status/initContainerStatuses");
    let never = text(pod, "/spec/restartPolicy") == "Never";
    let code = |status: &Value| status.pointer("/state/terminated/exitCode").and_then(Value::as_i64);
    if init.iter().any(|status| code(status).is_some_and(|code| code != 0)) && never {
        return "Failed";
    }
    let waits =
        |status: &Value| matches!(text(status, "/state/waiting/reason"), "ContainerCreating" | "PodInitializing");
    if statuses.iter().any(waits) {
        return "Pending";
    }
    let over = |status: &Value| match code(status) {
        Some(0) => text(pod, "/spec/restartPolicy") != "Always",
        Some(_) => never,
        None => false,
    };
    match statuses.iter().all(over) {
        true if statuses.iter().all(|status| code(status) == Some(0)) => "Succeeded",
        true => "Failed",
        false => "Running",
    }
}

/// The event of a kubelet: whether it is a warning, the reason, the message.
pub(crate) fn notes(pod: &Value, life: ContainerPhase) -> Vec<(bool, &'static str, String)> {
    let mut notes = Vec::new();
    for container in list(pod, "/spec/containers") {
        let name = text(&container, "/name");
        match life {
            ContainerPhase::Started => {
                let image = text(&container, "/image");
                notes.push((false, "Pulled", format!("Container image \"{image}\" already present on machine")));
                notes.push((false, "Created", format!("Container created: {name}")));
                notes.push((false, "Started", format!("Container started: {name}")));
            }
            ContainerPhase::Restarted if fails(&container) => {
                let pod_name = format!(
                    "{}_{}({})",
                    text(pod, "/metadata/name"),
                    text(pod, "/metadata/namespace"),
                    text(pod, "/metadata/uid")
                );
                let message = format!("Back-off restarting failed container {name} in pod {pod_name}");
                notes.push((true, "BackOff", message));
            }
            _ => {}
        }
    }
    notes
}

fn statuses(pod: &Value) -> impl Iterator<Item = Value> + use<> {
    list(pod, "/status/initContainerStatuses").into_iter().chain(list(pod, "/status/containerStatuses"))
}

fn fails(container: &Value) -> bool {
    text(container, "/image").starts_with(FAILING)
}

/// Containers that start before the others, and run beside them.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn list(object: &Value, pointer: &str) -> Vec<Value> {
    object.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}
