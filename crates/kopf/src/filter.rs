//! What handlers expect of labels, annotations and fields.
//!
//! The engine compares plain values. Callbacks stay in the registry, and the engine asks the front to call them.

mod condition;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{Filter, FilterQuestion, FilterSlot, Resource};
use serde_json::Value;

pub use condition::Condition;

use crate::context::Context;

/// Whether a label, annotation or field exists, whatever its value is. See [`present`] and [`absent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has to exist.
    Present,
    /// It must not exist.
    Absent,
}

/// The label, annotation or field has to exist.
///
/// ```
/// use kopf::filter::{absent, present};
/// use kopf::on;
///
/// let registration = on::create("memcacheds").label("tier", present()).annotation("example.com/paused", absent());
/// # drop(registration);
/// ```
pub const fn present() -> Presence {
    Presence::Present
}

/// The label, annotation or field must not exist. See [`present`].
pub const fn absent() -> Presence {
    Presence::Absent
}

/// What can be expected of a label or an annotation: a text, [`present`], [`absent`], or a closure that takes an
/// `Option<&str>`.
pub trait TextFilter {
    #[doc(hidden)]
    fn into_parts(self) -> (Filter, Option<TextCallback>);
}

/// What can be expected of a field: a text, number, boolean or JSON value, [`present`], [`absent`], or a closure that
/// takes an `Option<&Value>`.
pub trait ValueFilter {
    #[doc(hidden)]
    fn into_parts(self) -> (Filter, Option<ValueCallback>);
}

#[doc(hidden)]
pub type TextCallback = Arc<dyn Fn(Option<&str>) -> bool + Send + Sync>;
#[doc(hidden)]
pub type ValueCallback = Arc<dyn Fn(Option<&Value>) -> bool + Send + Sync>;
pub(crate) type ContextCallback = Arc<dyn Fn(&Context) -> bool + Send + Sync>;
pub(crate) type DelayCallback = Arc<dyn Fn(&Context) -> Duration + Send + Sync>;
#[doc(hidden)]
pub type ResourceCallback = Arc<dyn Fn(&Resource) -> bool + Send + Sync>;

/// The callbacks of one handler.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) labels: BTreeMap<String, TextCallback>,
    pub(crate) annotations: BTreeMap<String, TextCallback>,
    pub(crate) value: Option<ValueCallback>,
    pub(crate) old: Option<ValueCallback>,
    pub(crate) new: Option<ValueCallback>,
    /// All of them have to return true.
    pub(crate) when: Vec<ContextCallback>,
    pub(crate) resource: Option<ResourceCallback>,
    /// Those of the conditions, in their order.
    pub(crate) conditions: Vec<Callbacks>,
    /// Only for daemons and timers.
    pub(crate) initial_delay: Option<DelayCallback>,
}

impl Callbacks {
    /// Calls the callback that the engine asks about; None if there is none.
    pub(crate) fn answer(&self, question: &FilterQuestion, context: &Context) -> Option<bool> {
        if let Some(index) = question.condition {
            let question = FilterQuestion { condition: None, ..question.clone() };
            return self.conditions.get(index)?.answer(&question, context);
        }
        let value = question.value.as_ref();
        let text = value.and_then(Value::as_str);
        Some(match &question.slot {
            FilterSlot::Label(key) => self.labels.get(key)?(text),
            FilterSlot::Annotation(key) => self.annotations.get(key)?(text),
            FilterSlot::Value { .. } => self.value.as_ref()?(value),
            FilterSlot::Old => self.old.as_ref()?(value),
            FilterSlot::New => self.new.as_ref()?(value),
            FilterSlot::When => self.when.iter().all(|callback| callback(context)),
            // Conditions are for all resources of their handlers here.
            FilterSlot::Selector => return None,
        })
    }
}

impl From<Presence> for Filter {
    fn from(presence: Presence) -> Self {
        match presence {
            Presence::Present => Self::Present,
            Presence::Absent => Self::Absent,
        }
    }
}

impl TextFilter for Presence {
    fn into_parts(self) -> (Filter, Option<TextCallback>) {
        (self.into(), None)
    }
}

impl TextFilter for &str {
    fn into_parts(self) -> (Filter, Option<TextCallback>) {
        (Filter::Equals(self.into()), None)
    }
}

impl TextFilter for String {
    fn into_parts(self) -> (Filter, Option<TextCallback>) {
        (Filter::Equals(self.into()), None)
    }
}

impl<F: Fn(Option<&str>) -> bool + Send + Sync + 'static> TextFilter for F {
    fn into_parts(self) -> (Filter, Option<TextCallback>) {
        (Filter::Callback, Some(Arc::new(self)))
    }
}

impl ValueFilter for Presence {
    fn into_parts(self) -> (Filter, Option<ValueCallback>) {
        (self.into(), None)
    }
}

impl<F: Fn(Option<&Value>) -> bool + Send + Sync + 'static> ValueFilter for F {
    fn into_parts(self) -> (Filter, Option<ValueCallback>) {
        (Filter::Callback, Some(Arc::new(self)))
    }
}

macro_rules! plain_values {
    ($($plain:ty)*) => {$(
        impl ValueFilter for $plain {
            fn into_parts(self) -> (Filter, Option<ValueCallback>) {
                (Filter::Equals(self.into()), None)
            }
        }
    )*};
}

plain_values!(&str String bool i32 i64 u32 u64 f64 Value);
