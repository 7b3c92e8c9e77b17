//! Which handlers match an object: by labels, annotations, fields, values, callbacks, conditions.
//!
//! The cycle, the indexing and the admission call [`select_handlers`]. It decides everything that is plain data. For
//! callbacks, it returns questions, which the engine asks the front; then it is called again with the answers. It checks
//! plain filters first, so that the front calls few callbacks.

mod conditions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kopf_object::{Body, FieldPath, python_equal};
use serde_json::Value;

use crate::declare::deduplicated;
use crate::{Filter, Handler};

/// What the filters check.
#[derive(Clone, Copy, Debug)]
pub struct FilterSubject<'a> {
    /// The current state of the object.
    pub body: &'a Body,
    /// The essences before and after a change; `None` for events, which have no change.
    pub change: Option<(Option<&'a Value>, Option<&'a Value>)>,
}

/// Which filters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDepth {
    /// All but those on changes: does the handler care about the object at all?
    Interest,
    /// All filters.
    Full,
}

/// Which callback of a handler or of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FilterSlot {
    /// The callback on a label.
    Label(String),
    /// The callback on an annotation.
    Annotation(String),
    /// The callback on the value of the field.
    Value {
        /// Whether the value is that before the change.
        before: bool,
    },
    /// The callback on the field before the change.
    Old,
    /// The callback on the field after the change.
    New,
    /// The callback on the whole cause.
    When,
    /// The callback of the selector; only of conditions.
    Selector,
}

/// One callback for the front to call.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterQuestion {
    /// The index of the handler.
    pub handler: usize,
    /// The index of the condition of that handler, if the callback belongs to one.
    pub condition: Option<usize>,
    /// Which of its callbacks.
    pub slot: FilterSlot,
    /// The value to check; `None` if it is absent, or if the callback takes none.
    pub value: Option<Value>,
}

/// The answers of the front within one cycle: no callback is called twice.
#[derive(Clone, Debug, Default)]
pub struct FilterAnswers {
    known: HashMap<(usize, Option<usize>, FilterSlot), bool>,
}

impl FilterAnswers {
    /// Remembers an answer.
    pub fn insert(&mut self, question: &FilterQuestion, answer: bool) {
        self.known.insert((question.handler, question.condition, question.slot.clone()), answer);
    }

    /// Forgets all answers, because the cause changes.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

/// The decision, or the question to ask first.
enum FilterMatch {
    Yes,
    No,
    Ask(FilterQuestion),
}

/// Selects the handlers that match, without repetitions; or returns the questions to ask the front first.
///
/// ```
/// use std::sync::Arc;
/// use kopf_object::Body;
/// use kopf_reaction::{Filter, FilterAnswers, FilterDepth, FilterSubject, Handler, HandlerType, select_handlers};
/// use serde_json::json;
///
/// let mut handler = Handler::new(0, "gold_fn", HandlerType::Event);
/// handler.labels = Some([("tier".to_owned(), Filter::Equals(json!("gold")))].into());
/// let handlers = [Arc::new(handler)];
///
/// let body = Body::from_value(json!({"metadata": {"labels": {"tier": "gold"}}}));
/// let subject = FilterSubject { body: &body, change: None };
/// let selected = select_handlers(&handlers, subject, FilterDepth::Full, &FilterAnswers::default());
/// assert_eq!(selected.map(|handlers| handlers.len()), Ok(1));
/// ```
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
            FilterMatch::Ask(question) => questions.push(question),
        }
    }
    if questions.is_empty() { Ok(deduplicated(matching)) } else { Err(questions) }
}

/// Whose callbacks are in question, and the answers so far.
#[derive(Clone, Copy)]
struct Callbacks<'a> {
    handler: usize,
    condition: Option<usize>,
    answers: &'a FilterAnswers,
}

impl Callbacks<'_> {
    /// Decides a filter of one value, or asks its callback.
    fn check(self, filter: &Filter, value: Option<&Value>, slot: impl FnOnce() -> FilterSlot) -> FilterMatch {
        match plain(filter, value) {
            Some(true) => FilterMatch::Yes,
            Some(false) => FilterMatch::No,
            None => self.ask(slot(), value),
        }
    }

    fn ask(self, slot: FilterSlot, value: Option<&Value>) -> FilterMatch {
        let Self { handler, condition, answers } = self;
        let key = (handler, condition, slot);
        match answers.known.get(&key) {
            Some(true) => FilterMatch::Yes,
            Some(false) => FilterMatch::No,
            None => FilterMatch::Ask(FilterQuestion { handler, condition, slot: key.2, value: value.cloned() }),
        }
    }
}

fn match_filters(
    handler: &Handler,
    subject: FilterSubject<'_>,
    depth: FilterDepth,
    answers: &FilterAnswers,
) -> FilterMatch {
    let callbacks = Callbacks { handler: handler.index, condition: None, answers };
    all_of(&[
        &|| metadata(callbacks, subject, handler.labels.as_ref(), "labels", FilterSlot::Label),
        &|| metadata(callbacks, subject, handler.annotations.as_ref(), "annotations", FilterSlot::Annotation),
        &|| field_value(handler, subject, callbacks),
        &|| if depth == FilterDepth::Full { field_change(handler, subject, callbacks) } else { FilterMatch::Yes },
        &|| if handler.when { callbacks.ask(FilterSlot::When, None) } else { FilterMatch::Yes },
        &|| conditions::match_all(handler, subject, callbacks),
    ])
}

/// The first criterion that is not met, or not known yet, decides.
fn all_of(criteria: &[&dyn Fn() -> FilterMatch]) -> FilterMatch {
    for criterion in criteria {
        match criterion() {
            FilterMatch::Yes => {}
            other => return other,
        }
    }
    FilterMatch::Yes
}

/// A plain filter that does not match decides before any callback.
fn metadata(
    callbacks: Callbacks<'_>,
    subject: FilterSubject<'_>,
    filters: Option<&BTreeMap<String, Filter>>,
    stanza: &str,
    slot: fn(String) -> FilterSlot,
) -> FilterMatch {
    let Some(filters) = filters else { return FilterMatch::Yes };
    let content = subject.body.metadata().get(stanza);
    let mut question = None;
    for (key, filter) in filters {
        let value = content.and_then(|content| content.get(key));
        match callbacks.check(filter, value, || slot(key.clone())) {
            FilterMatch::Yes => {}
            FilterMatch::No => return FilterMatch::No,
            FilterMatch::Ask(asked) => question = question.or(Some(asked)),
        }
    }
    question.map_or(FilterMatch::Yes, FilterMatch::Ask)
}

/// The field must have such a value now or before the change; without a filter, any value.
fn field_value(handler: &Handler, subject: FilterSubject<'_>, callbacks: Callbacks<'_>) -> FilterMatch {
    let Some(field) = &handler.field else { return FilterMatch::Yes };
    let expected = handler.value.as_ref().unwrap_or(&Filter::Present);
    match subject.change {
        Some((old, new)) => either_value(callbacks, expected, resolve(field, new), resolve(field, old)),
        None => callbacks.check(expected, subject.body.get(field), || FilterSlot::Value { before: false }),
    }
}

fn either_value(callbacks: Callbacks<'_>, filter: &Filter, new: Option<&Value>, old: Option<&Value>) -> FilterMatch {
    match callbacks.check(filter, new, || FilterSlot::Value { before: false }) {
        FilterMatch::No => callbacks.check(filter, old, || FilterSlot::Value { before: true }),
        other => other,
    }
}

fn field_change(handler: &Handler, subject: FilterSubject<'_>, callbacks: Callbacks<'_>) -> FilterMatch {
    let (Some(field), Some((old, new))) = (&handler.field, subject.change) else { return FilterMatch::Yes };
    let (old, new) = (resolve(field, old), resolve(field, new));
    if handler.field_needs_change && is_same(old, new) {
        return FilterMatch::No;
    }
    old_and_new(callbacks, (handler.old.as_ref(), old), (handler.new.as_ref(), new))
}

fn old_and_new(
    callbacks: Callbacks<'_>,
    (old_filter, old): (Option<&Filter>, Option<&Value>),
    (new_filter, new): (Option<&Filter>, Option<&Value>),
) -> FilterMatch {
    all_of(&[
        &|| old_filter.map_or(FilterMatch::Yes, |filter| callbacks.check(filter, old, || FilterSlot::Old)),
        &|| new_filter.map_or(FilterMatch::Yes, |filter| callbacks.check(filter, new, || FilterSlot::New)),
    ])
}

fn is_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => python_equal(old, new),
        (None, None) => true,
        _ => false,
    }
}

/// Decides a plain filter; `None` if only a callback can decide.
fn plain(filter: &Filter, value: Option<&Value>) -> Option<bool> {
    match filter {
        Filter::Present => Some(value.is_some()),
        Filter::Absent => Some(value.is_none()),
        Filter::Equals(expected) => Some(value.is_some_and(|value| python_equal(expected, value))),
        Filter::Callback => None,
    }
}

fn resolve<'a>(field: &FieldPath, value: Option<&'a Value>) -> Option<&'a Value> {
    value.and_then(|value| field.resolve(value))
}

#[cfg(test)]
mod tests;
