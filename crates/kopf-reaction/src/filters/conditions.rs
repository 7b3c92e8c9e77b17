//! The conditions of a handler: decided after its own filters, one after another.

use super::{Callbacks, FilterMatch, FilterSlot, FilterSubject, all_of, either_value, is_same, metadata, old_and_new};
use crate::declare::{Condition, Filter, Handler};

/// All conditions must be met; the first one that is not, or not known yet, decides.
pub(super) fn match_all(handler: &Handler, subject: FilterSubject<'_>, callbacks: Callbacks<'_>) -> FilterMatch {
    for condition in &handler.conditions {
        let callbacks = Callbacks { condition: Some(condition.index), ..callbacks };
        match match_one(condition, handler.field_needs_change, subject, callbacks) {
            FilterMatch::Yes => {}
            other => return other,
        }
    }
    FilterMatch::Yes
}

fn match_one(
    condition: &Condition,
    needs_change: bool,
    subject: FilterSubject<'_>,
    callbacks: Callbacks<'_>,
) -> FilterMatch {
    if condition.selector.as_ref().is_some_and(|selector| selector.needs_callback()) {
        match callbacks.ask(FilterSlot::Selector, None) {
            FilterMatch::Yes => {}
            FilterMatch::No => return FilterMatch::Yes, // it is about other resources
            question @ FilterMatch::Ask(_) => return question,
        }
    }
    all_of(&[
        &|| metadata(callbacks, subject, condition.labels.as_ref(), "labels", FilterSlot::Label),
        &|| metadata(callbacks, subject, condition.annotations.as_ref(), "annotations", FilterSlot::Annotation),
        &|| match_field(condition, needs_change, subject, callbacks),
        &|| if condition.when { callbacks.ask(FilterSlot::When, None) } else { FilterMatch::Yes },
    ])
}

/// Handlers of updates and of fields need a change of the field, not just the field itself.
fn match_field(
    condition: &Condition,
    needs_change: bool,
    subject: FilterSubject<'_>,
    callbacks: Callbacks<'_>,
) -> FilterMatch {
    let Some(field) = &condition.field else { return FilterMatch::Yes };
    let (old, new) = subject.change.unwrap_or_default();
    let (old, new) = (old.and_then(|essence| field.resolve(essence)), new.and_then(|essence| field.resolve(essence)));
    if needs_change && is_same(old, new) {
        return FilterMatch::No;
    }
    match (&condition.value, &condition.old, &condition.new) {
        (Some(filter), ..) => either_value(callbacks, filter, new, old),
        (None, None, None) => either_value(callbacks, &Filter::Present, new, old),
        (None, old_filter, new_filter) => {
            old_and_new(callbacks, (old_filter.as_ref(), old), (new_filter.as_ref(), new))
        }
    }
}
