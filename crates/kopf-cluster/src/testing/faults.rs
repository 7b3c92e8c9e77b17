//! Injected faults: what goes wrong in real clusters, on demand.
//!
//! Tests add faults by [`Faults`], other processes by `http/control.rs`. `http/service.rs` looks up the faults of
//! every request, `verbs/watch.rs` again whenever they change. `faults/fault_rules.rs` decides which fault hits.

mod fault_rules;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::request_info::RequestInfo;
use fault_rules::FaultRules;
pub(crate) use fault_rules::{Disruption, RequestFault, WatchFault};

/// What goes wrong, with which requests, and how often.
///
/// ```
/// # use std::time::Duration;
/// use kopf_cluster::{Effect, Fault};
///
/// let slow = Fault::new(Effect::delay(Duration::from_secs(2))).verb("list").resource("pods");
/// let busy = Fault::new(Effect::error(429).retry_after(1)).user_agent("my-operator").times(3);
/// # let _ = (slow, busy);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Which requests the fault hits; all by default.
    #[serde(rename = "match", default)]
    pub matches: Match,
    /// How many requests or watches it hits; by default all, until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    pub effect: Effect,
}

/// Which requests a fault hits. A missing field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Match {
    /// As in roles: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// As in roles: `pods`, `pods/status`, `pods/*` for both; with or without the group: `widgets.example.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A part of the `User-Agent` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// The effect of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Effect {
    /// The response is delayed, by the clock of the cluster.
    Delay { seconds: f64 },
    /// The request has no effect; this is the response.
    Error {
        code: u16,
        /// By default, the usual reason for the code.
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        message: Option<String>,
        /// The `Retry-After` header, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// The server closes the connection instead of responding; running watches are cut off at once.
    Disconnect,
    /// The request takes effect, but its response is truncated.
    CutAnswer,
    /// Watches end as if they had timed out.
    EndWatch,
    /// Watches are cut off in the middle of their next line.
    CutWatch,
    /// Watches stay connected, but receive nothing, not even their end, until the fault is removed; then
    /// everything follows.
    SilenceWatch,
    /// Watches get the error that their version is too old, as after a compaction.
    ExpireWatch,
    /// Watches get no bookmarks.
    DropBookmarks,
}

impl Fault {
    pub fn new(effect: Effect) -> Self {
        Self { matches: Match::default(), times: None, effect }
    }

    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.matches.verb = Some(verb.into());
        self
    }

    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.matches.resource = Some(resource.into());
        self
    }

    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.matches.namespace = Some(namespace.into());
        self
    }

    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.matches.name = Some(name.into());
        self
    }

    pub fn user_agent(mut self, part: impl Into<String>) -> Self {
        self.matches.user_agent = Some(part.into());
        self
    }

    /// Limits the fault to this number of requests or watches.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

impl Effect {
    pub fn delay(by: Duration) -> Self {
        Self::Delay { seconds: by.as_secs_f64() }
    }

    /// A response with this code, and the usual reason for it.
    pub fn error(code: u16) -> Self {
        Self::Error { code, reason: None, message: None, retry_after: None }
    }

    /// Adds the `Retry-After` header; other effects stay unchanged.
    pub fn retry_after(self, seconds: u32) -> Self {
        match self {
            Self::Error { code, reason, message, .. } => {
                Self::Error { code, reason, message, retry_after: Some(seconds) }
            }
            other => other,
        }
    }
}

/// Why a fault cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There are too many faults; a test probably forgot to remove them.
    #[error("there are {0} faults already")]
    TooMany(usize),
    /// The code is not an error code.
    #[error("{0} is not the code of an error: it must be between 400 and 599")]
    Code(u16),
    /// The delay is negative or longer than a day.
    #[error("a delay must be between 0 seconds and a day")]
    Delay,
}

/// An active fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActiveFault {
    pub id: u64,
    /// How many requests and watches it has hit.
    pub hits: u64,
    #[serde(flatten)]
    pub fault: Fault,
}

/// The faults of a cluster. Clones share them.
#[derive(Clone, Debug)]
pub struct Faults {
    registry: Arc<FaultRegistry>,
}

impl Faults {
    pub(crate) fn new(registry: Arc<FaultRegistry>) -> Self {
        Self { registry }
    }

    /// Adds a fault, and returns its id. It hits running watches at once.
    pub fn add(&self, fault: Fault) -> Result<u64, FaultError> {
        self.registry.change(|rules| rules.add(fault))
    }

    /// Replaces all faults.
    pub fn replace(&self, faults: Vec<Fault>) -> Result<Vec<u64>, FaultError> {
        self.registry.change(|rules| rules.replace(faults))
    }

    /// Removes a fault; false if there is none with this id.
    pub fn remove(&self, id: u64) -> bool {
        self.registry.change(|rules| rules.remove(id))
    }

    pub fn clear(&self) {
        self.registry.change(FaultRules::clear);
    }

    pub fn list(&self) -> Vec<ActiveFault> {
        self.registry.rules().list()
    }
}

/// The active faults, as requests and watches look them up.
#[derive(Debug, Default)]
pub(crate) struct FaultRegistry {
    rules: Mutex<FaultRules>,
    /// Whether there are any, so that requests usually skip the lock.
    any: AtomicBool,
    /// Notifies running watches that the faults have changed.
    changed: watch::Sender<()>,
}

impl FaultRegistry {
    /// The faults of a request.
    pub(crate) fn request(&self, info: &RequestInfo) -> RequestFault {
        match self.any.load(Ordering::Acquire) {
            true => self.rules().hit_request(info),
            false => RequestFault::default(),
        }
    }

    /// Subscribes a watch that is about to start.
    pub(crate) fn follow(&self, info: RequestInfo) -> WatchFaults {
        WatchFaults { changed: self.changed.subscribe(), since: self.rules().next_id(), hit_by: Vec::new(), info }
    }

    fn rules(&self) -> MutexGuard<'_, FaultRules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut FaultRules) -> T) -> T {
        let mut rules = self.rules();
        let result = change(&mut rules);
        self.any.store(!rules.is_empty(), Ordering::Release);
        self.changed.send_replace(());
        result
    }
}

/// The subscription of a watch to the faults.
#[derive(Debug)]
pub(crate) struct WatchFaults {
    info: RequestInfo,
    changed: watch::Receiver<()>,
    /// Only faults added after the watch started close its connection.
    since: u64,
    /// The faults that have hit this watch: each hits once.
    hit_by: Vec<u64>,
}

impl WatchFaults {
    /// The current faults of the watch.
    pub(crate) fn current(&mut self, registry: &FaultRegistry) -> WatchFault {
        self.changed.borrow_and_update();
        match registry.any.load(Ordering::Acquire) {
            true => registry.rules().hit_watch(&self.info, self.since, &mut self.hit_by),
            false => WatchFault::default(),
        }
    }

    /// Waits until the faults change.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The cluster is gone, and this watch with it.
            std::future::pending().await
        }
    }
}
