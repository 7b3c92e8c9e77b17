use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::{Body, FieldPath};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    BackgroundView, CallOutcome, Cycle, CycleConclusion, CycleInput, CycleStep, Effect, EffectResult, EventType,
    HandlerType, Reason,
};

fn handlers(requires_finalizer: bool) -> HandlerSet {
    let handler = |index, id: &str, reason, requires_finalizer| {
        Arc::new(Handler { reason: Some(reason), requires_finalizer, ..Handler::new(index, id, HandlerType::Change) })
    };
    HandlerSet::from_handlers([
        handler(0, "create", Reason::Create, false),
        handler(1, "update", Reason::Update, false),
        handler(2, "delete", Reason::Delete, requires_finalizer),
    ])
}

/// As the engine has them: records in annotations, or all in the status; either is found in any case.
fn modes() -> [ReactionSettings; 2] {
    let settings = ReactionSettings::default();
    [settings.expanded(), settings.compacted()]
}

fn play(body: &Value, requires_finalizer: bool) -> (CycleConclusion, usize) {
    play_by(&ReactionSettings::default(), body, requires_finalizer)
}

/// What a whole cycle says about an object, with all handlers succeeding.
fn play_by(settings: &ReactionSettings, body: &Value, requires_finalizer: bool) -> (CycleConclusion, usize) {
    let mut cycle = Cycle::new(CycleInput {
        body: Body::from_value(body.clone()),
        event: Some(EventType::Modified),
        handlers: Arc::new(handlers(requires_finalizer)),
        settings: Arc::new(settings.clone()),
        initial: false,
        consistent: true,
        background: BackgroundView::default(),
        verbose: false,
    });
    let (mut result, mut calls) = (None, 0);
    loop {
        match cycle.step(result.take(), Timestamp::UNIX_EPOCH, &mut || 0.5) {
            CycleStep::Done(conclusion) => return (*conclusion, calls),
            CycleStep::Effect(Effect::Call(_)) => {
                calls += 1;
                result = Some(EffectResult::Called(CallOutcome { result: Ok(None), subrefs: Default::default() }));
            }
            CycleStep::Effect(other) => panic!("{other:?}"),
        }
    }
}

/// The object after all its handlers.
fn handled(mut body: Value) -> Value {
    play(&body, false).0.patch.apply_to(&mut body);
    body
}

fn handled_by(settings: &ReactionSettings, mut body: Value) -> Value {
    play_by(settings, &body, false).0.patch.apply_to(&mut body);
    body
}

fn holds(body: &Value, requires_finalizer: bool) -> bool {
    holds_by(&ReactionSettings::default(), body, requires_finalizer)
}

fn holds_by(settings: &ReactionSettings, body: &Value, requires_finalizer: bool) -> bool {
    let check = UpToDateCheck::of(&handlers(requires_finalizer), settings).unwrap();
    check.is_up_to_date(body.to_string().as_bytes())
}

fn body() -> Value {
    handled(json!({
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": "y", "other.dev/kopf-managed": "yes", "other.dev/z": "1"}},
        "spec": {"size": 1, "text": "plain", "list": [1, {"a": null}]},
        "status": {"ready": true},
    }))
}

#[test]
fn handled_objects_are_up_to_date() {
    assert!(holds(&body(), false));
    assert!(holds(&handled(json!({"metadata": {"name": "n"}, "spec": {}})), false));
    assert!(holds(&handled(json!({"metadata": {"annotations": {}, "labels": {}}, "data": {"k": "v"}})), false));
    assert!(!holds(&body(), true), "the finalizer is missing");
}

#[test]
fn wherever_the_record_is() {
    let fresh = || json!({"metadata": {"name": "n"}, "spec": {"a": 1}, "status": {"ready": true}});
    for writer in modes() {
        for reader in modes() {
            let mut body = handled_by(&writer, fresh());
            assert!(holds_by(&reader, &body, false), "{body}");
            body["status"]["kopf"]["progress"] = json!({"create": {"retries": 1}});
            assert!(!holds_by(&reader, &body, false), "{body}");
            let mut changed = handled_by(&writer, fresh());
            changed["spec"]["a"] = json!(2);
            assert!(!holds_by(&reader, &changed, false), "{changed}");
        }
    }
    let [plain, compact] = modes();
    let mut both = handled_by(&plain, fresh());
    let elsewhere = handled_by(&compact, fresh());
    both["status"] = elsewhere["status"].clone();
    assert!(!holds_by(&plain, &both, false), "two records: the cycle has to decide");
}

#[test]
fn others_are_not() {
    let changes = [
        ("spec.size", json!(2)),
        ("spec", json!(null)),
        ("metadata.labels", json!({"a": "c"})),
        ("metadata.annotations", json!({"x": "y"})),
        ("metadata.deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("metadata.finalizers", json!(["kopf.zalando.org/KopfFinalizerMarker"])),
        ("status.kopf", json!({"progress": {"create": {"retries": 1}}})),
        ("more", json!(1)),
    ];
    for (field, value) in changes {
        let mut body = body();
        FieldPath::parse(field).ensure(&mut body, value);
        assert!(!holds(&body, false), "{field}");
    }
    let mut unfinished = body();
    unfinished["metadata"]["annotations"]["kopf.zalando.org/create"] = json!("{}");
    assert!(!holds(&unfinished, false));
    let mut unrelated = body();
    unrelated["status"]["ready"] = json!(false);
    unrelated["metadata"]["annotations"]["other.dev/z"] = json!("2");
    assert!(holds(&unrelated, false), "changes that nobody is interested in");
    assert!(!UpToDateCheck::of(&handlers(false), &ReactionSettings::default()).unwrap().is_up_to_date(b"nonsense"));
}

#[test]
fn only_plain_operators() {
    let settings = ReactionSettings::default();
    let with = |change: &dyn Fn(&mut Handler)| {
        let mut handler = Handler::new(0, "create", HandlerType::Change);
        change(&mut handler);
        UpToDateCheck::of(&HandlerSet::from_handlers([Arc::new(handler)]), &settings).is_some()
    };
    assert!(with(&|_| {}));
    assert!(!with(&|handler| handler.when = true));
    assert!(!with(&|handler| handler.initial = true));
    assert!(!with(&|handler| handler.field = Some(FieldPath::parse("spec.a"))));
    assert!(!with(&|handler| handler.labels = Some(Default::default())));
    assert!(!with(&|handler| handler.handler_type = HandlerType::Event));
    let front = ReactionSettings { progress: ProgressStorage::Front, ..settings.clone() };
    assert!(UpToDateCheck::of(&handlers(false), &front).is_none());
    let front = ReactionSettings { diffbase: DiffBaseStorage::Front, ..settings.clone() };
    assert!(UpToDateCheck::of(&handlers(false), &front).is_none());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-zé\\\\\"<]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-cé]{1,2}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn texts() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        "[a-c]",
        Just("kopf.zalando.org/create".to_owned()),
        Just("o.dev/kopf-managed".to_owned()),
        Just("o.dev/x".to_owned())
    ];
    prop::collection::btree_map(key, "[a-c\"é]{0,3}", 0..4).prop_map(|map| json!(map))
}

proptest! {
    #[test]
    fn a_cycle_has_nothing_to_do_for_objects_that_are_up_to_date(
        before in (json_value(), texts(), texts()),
        after in (json_value(), texts(), texts()),
        changed in any::<[bool; 3]>(),
        modes in (0_usize..2, 0_usize..2).prop_map(|(writer, reader)| [&modes()[writer], &modes()[reader]].map(Clone::clone)),
    ) {
        let [writer, reader] = modes;
        let object = |(spec, labels, annotations): (Value, Value, Value)| {
            json!({"kind": "K", "metadata": {"name": "n", "labels": labels, "annotations": annotations}, "spec": spec})
        };
        let mut body = handled_by(&writer, object(before));
        let after = object(after);
        if changed[0] {
            body["spec"] = after["spec"].clone();
        }
        if changed[1] {
            body["metadata"]["labels"] = after["metadata"]["labels"].clone();
        }
        if changed[2] {
            for (key, value) in after["metadata"]["annotations"].as_object().unwrap() {
                body["metadata"]["annotations"][key] = value.clone();
            }
        }
        if holds_by(&reader, &body, false) {
            let (conclusion, calls) = play_by(&reader, &body, false);
            prop_assert_eq!(calls, 0);
            prop_assert!(conclusion.patch.is_empty(), "{:?} for {}", conclusion.patch, body);
            prop_assert!(conclusion.finalizer.is_none() && conclusion.delay.is_none());
        }
    }
}
