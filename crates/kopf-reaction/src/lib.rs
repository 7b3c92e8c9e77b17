//! What an operator decides, as pure functions and one state machine without I/O.
//!
//! Data goes in (an object, what is remembered of it, the handlers, the time), data comes out (calls to
//! make, what to store, when to come again). Nothing here awaits, reads a clock or knows a front: the
//! engine carries the decisions out and feeds the answers back.
//!
//! Read in this order: [`Handler`] and its [`Selector`] and filters, [`Reason`], the stored
//! [`HandlerState`], the [`Batch`] of calls, and the [`Cycle`] that holds it all together. Beside it, the [`BackgroundTask`]
//! of a daemon or a timer.

mod resource;
mod selector;
mod handler;
mod backoff;
mod filter;
mod handler_set;
mod cause;
mod detect;
mod progress;
mod annotation_budget;
mod storage;
mod compact;
mod settings;
mod lifecycle;
mod outcome;
mod batch;
mod cycle;
mod up_to_date;
mod sub_batch;
mod background;
mod indexing;
mod peering;
mod admission;
mod conversion;
mod note;
mod text;

pub use admission::{
    AdmissionReview, Denial, ReviewError, WebhookOptions, WebhookPlan, WebhookType, webhook_url, webhooks,
};
pub use annotation_budget::remaining_annotation_budget;
pub use background::{
    BackgroundOptions, BackgroundPlan, BackgroundTask, BackgroundView, InitialDelay, Moment, StopReasons, StopStep,
    TaskEnding, TaskPhase, TaskSettings, TaskStep,
};
pub use backoff::{Backoff, Seconds};
pub use batch::{Batch, BatchStep, CallRequest, HandlerCounts};
pub use cause::{Cause, EventType, Reason};
pub use compact::compact_sample;
pub use conversion::{
    ConversionFailure, ConversionReview, conversion_patch, conversion_path, find_duplicate_conversion, restore_metadata,
};
pub use cycle::{Cycle, CycleConclusion, CycleInput, CycleStep, Effect, EffectResult, FinalizerChange};
pub use detect::{DetectedReason, Facts, detect};
pub use filter::{Filter, FilterAnswers, FilterDepth, FilterQuestion, FilterSlot, FilterSubject, select_handlers};
pub use handler::{Activity, ErrorsMode, Handler, HandlerType};
pub use handler_set::HandlerSet;
pub use indexing::{IndexFailures, Indexing, IndexingConclusion, IndexingStep};
pub use lifecycle::Lifecycle;
pub use note::{Note, Severity};
pub use outcome::{CallError, CallOutcome, Outcome};
pub use peering::{OwnPeer, Peer, PeeringDecision, decide_peering, keepalive_pause};
pub use progress::HandlerState;
pub use resource::*;
pub use selector::*;
pub use settings::ReactionSettings;
pub use storage::{DiffBaseStorage, ProgressStorage, StorageOperation};
pub use sub_batch::{SubBatch, SubBatchConclusion, SubBatchStep};
pub use text::{diff_repr, python_repr};
pub use up_to_date::UpToDateCheck;
