//! The decisions of an operator, as pure functions and state machines without I/O.
//!
//! Data goes in: an object, what the engine remembers of it, the handlers, the time. Data comes out: which handlers to
//! call, what to store, when to look at the object again. Nothing here awaits, reads a clock or knows a front. The
//! engine steps the machines: it performs each [`Effect`] that they return, and feeds the [`EffectResult`] back.
//!
//! Read in this order: [`Handler`] with its [`Selector`] and [`Filter`]s, the [`Cause`] with its [`Reason`], the stored
//! [`HandlerState`], the [`Batch`] of calls, and the [`Cycle`], which puts them together. Beside it stands the
//! [`BackgroundTask`] of a daemon or a timer.

#![warn(missing_docs)]

mod text;
mod time;
mod note;
mod declare;
mod filters;
mod cause;
mod outcome;
mod storage;
mod batch;
mod background;
mod cycle;
mod indexing;
mod peering;
mod admission;

pub use admission::{
    AdmissionReview, ConversionFailure, ConversionReview, ConversionRoute, Denial, ReviewError, WebhookPlan,
    conversion_patch, conversion_path, find_duplicate_conversion, restore_metadata, webhook_url, webhooks,
};
pub use background::{
    BackgroundPlan, BackgroundTask, BackgroundView, Moment, StopReasons, StopStep, TaskEnding, TaskPhase, TaskSettings,
    TaskStep,
};
pub use batch::{Batch, BatchStep, CallRequest, HandlerCounts, Lifecycle};
pub use cause::{Cause, DetectedReason, Facts, detect};
pub use cycle::{
    Cycle, CycleConclusion, CycleInput, CycleStep, Effect, EffectResult, FinalizerChange, ReactionSettings, SubBatch,
    SubBatchConclusion, SubBatchStep, UpToDateCheck,
};
pub use declare::{
    Activity, BackgroundOptions, Backoff, Condition, ErrorsMode, EventType, Filter, Handler, HandlerSet, HandlerType,
    InitialDelay, Reason, ResolvedSelectors, Resource, ResourceId, Seconds, Selection, Selector, ServedSelector,
    WebhookOptions, WebhookType, passively_matched, resolve_selectors,
};
pub use filters::{FilterAnswers, FilterDepth, FilterQuestion, FilterSlot, FilterSubject, select_handlers};
pub use indexing::{IndexFailures, Indexing, IndexingConclusion, IndexingStep};
pub use note::{Note, Severity};
pub use outcome::{CallError, CallOutcome, Outcome};
pub use peering::{OwnPeer, Peer, PeeringDecision, decide_peering, keepalive_pause};
pub use storage::{
    DiffBaseStorage, HandlerState, ProgressStorage, StorageOperation, compact_sample, remaining_annotation_budget,
};
pub use text::{diff_repr, python_repr};
