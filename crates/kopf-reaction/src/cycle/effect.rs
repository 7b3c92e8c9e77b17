//! Effects: what a machine wants done outside, and what came back.
//!
//! The engine performs an effect, and steps the machine with its result.

use std::sync::Arc;

use kopf_object::FieldPath;
use serde_json::Value;

use crate::{BackgroundPlan, CallOutcome, CallRequest, FilterQuestion, Handler};

/// What a cycle, a batch of sub-handlers or the indexing needs from outside.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read the user's storages, for [`EffectResult::Storage`].
    Storage {
        /// The handlers whose records are needed.
        ids: Vec<Arc<str>>,
        /// The fields that belong to the essence in addition.
        extra_fields: Vec<FieldPath>,
        /// Whether the records are needed.
        progress: bool,
        /// Whether the essences are needed.
        diffbase: bool,
    },
    /// Call the callbacks of filters, for [`EffectResult::Filters`].
    Filters(Vec<FilterQuestion>),
    /// Call the user's lifecycle function, for [`EffectResult::Chosen`].
    Choose(Vec<Arc<Handler>>),
    /// Call a handler, for [`EffectResult::Called`].
    Call(CallRequest),
    /// Start and stop daemons and timers, for [`EffectResult::Background`].
    Background(BackgroundPlan),
}

/// The result of an effect.
#[derive(Clone, Debug)]
pub enum EffectResult {
    /// What the user's storages have.
    Storage {
        /// The last handled essence.
        old: Option<Value>,
        /// The current essence.
        new: Option<Value>,
        /// The records by handler ids.
        records: Vec<(Arc<str>, Value)>,
    },
    /// The answers of the callbacks, in the order of the questions.
    Filters(Vec<bool>),
    /// The indexes of the chosen handlers.
    Chosen(Vec<usize>),
    /// The outcome of the call.
    Called(CallOutcome),
    /// Daemons and timers are started and stopped.
    Background {
        /// How many of them block the deletion of the object.
        blocking: usize,
    },
}
