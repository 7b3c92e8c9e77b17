//! Conditions (`on.condition`): more filters that a function brings to all its change handlers.
//!
//! A condition may be about another field than its handler. So it never narrows the `old`, `new` and `diff` that the
//! handler gets; it only decides whether the handler is called.

use std::collections::BTreeMap;

use kopf_object::FieldPath;
use serde::Deserialize;

use super::filter::Filter;
use super::resource::Resource;
use super::selector::Selector;

/// One condition of one handler. Everything that it states must be true.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The front's own number of the condition, unique within its handler.
    pub index: usize,
    /// The condition is only about these resources; `None` means all resources of its handler.
    pub selector: Option<Selector>,
    /// What it expects of the labels.
    pub labels: Option<BTreeMap<String, Filter>>,
    /// What it expects of the annotations.
    pub annotations: Option<BTreeMap<String, Filter>>,
    /// The field that it is about. Without any filter of values, the field must exist before or after the change.
    pub field: Option<FieldPath>,
    /// What it expects of the field, either before or after the change.
    pub value: Option<Filter>,
    /// What it expects of the field before the change. Counts only without `value`.
    pub old: Option<Filter>,
    /// What it expects of the field after the change. Counts only without `value`.
    pub new: Option<Filter>,
    /// The front has a callback on the whole cause.
    pub when: bool,
}

impl Condition {
    /// Whether the condition is about the resource. A callback of the selector is a matter of the filters.
    pub(super) fn concerns(&self, resource: &Resource) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.check(resource))
    }
}
