//! The settings of one operator, as the fronts hand them over after the startup handlers.
//!
//! The names and defaults are those of the public settings tree, so that the engine reads the JSON of a front
//! directly. It reads it once: what may change at run time stays with the front.

use std::time::Duration;

use kopf_reaction::{DiffBaseStorage, Lifecycle, ProgressStorage, Seconds};
use serde::Deserialize;

/// The whole tree. Unknown fields are ignored: they belong to the fronts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub posting: PostingSettings,
    pub peering: PeeringSettings,
    pub watching: WatchingSettings,
    pub queueing: QueueingSettings,
    pub scanning: ScanningSettings,
    pub admission: AdmissionSettings,
    pub execution: ExecutionSettings,
    pub background: BackgroundSettings,
    pub networking: NetworkingSettings,
    pub persistence: PersistenceSettings,
    /// How the handlers of one cycle are picked.
    pub lifecycle: Lifecycle,
}

/// How Kubernetes Events are posted.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct PostingSettings {
    /// Whether events are posted at all.
    pub enabled: bool,
    /// How many events are posted at the same time; None is the engine's own limit.
    pub worker_limit: Option<usize>,
    /// Who the events are said to come from.
    #[serde(flatten)]
    pub source: EventSource,
}

/// Who posts the events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EventSource {
    pub event_name_prefix: String,
    pub reporting_component: String,
    pub reporting_instance: String,
}

impl Default for EventSource {
    fn default() -> Self {
        Self {
            event_name_prefix: "kopf-event-".to_owned(),
            reporting_component: "kopf".to_owned(),
            reporting_instance: "dev".to_owned(),
        }
    }
}

/// How operators of the same cluster know of each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct PeeringSettings {
    /// The name of the peering object.
    pub name: String,
    /// Whether to keep silent about regular keep-alives.
    pub stealth: bool,
    /// Operators pause while there is one of a higher or the same priority.
    pub priority: i64,
    /// Seconds after which the others take this operator for dead.
    pub lifetime: i64,
    /// Whether to pause as long as there is no peering object.
    pub mandatory: bool,
    /// Whether to ignore all others.
    pub standalone: bool,
    /// Whether it is the cluster-wide peering object, or those of the namespaces.
    pub clusterwide: bool,
}

/// How lists and watches are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct WatchingSettings {
    /// Seconds after which the server should end a watch (`timeoutSeconds`); None leaves it to the server.
    pub server_timeout: Option<f64>,
    /// Seconds after which the client ends a watch; None means never.
    pub client_timeout: Option<f64>,
    /// Seconds to wait for the connection of a watch.
    pub connect_timeout: Option<f64>,
    /// The pause between two watch requests, in seconds.
    pub reconnect_backoff: f64,
    /// Seconds of silence (no events, no bookmarks) after which a watch counts as dead.
    pub inactivity_timeout: f64,
    /// Objects per page of a list; None is the engine's own page size.
    pub chunk_size: Option<u32>,
    /// Whether the initial list comes as a stream of events.
    pub initial_streaming: bool,
    /// Server-side filters, by resource selectors.
    pub label_selectors: Vec<SelectorSetting>,
    pub field_selectors: Vec<SelectorSetting>,
    /// Parts of the objects, by resource selectors: others are served by other operators.
    pub shard_selectors: Vec<SelectorSetting>,
}

/// One server-side filter and the resources for which it holds.
#[derive(Clone, Debug, Deserialize)]
pub struct SelectorSetting {
    pub selector: kopf_reaction::Selector,
    pub value: String,
    /// Of the function of the user, if the selector has one.
    #[serde(default)]
    pub index: Option<usize>,
}

/// How events wait for their workers.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct QueueingSettings {
    /// How many objects are handled at the same time; None is the engine's own limit.
    pub worker_limit: Option<usize>,
    /// Seconds given to the running workers when the operator stops.
    pub exit_timeout: f64,
    /// Pauses of one object after unexpected errors, in seconds.
    pub error_delays: Vec<f64>,
}

/// How the kinds and namespaces of the cluster are observed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScanningSettings {
    /// Do not watch CRDs and namespaces: take what is there at the start.
    pub disabled: bool,
}

/// How webhooks are configured in the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AdmissionSettings {
    /// The name of the configurations that the operator keeps up to date; None leaves them to the user.
    pub managed: Option<String>,
}

/// How handlers are executed.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ExecutionSettings {
    /// The delay after an arbitrary error, in seconds, where the handler names none.
    pub default_backoff: f64,
}

/// How daemons and timers are stopped.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct BackgroundSettings {
    /// Seconds between the looks at one that still exits, where the handler does not say.
    pub cancellation_polling: Seconds,
    /// Seconds for which one may take to exit in an instant, before anything else is done about it.
    pub instant_exit_timeout: Option<f64>,
    /// The same in cycles of the event loop, if there is no such time. A cycle counts as a hundredth of a second.
    pub instant_exit_zero_time_cycles: Option<u32>,
}

impl BackgroundSettings {
    /// How long an instant takes.
    pub(crate) fn instant_exit(&self) -> Duration {
        let cycles = self.instant_exit_zero_time_cycles.map_or(0.0, |cycles| f64::from(cycles) * CYCLE_SECONDS);
        crate::seconds(self.instant_exit_timeout.unwrap_or(cycles)).min(LONGEST_INSTANT)
    }
}

/// The function runs on other threads than the engine, so that cycles are not counted but timed.
const CYCLE_SECONDS: f64 = 0.01;

/// An instant that takes longer than this is none.
const LONGEST_INSTANT: Duration = Duration::from_secs(3600);

/// How API requests are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct NetworkingSettings {
    /// Seconds for one whole request; None means the engine's own limit.
    pub request_timeout: Option<f64>,
    /// Seconds for connecting.
    pub connect_timeout: Option<f64>,
    /// Pauses between the attempts of one request, in seconds.
    pub error_backoffs: Vec<f64>,
    /// Whether `Retry-After` wins over the backoffs even if it is shorter.
    pub enforce_retry_after: bool,
    /// Whether the proxy variables of the environment are obeyed.
    pub trust_env: bool,
}

/// What is stored on the objects, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct PersistenceSettings {
    pub finalizer: String,
    pub progress_storage: ProgressStorage,
    pub diffbase_storage: DiffBaseStorage,
    /// Whether all of it goes to the status, together with the results, where the schema keeps it there.
    pub compact: bool,
    /// Seconds for which a patched version is awaited.
    pub consistency_timeout: f64,
}

impl Default for PostingSettings {
    fn default() -> Self {
        Self { enabled: true, worker_limit: None, source: EventSource::default() }
    }
}

impl Default for PeeringSettings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            stealth: false,
            priority: 0,
            lifetime: 60,
            mandatory: false,
            standalone: false,
            clusterwide: false,
        }
    }
}

impl Default for WatchingSettings {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: 0.1,
            inactivity_timeout: 70.0,
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
            exit_timeout: 2.0,
            error_delays: vec![1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0, 144.0, 233.0, 377.0, 610.0],
        }
    }
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self { default_backoff: 60.0 }
    }
}

impl Default for BackgroundSettings {
    fn default() -> Self {
        Self {
            cancellation_polling: Seconds::new(60.0),
            instant_exit_timeout: None,
            instant_exit_zero_time_cycles: Some(10),
        }
    }
}

impl Default for NetworkingSettings {
    fn default() -> Self {
        Self {
            request_timeout: Some(300.0),
            connect_timeout: None,
            error_backoffs: vec![1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0],
            enforce_retry_after: false,
            trust_env: false,
        }
    }
}

impl Default for PersistenceSettings {
    fn default() -> Self {
        Self {
            finalizer: "kopf.zalando.org/KopfFinalizerMarker".to_owned(),
            progress_storage: ProgressStorage::default(),
            diffbase_storage: DiffBaseStorage::default(),
            compact: false,
            consistency_timeout: 5.0,
        }
    }
}
