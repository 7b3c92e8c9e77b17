//! The input of a cycle, its steps, and its conclusion.

use std::sync::Arc;

use kopf_object::{Body, MergePatch};
use serde_json::Value;

use super::effect::Effect;
use super::settings::ReactionSettings;
use crate::{BackgroundView, EventType, HandlerSet, StorageOperation};

/// The input of a cycle.
#[derive(Clone, Debug)]
pub struct CycleInput {
    /// The current state of the object.
    pub body: Body,
    /// The event; `None` if event handlers have seen the body, or need not: the response to a patch, or a wake-up.
    pub event: Option<EventType>,
    /// The handlers of the resource.
    pub handlers: Arc<HandlerSet>,
    /// The settings of the operator.
    pub settings: Arc<ReactionSettings>,
    /// The first listing has shown the object, and it was not handled in full since.
    pub initial: bool,
    /// The body is not older than the operator's last patch, so that change handlers may be called.
    pub consistent: bool,
    /// The daemons and timers of the object.
    pub background: BackgroundView,
    /// Whether somebody wants notes for debugging.
    pub verbose: bool,
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum CycleStep {
    /// Perform the effect, and step again with its result.
    Effect(Effect),
    /// Apply the conclusion.
    Done(Box<CycleConclusion>),
}

/// What to do with the operator's finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    /// Block the deletion of the object.
    Add,
    /// Allow the deletion of the object.
    Remove,
}

/// What the engine has to do after a cycle.
#[derive(Clone, Debug, Default)]
pub struct CycleConclusion {
    /// The changes of the standard storages.
    pub patch: MergePatch,
    /// The changes of the user's storages.
    pub operations: Vec<StorageOperation>,
    /// The results of handlers, for the status.
    pub results: Vec<(Arc<str>, Value)>,
    /// Whether the finalizer changes.
    pub finalizer: Option<FinalizerChange>,
    /// Seconds until the next handler is due; `None` if none is.
    pub delay: Option<f64>,
    /// The change handlers were considered.
    pub handled: bool,
    /// All handlers are finished, and the object needs no more resuming.
    pub fully_handled: bool,
    /// The change handlers wait for a newer body.
    pub awaits_newer: bool,
    /// The essences that finished handlers have seen, but that are not stored as handled yet: for the next cycle, see
    /// [`Cycle::with_partly_handled`](super::Cycle::with_partly_handled).
    pub partly_handled: Option<Arc<Value>>,
}
