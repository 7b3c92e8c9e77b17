//! What an operator decides, as pure functions and one state machine without I/O.
//!
//! Data goes in (an object, what is remembered of it, the handlers, the time), data comes out (calls to
//! make, what to store, when to come again). Nothing here awaits, reads a clock or knows a front: the
//! engine carries the decisions out and feeds the answers back.
//!
//! Read in this order: [`Handler`] and its [`Selector`] and filters, [`Reason`], the stored
//! [`HandlerState`], the [`Batch`] of calls, and the [`Cycle`] that holds it all together. Beside it, the [`BackgroundTask`]
//! of a daemon or a timer.

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
    InitialDelay, Reason, ResolvedSelectors, Resource, Seconds, Selection, Selector, ServedSelector, WebhookOptions,
    WebhookType, passively_matched, resolve_selectors,
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
