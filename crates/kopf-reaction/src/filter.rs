//! Which handlers an object matches: labels, annotations, fields, values, callbacks.
//!
//! What is plain data is decided here. Callbacks are questions to the front: `select` gives them back
//! until all answers are there, the cheap criteria first, so that few callbacks are ever called.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_object::{Body, FieldPath, python_equal};
use serde::Deserialize;
use serde_json::Value;

use crate::Handler;
use crate::handler::deduplicated;

/// What is expected of one value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "FilterJson")]
pub enum Filter {
    Present,
    Absent,
    Equals(Value),
    /// A function of the user decides.
    Callback,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FilterJson {
    Present(#[allow(dead_code)] bool),
    Absent(#[allow(dead_code)] bool),
    Equals(Value),
    Callback(#[allow(dead_code)] bool),
}

impl From<FilterJson> for Filter {
    fn from(form: FilterJson) -> Self {
        match form {
            FilterJson::Present(_) => Self::Present,
            FilterJson::Absent(_) => Self::Absent,
            FilterJson::Equals(value) => Self::Equals(value),
            FilterJson::Callback(_) => Self::Callback,
        }
    }
}

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
mod tests {
    use super::*;
    use crate::HandlerType;
    use serde_json::json;

    fn handler(declaration: Value) -> Arc<Handler> {
        let mut full = json!({"index": 7, "id": "fn", "kind": "changing"});
        full.as_object_mut().unwrap().extend(declaration.as_object().unwrap().clone());
        Arc::new(serde_json::from_value(full).unwrap())
    }

    fn check(declaration: Value, body: &Value, change: Option<(Value, Value)>, depth: FilterDepth, expected: bool) {
        let handler = handler(declaration.clone());
        let change =
            change.as_ref().map(|(old, new)| ((!old.is_null()).then_some(old), (!new.is_null()).then_some(new)));
        let body = Body::from_value(body.clone());
        let selected =
            select_handlers(&[handler], FilterSubject { body: &body, change }, depth, &FilterAnswers::default())
                .unwrap();
        assert_eq!(!selected.is_empty(), expected, "{declaration} on {body:?} {change:?} {depth:?}");
    }

    #[test]
    fn metadata_filters() {
        let body = json!({"metadata": {"labels": {"a": "x"}, "annotations": {"n": "y"}}});
        let table = [
            (json!({}), true),
            (json!({"labels": {"a": {"equals": "x"}}}), true),
            (json!({"labels": {"a": {"equals": "z"}}}), false),
            (json!({"labels": {"b": {"equals": "x"}}}), false),
            (json!({"labels": {"a": {"present": true}}}), true),
            (json!({"labels": {"b": {"present": true}}}), false),
            (json!({"labels": {"b": {"absent": true}}}), true),
            (json!({"labels": {"a": {"absent": true}}}), false),
            (json!({"annotations": {"n": {"equals": "y"}}}), true),
            (json!({"annotations": {"n": {"equals": "y"}}, "labels": {"a": {"absent": true}}}), false),
        ];
        for (declaration, expected) in table {
            check(declaration, &body, None, FilterDepth::Full, expected);
        }
        check(json!({"labels": {"a": {"absent": true}}}), &json!({}), None, FilterDepth::Full, true);
    }

    #[test]
    fn field_filters() {
        use FilterDepth::{Full, Interest};
        let body = json!({"spec": {"size": 2}});
        let old = json!({"spec": {"size": 1}});
        let new = json!({"spec": {"size": 2}});
        let gone = json!({"spec": {}});
        let field = |more: Value| {
            let mut declaration = json!({"field": ["spec", "size"]});
            declaration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            declaration
        };
        let table = [
            (field(json!({})), None, Full, true),
            (field(json!({"value": {"equals": 2}})), None, Full, true),
            (field(json!({"value": {"equals": 2.0}})), None, Full, true),
            (field(json!({"value": {"equals": 1}})), None, Full, false),
            (field(json!({"value": {"absent": true}})), None, Full, false),
            (field(json!({"value": {"equals": 1}})), Some((old.clone(), new.clone())), Full, true),
            (field(json!({"field_needs_change": true})), Some((old.clone(), new.clone())), Full, true),
            (field(json!({"field_needs_change": true})), Some((old.clone(), old.clone())), Full, false),
            (field(json!({"field_needs_change": true})), Some((old.clone(), old.clone())), Interest, true),
            (field(json!({"old": {"equals": 1}, "new": {"equals": 2}})), Some((old.clone(), new.clone())), Full, true),
            (field(json!({"old": {"equals": 2}})), Some((old.clone(), new.clone())), Full, false),
            (field(json!({"old": {"equals": 2}})), Some((old.clone(), new.clone())), Interest, true),
            (field(json!({"new": {"absent": true}})), Some((old.clone(), gone.clone())), Full, true),
            (field(json!({})), Some((gone.clone(), gone.clone())), Full, false),
            (field(json!({"field_needs_change": true})), Some((Value::Null, new.clone())), Full, true),
        ];
        for (declaration, change, depth, expected) in table {
            check(declaration, &body, change, depth, expected);
        }
    }

    #[test]
    fn callbacks_are_asked_last_and_once() {
        let body = Body::from_value(json!({"metadata": {"labels": {"a": "x"}}, "spec": {"size": 2}}));
        let subject = FilterSubject { body: &body, change: None };
        let refused = handler(json!({"labels": {"a": {"absent": true}}, "when": true}));
        assert!(select_handlers(&[refused], subject, FilterDepth::Full, &FilterAnswers::default()).unwrap().is_empty());

        let asking = handler(
            json!({"labels": {"a": {"callback": true}}, "field": ["spec", "size"], "value": {"callback": true}, "when": true}),
        );
        let mut answers = FilterAnswers::default();
        let mut asked = Vec::new();
        loop {
            match select_handlers(&[Arc::clone(&asking)], subject, FilterDepth::Full, &answers) {
                Ok(selected) => {
                    assert_eq!(selected.len(), 1);
                    break;
                }
                Err(questions) => {
                    for question in questions {
                        answers.insert(&question, true);
                        asked.push((question.slot, question.value));
                    }
                }
            }
        }
        assert_eq!(
            asked,
            [
                (FilterSlot::Label("a".into()), Some(json!("x"))),
                (FilterSlot::Value { before: false }, Some(json!(2))),
                (FilterSlot::When, None),
            ]
        );
    }

    #[test]
    fn the_same_function_and_id_counts_once() {
        let mut twin = Handler::new(1, "fn", HandlerType::Change);
        twin.function = 0;
        let handlers = [Arc::new(Handler::new(0, "fn", HandlerType::Change)), Arc::new(twin)];
        let body = Body::from_value(json!({}));
        let selected = select_handlers(
            &handlers,
            FilterSubject { body: &body, change: None },
            FilterDepth::Full,
            &FilterAnswers::default(),
        );
        assert_eq!(selected.unwrap().len(), 1);
    }
}
