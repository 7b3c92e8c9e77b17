//! What a machine wants done outside, and what came back.

use std::sync::Arc;

use kopf_object::FieldPath;
use serde_json::Value;

use crate::{BackgroundPlan, CallOutcome, CallRequest, FilterQuestion, Handler};

/// What the cycle needs from outside.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The storages of the user; answered by [`EffectResult::Storage`].
    Storage { ids: Vec<Arc<str>>, extra_fields: Vec<FieldPath>, progress: bool, diffbase: bool },
    /// Callbacks of filters; answered by [`EffectResult::Filters`].
    Filters(Vec<FilterQuestion>),
    /// The lifecycle function of the user; answered by [`EffectResult::Chosen`].
    Choose(Vec<Arc<Handler>>),
    /// One handler; answered by [`EffectResult::Called`].
    Call(CallRequest),
    /// Start and stop daemons and timers; answered by [`EffectResult::Background`].
    Background(BackgroundPlan),
}

/// The answers, in the order of the questions.
#[derive(Clone, Debug)]
pub enum EffectResult {
    Storage {
        old: Option<Value>,
        new: Option<Value>,
        records: Vec<(Arc<str>, Value)>,
    },
    Filters(Vec<bool>),
    Chosen(Vec<usize>),
    Called(CallOutcome),
    /// How many of the daemons and timers must end before the object may disappear.
    Background {
        blocking: usize,
    },
}
