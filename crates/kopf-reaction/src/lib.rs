//! What an operator decides, as pure functions and one state machine without I/O.
//!
//! Data goes in (an object, what is remembered of it, the handlers, the time), data comes out (calls to
//! make, what to store, when to come again). Nothing here awaits, reads a clock or knows a front: the
//! engine carries the decisions out and feeds the answers back.
//!
//! Read in this order: [`Handler`] and its [`Selector`] and filters, [`Reason`], the stored
//! [`HandlerState`], the [`Round`] of calls, and the [`Cycle`] that holds it all together. Beside it, the [`Run`]
//! of a daemon or a timer.

mod resource;
mod selector;
mod handler;
mod backoff;
mod filter;
mod cause;
mod progress;
mod room;
mod storage;
mod compact;
mod lifecycle;
mod outcome;
mod round;
mod scene;
mod cycle;
mod settled;
mod subround;
mod background;
mod indexing;
mod peering;
mod admission;
mod conversion;
mod note;
mod text;

pub use admission::{
    AdmissionReview, Refused, ReviewError, WebhookOptions, WebhookPlan, WebhookType, webhook_url, webhooks,
};
pub use background::{
    BackgroundOptions, BackgroundPlan, BackgroundView, Due, Ending, InitialDelay, Moment, Run, RunPhase, RunSettings,
    StopReasons, StopStep,
};
pub use backoff::{Backoff, Seconds};
pub use cause::{Cause, Reason, detect};
pub use compact::compact_sample;
pub use conversion::{
    ConversionFailure, ConversionReview, conversion_path, conversion_settings, conversion_twice, restored,
};
pub use cycle::{Ask, Conclusion, Cycle, CycleInput, EventType, FinalizerChange, Reply, Step};
pub use filter::{Answers, Filter, FilterDepth, FilterQuestion, FilterSlot, Subject, select};
pub use handler::{Activity, ErrorsMode, Handler, HandlerKind};
pub use indexing::{IndexConclusion, IndexFailures, IndexStep, Indexing};
pub use lifecycle::Lifecycle;
pub use note::{Note, Severity};
pub use outcome::{CallError, CallOutcome, Outcome};
pub use peering::{Oneself, Peer, Verdict as PeeringVerdict, judge_peers, keepalive_pause};
pub use progress::HandlerState;
pub use resource::*;
pub use room::room_for;
pub use round::{CallRequest, Counts, Round, RoundStep};
pub use scene::{HandlerSet, ReactionSettings, Scene};
pub use selector::*;
pub use settled::Settled;
pub use storage::{DiffBaseStorage, ProgressStorage, StorageOperation};
pub use subround::{SubConclusion, SubRound, SubStep};
pub use text::{diff_repr, python_repr};
