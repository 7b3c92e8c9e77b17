//! Faults on demand: what goes wrong in real clusters, when a test asks for it.
//!
//! Tests add rules by [`Faults`], or processes of other languages by `http/control.rs`. `http/service.rs` asks
//! for every request what goes wrong with it, `verbs/watch.rs` asks again whenever the rules change.
//! Which rule hits what is decided by plain data in `rules.rs`.

mod fault_rules;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::request_info::RequestInfo;
use fault_rules::FaultRules;
pub use fault_rules::{Disruption, RequestFault, WatchFault};

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
    /// Which requests are meant; all if nothing is said.
    #[serde(rename = "match", default)]
    pub matches: Match,
    /// How many requests or watches are hit; all until it is removed if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    pub effect: Effect,
}

/// Which requests are meant. What is not given can be anything.
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

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Effect {
    /// The request is answered later, by the clock of the cluster.
    Delay { seconds: f64 },
    /// The request is not carried out; this is the answer.
    Error {
        code: u16,
        /// Made from the code if it is not given.
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        message: Option<String>,
        /// The header of this name, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// The connection is closed instead of an answer; running watches are cut off at once.
    Disconnect,
    /// The request is carried out, but its answer ends in the middle.
    CutAnswer,
    /// Watches end as if their time were over.
    EndWatch,
    /// Watches break off in the middle of their next line.
    CutWatch,
    /// Watches stay connected, but nothing is sent any more, not even at their end, until the
    /// fault is removed; then everything follows.
    SilenceWatch,
    /// Watches are told that their version is too old, as after a compaction.
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

    /// Only the next so many requests or watches are hit.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

impl Effect {
    pub fn delay(by: Duration) -> Self {
        Self::Delay { seconds: by.as_secs_f64() }
    }

    /// An answer with this code, and the usual reason for it.
    pub fn error(code: u16) -> Self {
        Self::Error { code, reason: None, message: None, retry_after: None }
    }

    /// The same with the header `Retry-After`; other effects stay as they are.
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
    /// There are so many already that they were forgotten, most probably.
    #[error("there are {0} faults already")]
    TooMany(usize),
    /// The answer of the fault could not be sent.
    #[error("{0} is not the code of an error: it must be between 400 and 599")]
    Code(u16),
    /// It would last for ever, or go back in time.
    #[error("a delay must be between 0 seconds and a day")]
    Delay,
}

/// A fault that was added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActiveFault {
    pub id: u64,
    /// How many requests and watches were hit.
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

    /// Adds a fault, and gives its number. Running watches are hit at once.
    pub fn add(&self, fault: Fault) -> Result<u64, FaultError> {
        self.registry.change(|rules| rules.add(fault))
    }

    /// Adds faults in place of all there are.
    pub fn replace(&self, faults: Vec<Fault>) -> Result<Vec<u64>, FaultError> {
        self.registry.change(|rules| rules.replace(faults))
    }

    /// Removes a fault; false if there was none of this number.
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

/// The rules, as the way of a request sees them.
#[derive(Debug, Default)]
pub struct FaultRegistry {
    rules: Mutex<FaultRules>,
    /// Whether there are any, so that requests usually need not look.
    any: AtomicBool,
    /// Tells running watches that the rules are others.
    changed: watch::Sender<()>,
}

impl FaultRegistry {
    /// What goes wrong with a request.
    pub fn request(&self, info: &RequestInfo) -> RequestFault {
        match self.any.load(Ordering::Acquire) {
            true => self.rules().hit_request(info),
            false => RequestFault::default(),
        }
    }

    /// Follows the rules for a watch that is about to start.
    pub fn follow(&self, info: RequestInfo) -> WatchFaults {
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

/// What a watch remembers about the faults.
#[derive(Debug)]
pub struct WatchFaults {
    info: RequestInfo,
    changed: watch::Receiver<()>,
    /// Connections are closed by rules that are not older than the watch: others did so before it began.
    since: u64,
    /// The rules that have hit this watch: each does so once.
    hit_by: Vec<u64>,
}

impl WatchFaults {
    /// What goes wrong with the watch now.
    pub fn current(&mut self, registry: &FaultRegistry) -> WatchFault {
        self.changed.borrow_and_update();
        match registry.any.load(Ordering::Acquire) {
            true => registry.rules().hit_watch(&self.info, self.since, &mut self.hit_by),
            false => WatchFault::default(),
        }
    }

    /// Waits until the rules are others.
    pub async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The cluster is gone, and this with it.
            std::future::pending().await
        }
    }
}
