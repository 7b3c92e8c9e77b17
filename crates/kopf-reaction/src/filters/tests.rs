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
    let change = change.as_ref().map(|(old, new)| ((!old.is_null()).then_some(old), (!new.is_null()).then_some(new)));
    let body = Body::from_value(body.clone());
    let selected =
        select_handlers(&[handler], FilterSubject { body: &body, change }, depth, &FilterAnswers::default()).unwrap();
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
