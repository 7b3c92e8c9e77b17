//! Conditions: more filters of a change handler, also about other fields than its own.

use kopf_object::FieldPath;

use super::{Callbacks, TextFilter, ValueFilter};
use crate::context::Context;

/// One more filter of a change handler. It may be about another field than the handler, and does not narrow what
/// `Old`, `New` and `Diff` extract. Everything that a condition states must be true.
///
/// ```
/// use kopf::filter::Condition;
/// use kopf::on;
///
/// let registration = on::update("memcacheds")
///     .field("spec.size")
///     .condition(Condition::new().field("spec.enabled").new_value(true));
/// # drop(registration);
/// ```
#[derive(Default)]
pub struct Condition {
    pub(crate) declaration: kopf_reaction::Condition,
    pub(crate) callbacks: Callbacks,
}

impl Condition {
    /// A condition that states nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects with such a label: a text, [`present()`](super::present), [`absent()`](super::absent), or a closure
    /// that takes an `Option<&str>`.
    pub fn label(mut self, key: impl Into<String>, filter: impl TextFilter) -> Self {
        let (key, (filter, callback)) = (key.into(), filter.into_parts());
        self.callbacks.labels.extend(callback.map(|callback| (key.clone(), callback)));
        self.declaration.labels.get_or_insert_default().insert(key, filter);
        self
    }

    /// Only objects with such an annotation: as for [`label`](Self::label).
    pub fn annotation(mut self, key: impl Into<String>, filter: impl TextFilter) -> Self {
        let (key, (filter, callback)) = (key.into(), filter.into_parts());
        self.callbacks.annotations.extend(callback.map(|callback| (key.clone(), callback)));
        self.declaration.annotations.get_or_insert_default().insert(key, filter);
        self
    }

    /// Only if the field exists, before or after the change. Handlers of updates and of fields need a change of it.
    pub fn field(mut self, field: impl Into<FieldPath>) -> Self {
        self.declaration.field = Some(field.into());
        self
    }

    /// Only if the field has such a value, before or after the change: a plain value, [`present()`](super::present),
    /// [`absent()`](super::absent), or a closure that takes an `Option<&Value>`.
    pub fn value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback) = filter.into_parts();
        (self.declaration.value, self.callbacks.value) = (Some(filter), callback);
        self
    }

    /// Only if the field had such a value: as for [`value`](Self::value), which goes before it.
    pub fn old_value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback) = filter.into_parts();
        (self.declaration.old, self.callbacks.old) = (Some(filter), callback);
        self
    }

    /// Only if the field has such a value now: as for [`value`](Self::value), which goes before it.
    pub fn new_value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback) = filter.into_parts();
        (self.declaration.new, self.callbacks.new) = (Some(filter), callback);
        self
    }

    /// Only if the callback returns true. Of several callbacks, all have to.
    pub fn when(mut self, callback: impl Fn(&Context) -> bool + Send + Sync + 'static) -> Self {
        self.declaration.when = true;
        self.callbacks.when.push(std::sync::Arc::new(callback));
        self
    }
}
