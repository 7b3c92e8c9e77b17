//! The settings of an operator, as Rust programs write them: with `Duration`s and enums.
//!
//! The names are those of the settings in Python, so that the documentation holds for both.
//! [`Operator::settings`](crate::Operator::settings) changes them, and the operator hands them to the engine.

mod engine;

use std::time::Duration;

pub use kopf_reaction::{DiffBaseStorage, ProgressStorage};

use crate::selector::Selector;

/// All settings.
///
/// ```
/// use std::time::Duration;
/// use kopf::Operator;
///
/// # let _: Operator =
/// Operator::new().settings(|settings| {
///     settings.posting.enabled = false;
///     settings.execution.default_backoff = Duration::from_secs(10);
///     settings.persistence.finalizer = "example.com/finalizer".to_owned();
/// })
/// # ;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Kubernetes Events that the operator posts.
    pub posting: PostingSettings,
    /// Other operators that serve the same objects.
    pub peering: PeeringSettings,
    /// Lists and watches.
    pub watching: WatchingSettings,
    /// Objects that wait for their workers.
    pub queueing: QueueingSettings,
    /// Resources and namespaces of the cluster.
    pub scanning: ScanningSettings,
    /// Calls of handlers.
    pub execution: ExecutionSettings,
    /// Daemons and timers.
    pub background: BackgroundSettings,
    /// Requests to the API.
    pub networking: NetworkingSettings,
    /// What the operator stores on the objects, and where.
    pub persistence: PersistenceSettings,
    /// Which handlers of an object are called first.
    pub lifecycle: Lifecycle,
}

/// Which of the handlers of an object that are due are called in one cycle, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// One handler: the one with the fewest attempts so far.
    #[default]
    Asap,
    /// All handlers, in the order of registration.
    AllAtOnce,
    /// One handler: the first one.
    OneByOne,
    /// One handler at random.
    Randomized,
    /// All handlers, in random order.
    Shuffled,
}

/// Kubernetes Events that the operator posts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostingSettings {
    /// Whether the operator posts events.
    pub enabled: bool,
    /// The number of events that are posted at the same time; None is the engine's limit.
    pub worker_limit: Option<usize>,
    /// The beginning of the names of events.
    pub event_name_prefix: String,
    /// The name of the component that reports the events.
    pub reporting_component: String,
    /// The name of the instance that reports the events.
    pub reporting_instance: String,
}

/// Other operators that serve the same objects: of several, the one with the highest priority works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeeringSettings {
    /// The name of the peering object.
    pub name: String,
    /// Whether to log nothing about regular keep-alives.
    pub stealth: bool,
    /// The operator pauses while there is another one of a higher or the same priority.
    pub priority: i64,
    /// The time after which other operators take this one for dead. Whole seconds count.
    pub lifetime: Duration,
    /// Whether to pause as long as there is no peering object.
    pub mandatory: bool,
    /// Whether to ignore all other operators.
    pub standalone: bool,
}

/// Lists and watches.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchingSettings {
    /// The time after which the server ends a watch; None leaves it to the server.
    pub server_timeout: Option<Duration>,
    /// The time after which the operator ends a watch; None means never.
    pub client_timeout: Option<Duration>,
    /// The time to wait for the connection of a watch.
    pub connect_timeout: Option<Duration>,
    /// The pause between two watch requests.
    pub reconnect_backoff: Duration,
    /// The time without events and bookmarks after which the operator takes a watch for dead.
    pub inactivity_timeout: Duration,
    /// Objects per page of a list; None is the engine's page size.
    pub chunk_size: Option<u32>,
    /// Whether the initial list comes as a stream of events.
    pub initial_streaming: bool,
    /// Label selectors of lists and watches, by resources.
    pub label_selectors: Vec<(Selector, String)>,
    /// Field selectors of lists and watches, by resources.
    pub field_selectors: Vec<(Selector, String)>,
    /// Shards of the objects that this operator serves, by resources; other operators serve the others.
    pub shard_selectors: Vec<(Selector, String)>,
}

/// Objects that wait for their workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueingSettings {
    /// The number of objects that are handled at the same time; None is the engine's limit.
    pub worker_limit: Option<usize>,
    /// The time that running workers have when the operator stops.
    pub exit_timeout: Duration,
    /// Pauses of an object after unexpected errors.
    pub error_delays: Vec<Duration>,
}

/// Resources and namespaces of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanningSettings {
    /// Whether to take the resources and namespaces of the start, instead of watching for new ones.
    pub disabled: bool,
}

/// Calls of handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionSettings {
    /// The delay after an arbitrary error, unless the handler has a backoff.
    pub default_backoff: Duration,
}

/// Daemons and timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundSettings {
    /// The interval of log messages about daemons that have not exited yet, unless the handler has its own.
    pub cancellation_polling: Duration,
    /// The time in which a stopped daemon may exit before the operator does anything else about it.
    pub instant_exit_timeout: Duration,
}

/// Requests to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkingSettings {
    /// The time for a whole request; None is the engine's limit.
    pub request_timeout: Option<Duration>,
    /// The time for connecting.
    pub connect_timeout: Option<Duration>,
    /// Pauses between the attempts of a request.
    pub error_backoffs: Vec<Duration>,
    /// Whether the server's `Retry-After` counts even if it is shorter than the backoff.
    pub enforce_retry_after: bool,
    /// Whether to use the proxy of the environment variables.
    pub trust_env: bool,
}

/// What the operator stores on the objects, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistenceSettings {
    /// The finalizer that keeps objects until their handlers are done.
    pub finalizer: String,
    /// Where the progress of handlers is stored.
    pub progress_storage: ProgressStorage,
    /// Where the last handled essence is stored.
    pub diffbase_storage: DiffBaseStorage,
    /// Whether both go to the status, together with the results, where the schema of the resource keeps them.
    pub compact: bool,
    /// The time to wait for an object to come back in the version that the operator patched.
    pub consistency_timeout: Duration,
}

impl Default for PostingSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            worker_limit: None,
            event_name_prefix: "kopf-event-".to_owned(),
            reporting_component: "kopf".to_owned(),
            reporting_instance: "dev".to_owned(),
        }
    }
}

impl Default for PeeringSettings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            stealth: false,
            priority: 0,
            lifetime: Duration::from_secs(60),
            mandatory: false,
            standalone: false,
        }
    }
}

impl Default for WatchingSettings {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Duration::from_secs(70),
            chunk_size: None,
            initial_streaming: false,
            label_selectors: Vec::new(),
            field_selectors: Vec::new(),
            shard_selectors: Vec::new(),
        }
    }
}

impl Default for QueueingSettings {
    fn default() -> Self {
        Self {
            worker_limit: None,
            exit_timeout: Duration::from_secs(2),
            error_delays: seconds(&[1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]),
        }
    }
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self { default_backoff: Duration::from_secs(60) }
    }
}

impl Default for BackgroundSettings {
    fn default() -> Self {
        Self { cancellation_polling: Duration::from_secs(60), instant_exit_timeout: Duration::from_millis(100) }
    }
}

impl Default for NetworkingSettings {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_secs(300)),
            connect_timeout: None,
            error_backoffs: seconds(&[1, 1, 2, 3, 5, 8, 13, 21]),
            enforce_retry_after: false,
            trust_env: false,
        }
    }
}

impl Default for PersistenceSettings {
    /// In Rust, `compact` is on: there are no older records of other versions to be found elsewhere.
    fn default() -> Self {
        Self {
            finalizer: "kopf.zalando.org/KopfFinalizerMarker".to_owned(),
            progress_storage: ProgressStorage::default(),
            diffbase_storage: DiffBaseStorage::default(),
            compact: true,
            consistency_timeout: Duration::from_secs(5),
        }
    }
}

fn seconds(numbers: &[u64]) -> Vec<Duration> {
    numbers.iter().copied().map(Duration::from_secs).collect()
}
