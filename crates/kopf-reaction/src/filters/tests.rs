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

/// Of which conditions the tests are: spec.x changes from 1 to 2, spec.gone goes, spec.added comes.
fn condition_answers(handler: Value, condition: Value, callbacks: bool) -> (bool, Vec<FilterSlot>) {
    let mut declaration = json!({"conditions": [condition]});
    declaration.as_object_mut().unwrap().extend(handler.as_object().unwrap().clone());
    let handler = self::handler(declaration);
    let body = Body::from_value(json!({"metadata": {"labels": {"a": "b"}}}));
    let (old, new) = (json!({"spec": {"x": 1, "gone": 1}}), json!({"spec": {"x": 2, "added": 1}}));
    let subject = FilterSubject { body: &body, change: Some((Some(&old), Some(&new))) };
    let mut answers = FilterAnswers::default();
    let mut asked = Vec::new();
    loop {
        let [interest, full] = [FilterDepth::Interest, FilterDepth::Full]
            .map(|depth| select_handlers(&[Arc::clone(&handler)], subject, depth, &answers));
        match full {
            Ok(selected) => {
                assert_eq!(interest.unwrap().len(), selected.len(), "conditions count at any depth");
                return (!selected.is_empty(), asked);
            }
            Err(questions) => {
                for question in questions {
                    answers.insert(&question, callbacks);
                    assert_eq!(question.condition, Some(3));
                    asked.push(question.slot);
                }
            }
        }
    }
}

#[test]
fn conditions_filter_by_metadata_fields_and_changes() {
    let field = |name: &str, more: Value| {
        let mut condition = json!({"index": 3, "field": ["spec", name]});
        condition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        condition
    };
    let table = [
        (json!({}), true),
        (json!({"labels": {"a": {"equals": "b"}}}), true),
        (json!({"labels": {"a": {"equals": "x"}}}), false),
        (json!({"labels": {"z": {"absent": true}}}), true),
        (json!({"annotations": {"a": {"equals": "b"}}}), false),
        (field("x", json!({})), true),
        (field("none", json!({})), false),
        (field("x", json!({"value": {"equals": 1}})), true),
        (field("x", json!({"value": {"equals": 2}})), true),
        (field("x", json!({"value": {"equals": 3}})), false),
        (field("x", json!({"old": {"equals": 1}, "new": {"equals": 2}})), true),
        (field("x", json!({"old": {"equals": 2}})), false),
        (field("added", json!({"old": {"absent": true}, "new": {"present": true}})), true),
        (field("none", json!({"old": {"absent": true}})), true),
    ];
    for (condition, expected) in table {
        assert_eq!(condition_answers(json!({}), condition.clone(), true), (expected, vec![]), "{condition}");
    }
    let same = json!({"index": 3, "field": ["spec"], "value": {"present": true}});
    assert_eq!(condition_answers(json!({"field_needs_change": true}), same.clone(), true), (true, vec![]));
    let unchanged = json!({"index": 3, "field": ["status"], "old": {"absent": true}});
    assert_eq!(condition_answers(json!({}), unchanged.clone(), true), (true, vec![]));
    assert_eq!(condition_answers(json!({"field_needs_change": true}), unchanged, true), (false, vec![]));
}

#[test]
fn conditions_ask_their_callbacks_one_after_another() {
    let all = json!({
        "index": 3, "labels": {"a": {"callback": true}}, "field": ["spec", "x"], "old": {"callback": true},
        "new": {"callback": true}, "when": true,
    });
    let slots = vec![FilterSlot::Label("a".into()), FilterSlot::Old, FilterSlot::New, FilterSlot::When];
    assert_eq!(condition_answers(json!({}), all.clone(), true), (true, slots.clone()));
    assert_eq!(condition_answers(json!({}), all, false), (false, slots[..1].to_vec()));
    let either = json!({"index": 3, "field": ["spec", "x"], "value": {"callback": true}});
    let both = vec![FilterSlot::Value { before: false }, FilterSlot::Value { before: true }];
    assert_eq!(condition_answers(json!({}), either, false), (false, both));
    let others = json!({"index": 3, "selector": {"callback": true}, "labels": {"z": {"present": true}}});
    assert_eq!(condition_answers(json!({}), others.clone(), false), (true, vec![FilterSlot::Selector]));
    assert_eq!(condition_answers(json!({}), others, true), (false, vec![FilterSlot::Selector]));
}

#[test]
fn conditions_about_other_resources_do_not_count() {
    let resource = Arc::new(crate::Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        preferred: true,
        ..Default::default()
    });
    let conditions = json!([
        {"index": 0, "selector": {"plural": "pods"}, "field": ["status", "x"]},
        {"index": 1, "selector": {"plural": "kopfexamples"}},
        {"index": 2},
    ]);
    let set = crate::HandlerSet::for_resource(&resource, [handler(json!({"conditions": conditions}))]);
    let indexes: Vec<usize> = set.change_handlers[0].conditions.iter().map(|condition| condition.index).collect();
    assert_eq!(indexes, [1, 2]);
    assert_eq!(set.extra_fields, [FieldPath::parse("status.x")], "the essence does not depend on the resource");
}
