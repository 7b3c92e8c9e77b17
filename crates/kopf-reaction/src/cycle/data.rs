//! What a cycle starts from, and what it comes to.

use std::sync::Arc;

use kopf_object::{Body, MergePatch};
use serde_json::Value;

use super::effect::Effect;
use super::settings::ReactionSettings;
use crate::{BackgroundView, EventType, HandlerSet, StorageOperation};

/// Everything that a cycle starts from.
#[derive(Clone, Debug)]
pub struct CycleInput {
    pub body: Body,
    /// None if the body is not new to the event_handlers: the answer to a patch, or a wake-up.
    pub event: Option<EventType>,
    pub handlers: Arc<HandlerSet>,
    pub settings: Arc<ReactionSettings>,
    /// First seen by a listing, and not handled in full since.
    pub initial: bool,
    /// The body is not older than our last patch: state-dependent handlers may run.
    pub consistent: bool,
    /// The daemons and timers of the object.
    pub background: BackgroundView,
    /// Whether notes for debugging are wanted.
    pub verbose: bool,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum CycleStep {
    Effect(Effect),
    Done(Box<CycleConclusion>),
}

/// What is to be done with our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    Add,
    Remove,
}

/// What a cycle came to.
#[derive(Clone, Debug, Default)]
pub struct CycleConclusion {
    /// What the standard storages want to be written.
    pub patch: MergePatch,
    /// What storages of the user have to write themselves.
    pub operations: Vec<StorageOperation>,
    /// The results of handlers, for the status.
    pub results: Vec<(Arc<str>, Value)>,
    pub finalizer: Option<FinalizerChange>,
    /// Seconds until some handler is due again; None if there is nothing to wait for.
    pub delay: Option<f64>,
    /// The change handlers had their turn.
    pub handled: bool,
    /// Nothing is left to be done for this object; resuming is over.
    pub fully_handled: bool,
    /// A newer body must come before the change handlers have their turn.
    pub awaits_newer: bool,
    /// What finished handlers have seen that is not stored as handled yet, as a list of essences: to be remembered
    /// for the next cycle, see [`Cycle::with_partly_handled`].
    pub partly_handled: Option<Arc<Value>>,
}
