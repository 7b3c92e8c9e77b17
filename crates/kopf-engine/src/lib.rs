//! The running operator: it watches, queues, decides (by `kopf-reaction`), calls the front, patches.
//!
//! The engine knows neither Python nor the embedded cluster. It asks a front through [`Front`]
//! and gets outcomes back; it reaches the cluster through `kube::Client`.

mod operator;
mod stop;
mod crashes;
mod pause;
mod peering;
mod probes;
mod metrics;
mod settings;
mod discovery;
mod serving;
mod watch;
mod queue;
mod memory;
mod react;
mod gates;
mod indexes;
mod background;
mod invoke;
mod apply;
mod activities;
mod admission;
mod credentials;
mod client;
mod schema;
mod posting;
mod seats;
mod log;
mod pacing;
mod rest;
mod clock;

pub use activities::ActivityError;
pub use admission::{
    Admission, ClientCertificates, Review, ServerError, ServerOptions, WebhookCall, WebhookContext, WebhookReply,
    describe_certificate, self_signed,
};
pub use background::LiveBody;
pub use client::{Api, ApiError, PatchKind, Refusal};
pub use clock::{Clock, TimeShift, seconds};
pub use credentials::{Connection, ConnectionInfo, CredentialsError, Login, LoginError, Session, Vault};
pub use discovery::{Discovery, Insight, Judge, NamespacePattern, NoJudge, Wanted};
pub use invoke::{
    ActivityCall, BackgroundCall, CallReply, Children, ChildrenReply, ChildrenRequest, Configuration, CycleContext,
    Front, FrontFailure, FrontSlot, HandlerCall, Services, StorageContent, StorageQuestion,
};
pub use log::{FrontError, Level, Log, Record, Sink};
pub use operator::{OperatorError, OperatorOptions, run, run_by};
pub use pacing::Pacing;
pub use pause::Pauses;
pub use peering::PeeringCommand;
pub use posting::{EventDraft, EventSource, Poster, PosterWorkers};
pub use schema::{Placement, SchemaBook, placement};
pub use settings::{
    AdmissionSettings, BackgroundSettings, ExecutionSettings, NetworkingSettings, PeeringSettings, PersistenceSettings,
    PostingSettings, QueueingSettings, ScanningSettings, SelectorSetting, Settings, WatchingSettings,
};
pub use stop::Stop;
pub use watch::{EventKind, OnForbidden, StreamHealth, StreamItem, StreamState, WatchStream};
