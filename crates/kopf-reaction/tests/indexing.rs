//! Indexing: data in, data out; and properties over arbitrary sequences of outcomes.

// Helpers outside of test functions may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kopf_object::Body;
use kopf_reaction::{
    CallError, CallOutcome, Effect, EffectResult, Handler, IndexFailures, Indexing, IndexingConclusion, IndexingStep,
    Severity,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn handler(index: usize, declaration: Value) -> Arc<Handler> {
    let mut whole = json!({"index": index, "fn": index, "kind": "indexing"});
    whole.as_object_mut().unwrap().extend(declaration.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(whole).unwrap())
}

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

#[derive(Clone, Debug)]
enum Outcome {
    Value,
    Temporary(f64),
    Permanent,
    Arbitrary,
}

impl Outcome {
    fn into_reply(self) -> EffectResult {
        let text = || "boo".to_owned();
        let result = match self {
            Self::Value => Ok(None),
            Self::Temporary(delay) => {
                Err(CallError::Temporary { message: text(), display: text(), delay: Some(delay) })
            }
            Self::Permanent => Err(CallError::Permanent { message: text(), display: text() }),
            Self::Arbitrary => Err(CallError::Arbitrary { message: text(), display: text() }),
        };
        EffectResult::Called(CallOutcome { result, subrefs: Default::default() })
    }
}

/// One body: the calls that were made (with their retries), the conclusion, and what was logged.
fn index(
    handlers: &[Arc<Handler>],
    body: Value,
    failures: IndexFailures,
    now: Timestamp,
    behave: impl Fn(&str) -> Outcome,
) -> (Vec<String>, IndexingConclusion, Vec<String>) {
    let mut indexing = Indexing::new(Body::from_value(body), handlers, failures, 60.0, false);
    let (mut calls, mut result) = (Vec::new(), None);
    let mut notes = Vec::new();
    loop {
        let step = indexing.step(result.take(), now, &mut || 0.5);
        notes.extend(indexing.take_notes().into_iter().map(|note| {
            assert!(note.local && note.severity >= Severity::Warning);
            note.text
        }));
        match step {
            IndexingStep::Done(conclusion) => return (calls, conclusion, notes),
            IndexingStep::Effect(Effect::Filters(questions)) => {
                result = Some(EffectResult::Filters(vec![true; questions.len()]))
            }
            IndexingStep::Effect(Effect::Call(request)) => {
                calls.push(format!("{}#{}", request.handler.id, request.retry));
                result = Some(behave(&request.handler.id).into_reply());
            }
            IndexingStep::Effect(other) => panic!("{other:?}"),
        }
    }
}

fn ids(conclusion: &IndexingConclusion) -> Vec<&str> {
    conclusion.excluded.iter().map(|id| &**id).collect()
}

#[test]
fn all_matching_handlers_are_called_and_the_others_have_nothing() {
    let handlers = [
        handler(0, json!({"id": "all"})),
        handler(1, json!({"id": "labelled", "labels": {"app": {"equals": "x"}}})),
        handler(2, json!({"id": "asked", "when": true})),
    ];
    let labelled = json!({"metadata": {"labels": {"app": "x"}}});
    let (calls, conclusion, notes) = index(&handlers, labelled, Vec::new(), start(), |_| Outcome::Value);
    assert_eq!(calls, ["all#0", "labelled#0", "asked#0"]);
    assert_eq!((conclusion, notes), (IndexingConclusion::default(), Vec::new()));
    let (calls, conclusion, _) = index(&handlers, json!({}), Vec::new(), start(), |_| Outcome::Value);
    assert_eq!((calls, ids(&conclusion)), (vec!["all#0".into(), "asked#0".into()], vec!["labelled"]));
}

#[test]
fn errors_exclude_the_object_unless_they_are_ignored() {
    let handlers = [handler(0, json!({"id": "fn"})), handler(1, json!({"id": "strict", "errors": "permanent"}))];
    // Arbitrary errors are ignored by default: what was there stays.
    let (_, conclusion, notes) = index(&handlers, json!({}), Vec::new(), start(), |_| Outcome::Arbitrary);
    assert_eq!((ids(&conclusion), conclusion.delay), (vec!["strict"], None));
    assert_eq!(
        notes,
        [
            "Indexer 'fn' failed with an exception and will ignore it: boo",
            "Indexer 'strict' failed with an exception and will stop now: boo"
        ]
    );
    // Failed for good: never called again for this object, not even for another body.
    let (calls, again, _) = index(&handlers, json!({}), conclusion.failures, later(1000), |_| Outcome::Value);
    assert_eq!((calls, ids(&again)), (vec!["fn#0".into()], vec!["strict"]));
    let (_, conclusion, _) = index(&handlers[..1], json!({}), Vec::new(), start(), |_| Outcome::Permanent);
    assert_eq!((ids(&conclusion), conclusion.failures.len()), (vec!["fn"], 1));
}

#[test]
fn temporary_errors_are_tried_again_when_it_is_time() {
    let handlers = [handler(0, json!({"id": "fn", "retries": 3}))];
    let fail = |_: &str| Outcome::Temporary(10.0);
    let (_, first, _) = index(&handlers, json!({}), Vec::new(), start(), fail);
    assert_eq!((ids(&first), first.delay), (vec!["fn"], Some(10.0)));
    let (calls, early, _) = index(&handlers, json!({}), first.failures, later(4), fail);
    assert_eq!((calls.len(), ids(&early), early.delay), (0, vec!["fn"], Some(6.0)));
    let (calls, second, _) = index(&handlers, json!({}), early.failures, later(10), fail);
    assert_eq!(calls, ["fn#1"]);
    let (calls, success, _) = index(&handlers, json!({}), second.failures.clone(), later(20), |_| Outcome::Value);
    assert_eq!((calls, success), (vec!["fn#2".into()], IndexingConclusion::default()));
    let (_, exhausted, notes) = index(&handlers, json!({}), second.failures, later(20), fail);
    assert_eq!(notes, ["Indexer 'fn' failed temporarily but will exceed 3 retries: boo"]);
    assert_eq!((ids(&exhausted), exhausted.delay), (vec!["fn"], None));
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Value),
        (0.0..100.0).prop_map(Outcome::Temporary),
        Just(Outcome::Permanent),
        Just(Outcome::Arbitrary)
    ]
}

proptest! {
    /// Over any life of an object: an index has the object if and only if the last call had no error that counts;
    /// who is not called is excluded; who waits is waited for; and nothing but failures is remembered.
    #[test]
    fn the_conclusion_agrees_with_the_calls(
        lives in prop::collection::vec((prop::collection::vec(outcomes(), 3), any::<bool>(), 0_i64..120), 1..12),
    ) {
        let handlers: Vec<_> = ["a", "b", "c"].iter().enumerate().map(|(number, id)| {
            let labels = if *id == "c" { json!({"app": {"present": true}}) } else { Value::Null };
            handler(number, json!({"id": id, "labels": labels, "retries": 4}))
        }).collect();
        let (mut failures, mut now) = (IndexFailures::new(), start());
        for (outcomes, labelled, pause) in lives {
            now += SignedDuration::from_secs(pause);
            let body = if labelled { json!({"metadata": {"labels": {"app": "x"}}}) } else { json!({}) };
            let behave = |id: &str| outcomes[usize::from(id.as_bytes()[0] - b'a')].clone();
            let (calls, conclusion, _) = index(&handlers, body, failures, now, behave);
            for handler in &handlers {
                let called = calls.iter().any(|call| call.starts_with(&format!("{}#", handler.id)));
                let works = called && matches!(behave(&handler.id), Outcome::Value | Outcome::Arbitrary);
                prop_assert_eq!(works, !conclusion.excluded.contains(&handler.id));
                prop_assert!(labelled || !called || &*handler.id != "c");
                if works {
                    prop_assert!(!conclusion.failures.iter().any(|(id, _)| *id == handler.id));
                }
            }
            let waiting = conclusion.failures.iter().any(|(_, state)| state.active && !state.failure);
            prop_assert_eq!(waiting, conclusion.delay.is_some());
            prop_assert!(conclusion.failures.iter().all(|(_, state)| !state.success && state.retries <= 4));
            failures = conclusion.failures;
        }
    }
}
