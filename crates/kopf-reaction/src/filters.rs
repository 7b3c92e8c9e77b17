//! Which handlers an object matches: labels, annotations, fields, values, callbacks.
//!
//! What is plain data is decided here. Callbacks are questions to the front: `select` gives them back
//! until all answers are there, the cheap criteria first, so that few callbacks are ever called.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_object::{Body, FieldPath, python_equal};
use serde_json::Value;

use crate::declare::deduplicated;
use crate::{Filter, Handler};

/// What the filters look at.
#[derive(Clone, Copy, Debug)]
pub struct FilterSubject<'a> {
    pub body: &'a Body,
    /// The essences before and after, where changes are handled; None for events.
    pub change: Option<(Option<&'a Value>, Option<&'a Value>)>,
}

/// How deep the filters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDepth {
    /// Without the criteria on changes: is the object of any interest at all?
    Interest,
    /// With all criteria.
    Full,
}

/// The place of a callback in the declaration of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FilterSlot {
    Label(String),
    Annotation(String),
    /// The callback on the field's value: of now, or of before.
    Value {
        before: bool,
    },
    Old,
    New,
    When,
}

/// One callback to be called by the front.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterQuestion {
    /// The index of the handler.
    pub handler: usize,
    pub slot: FilterSlot,
    /// The value in question; None if it is absent, or if the callback takes none.
    pub value: Option<Value>,
}

/// The answers of the front within one cycle.
#[derive(Clone, Debug, Default)]
pub struct FilterAnswers {
    known: HashMap<(usize, FilterSlot), bool>,
}

impl FilterAnswers {
    pub fn insert(&mut self, question: &FilterQuestion, answer: bool) {
        self.known.insert((question.handler, question.slot.clone()), answer);
    }

    /// The causes are about to differ from what the callbacks have seen.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

/// Either decided, or to be asked first.
enum FilterMatch {
    Yes,
    No,
    Effect(FilterQuestion),
}

/// The handlers that match, without repetitions; or the questions to be answered first.
pub fn select_handlers(
    candidates: &[Arc<Handler>],
    subject: FilterSubject<'_>,
    depth: FilterDepth,
    answers: &FilterAnswers,
) -> Result<Vec<Arc<Handler>>, Vec<FilterQuestion>> {
    let mut matching = Vec::new();
    let mut questions = Vec::new();
    for handler in candidates {
        match match_filters(handler, subject, depth, answers) {
            FilterMatch::Yes => matching.push(Arc::clone(handler)),
            FilterMatch::No => {}
            FilterMatch::Effect(question) => questions.push(question),
        }
    }
    if questions.is_empty() { Ok(deduplicated(matching)) } else { Err(questions) }
}

fn match_filters(
    handler: &Handler,
    subject: FilterSubject<'_>,
    depth: FilterDepth,
    answers: &FilterAnswers,
) -> FilterMatch {
    let criteria: [&dyn Fn() -> FilterMatch; 5] = [
        &|| metadata(handler, subject, answers, handler.labels.as_ref(), "labels", FilterSlot::Label),
        &|| metadata(handler, subject, answers, handler.annotations.as_ref(), "annotations", FilterSlot::Annotation),
        &|| field_value(handler, subject, answers),
        &|| if depth == FilterDepth::Full { field_change(handler, subject, answers) } else { FilterMatch::Yes },
        &|| if handler.when { callback(handler, FilterSlot::When, None, answers) } else { FilterMatch::Yes },
    ];
    for criterion in criteria {
        match criterion() {
            FilterMatch::Yes => {}
            other => return other,
        }
    }
    FilterMatch::Yes
}

fn metadata(
    handler: &Handler,
    subject: FilterSubject<'_>,
    answers: &FilterAnswers,
    filters: Option<&std::collections::BTreeMap<String, Filter>>,
    stanza: &str,
    slot: fn(String) -> FilterSlot,
) -> FilterMatch {
    let Some(filters) = filters else { return FilterMatch::Yes };
    let content = subject.body.metadata().get(stanza);
    let mut question = None;
    for (key, filter) in filters {
        let value = content.and_then(|content| content.get(key));
        match plain(filter, value) {
            Some(true) => {}
            Some(false) => return FilterMatch::No,
            None => match callback(handler, slot(key.clone()), value, answers) {
                FilterMatch::Yes => {}
                FilterMatch::No => return FilterMatch::No,
                FilterMatch::Effect(asked) => question = question.or(Some(asked)),
            },
        }
    }
    question.map_or(FilterMatch::Yes, FilterMatch::Effect)
}

/// The value of the field, either of now or of before, is as expected; or at least there.
fn field_value(handler: &Handler, subject: FilterSubject<'_>, answers: &FilterAnswers) -> FilterMatch {
    let Some(field) = &handler.field else { return FilterMatch::Yes };
    let candidates: Vec<(bool, Option<&Value>)> = match subject.change {
        Some((old, new)) => vec![(false, resolve(field, new)), (true, resolve(field, old))],
        None => vec![(false, subject.body.get(field))],
    };
    let expected = handler.value.as_ref().unwrap_or(&Filter::Present);
    for (before, value) in candidates {
        match plain(expected, value) {
            Some(true) => return FilterMatch::Yes,
            Some(false) => {}
            None => match callback(handler, FilterSlot::Value { before }, value, answers) {
                FilterMatch::No => {}
                other => return other,
            },
        }
    }
    FilterMatch::No
}

fn field_change(handler: &Handler, subject: FilterSubject<'_>, answers: &FilterAnswers) -> FilterMatch {
    let (Some(field), Some((old, new))) = (&handler.field, subject.change) else { return FilterMatch::Yes };
    let (old, new) = (resolve(field, old), resolve(field, new));
    let same = match (old, new) {
        (Some(old), Some(new)) => python_equal(old, new),
        (None, None) => true,
        _ => false,
    };
    if handler.field_needs_change && same {
        return FilterMatch::No;
    }
    for (filter, value, slot) in [(&handler.old, old, FilterSlot::Old), (&handler.new, new, FilterSlot::New)] {
        let Some(filter) = filter else { continue };
        let other = match plain(filter, value) {
            Some(true) => FilterMatch::Yes,
            Some(false) => FilterMatch::No,
            None => callback(handler, slot, value, answers),
        };
        match other {
            FilterMatch::Yes => {}
            other => return other,
        }
    }
    FilterMatch::Yes
}

/// None if only a callback can tell.
fn plain(filter: &Filter, value: Option<&Value>) -> Option<bool> {
    match filter {
        Filter::Present => Some(value.is_some()),
        Filter::Absent => Some(value.is_none()),
        Filter::Equals(expected) => Some(value.is_some_and(|value| python_equal(expected, value))),
        Filter::Callback => None,
    }
}

fn callback(handler: &Handler, slot: FilterSlot, value: Option<&Value>, answers: &FilterAnswers) -> FilterMatch {
    match answers.known.get(&(handler.index, slot.clone())) {
        Some(true) => FilterMatch::Yes,
        Some(false) => FilterMatch::No,
        None => FilterMatch::Effect(FilterQuestion { handler: handler.index, slot, value: value.cloned() }),
    }
}

fn resolve<'a>(field: &FieldPath, value: Option<&'a Value>) -> Option<&'a Value> {
    value.and_then(|value| field.resolve(value))
}

#[cfg(test)]
mod tests;
