//! The running operator: it watches, queues, decides (by `kopf-reaction`), calls the front, patches.
//!
//! The engine knows neither Python nor the embedded cluster. It asks a front through [`Front`]
//! and gets outcomes back; it reaches the cluster through `kube::Client`.
//!
//! The modules stand in the order in which one should read them; their uses of each other form no cycle.

// The operator as a whole: starts and stops everything else.
mod operator;

// The way of an event: what to watch, the events, the objects that wait for a worker, the cycles of one object.
mod discovery;
mod stream;
mod queue;
mod worker;
mod background;

// Both ends of a cycle: the calls of the users' functions, and the patches.
mod front;
mod calls;
mod patching;

// Beside the way: reviews for the API server, other operators, Kubernetes events, the kubelet and Prometheus.
mod admission;
mod peering;
mod posting;
mod probes;
mod metrics;

// Below: the Kubernetes API, the settings, the clock, the log.
mod client;
mod credentials;
mod settings;
mod support;

pub use admission::{
    ClientCertificates, ServerError, ServerOptions, describe_certificate, self_signed, serve_webhooks,
};
pub use calls::ActivityError;
pub use client::{Api, ApiError, PatchKind, Refusal};
pub use credentials::{Connection, ConnectionInfo, CredentialsError, Login, LoginError, Session, Vault};
pub use discovery::schema::{Placement, SchemaBook, placement};
pub use discovery::{Discovery, Insight, NamespacePattern, Wanted};
pub use front::{
    ActivityCall, Admission, BackgroundCall, CallReply, Children, ChildrenReply, ChildrenRequest, Configuration,
    CycleContext, Front, FrontFailure, FrontSlot, HandlerCall, LiveBody, NoSelectorCallbacks, Review,
    SelectorCallbacks, Services, StorageContent, StorageQuestion, WebhookCall, WebhookContext, WebhookReply,
};
pub use kopf_reaction::{EventType, Severity};
pub use operator::{OperatorError, OperatorOptions, run, run_by};
pub use peering::PeeringCommand;
pub use posting::{EventDraft, Poster, PosterWorkers};
pub use settings::{
    AdmissionSettings, BackgroundSettings, EventSource, ExecutionSettings, NetworkingSettings, PeeringSettings,
    PersistenceSettings, PostingSettings, QueueingSettings, ScanningSettings, SelectorSetting, Settings,
    WatchingSettings,
};
pub use stream::{OnForbidden, SinkClosed, StreamHealth, StreamItem, StreamSink, StreamState, WatchStream};
pub use support::{Clock, FrontError, Log, Pacing, Pauses, Record, Sink, Stop, TimeShift, seconds};
