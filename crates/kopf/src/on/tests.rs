use kopf_object::FieldPath;
use kopf_reaction::{Backoff, HandlerType, Reason};
use serde_json::{Value, json};

use std::time::Duration;

use kopf_reaction::Filter;

use super::*;
use crate::filter::{absent, present};
use crate::selector::{Everything, Resource};

async fn resize() {}

fn finish<T: Trigger, H: 'static>(registration: Registration<T>, _: H) -> Result<Handler, DeclarationError> {
    registration.finish::<H>(7, None).map(|(handler, _)| handler)
}

#[test]
fn ids_are_composed_of_parent_function_and_field() {
    let check = |registration: Registration<Update>, expected: &str| {
        assert_eq!(&*finish(registration, resize).unwrap().id, expected);
    };
    check(update("k"), "resize");
    check(update("k").id("other"), "other");
    check(update("k").field("spec.size"), "resize/spec.size");
    check(update("k").id("other").field("spec.size"), "other/spec.size");
    assert_eq!(&*finish(field("k", "spec.size"), resize).unwrap().id, "resize/spec.size");
    let (child, _) = subhandler().id("child").field("spec.x").finish::<u8>(1, Some("parent")).map_err(|_| ()).unwrap();
    assert_eq!(&*child.id, "parent/child/spec.x");
}

#[test]
fn each_trigger_has_its_reason_and_flags() {
    let check = |handler: Result<Handler, DeclarationError>, kind, reason, flags: [bool; 4]| {
        let handler = handler.unwrap();
        assert_eq!((handler.handler_type, handler.reason), (kind, reason), "{handler:?}");
        let actual = [handler.initial, handler.deleted, handler.requires_finalizer, handler.field_needs_change];
        assert_eq!(actual, flags, "{handler:?}");
        assert_eq!(handler.index, 7);
        assert_eq!(handler.selector.unwrap().any_name.as_deref(), Some("k"));
    };
    use HandlerType::{Change, Event};
    check(finish(event("k"), resize), Event, None, [false, false, false, false]);
    check(finish(create("k"), resize), Change, Some(Reason::Create), [false, false, false, false]);
    check(finish(update("k"), resize), Change, Some(Reason::Update), [false, false, false, true]);
    check(finish(delete("k"), resize), Change, Some(Reason::Delete), [false, false, true, false]);
    check(finish(delete("k").optional(), resize), Change, Some(Reason::Delete), [false, false, false, false]);
    check(finish(resume("k"), resize), Change, None, [true, false, false, false]);
    check(finish(resume("k").deleted(), resize), Change, None, [true, true, false, false]);
    check(finish(field("k", "spec"), resize), Change, None, [false, false, false, true]);
}

#[test]
fn options_and_filters_are_declared() {
    let registration = update("k")
        .retries(5)
        .timeout(Duration::from_millis(1500))
        .backoff(exponential(Duration::from_secs(1)).factor(3.0).max(Duration::from_secs(60)).jitter(0.1))
        .errors(ErrorsMode::Permanent)
        .concurrency(2)
        .label("a", "x")
        .label("b", present())
        .label("c", |value: Option<&str>| value.is_none())
        .annotation("d", absent())
        .field("spec.size")
        .old_value(1)
        .new_value(|value: Option<&Value>| value.is_some())
        .when(|context| context.name() == "my");
    let (handler, callbacks) = registration.finish::<u8>(1, None).map_err(|error| error.to_string()).unwrap();
    assert_eq!((handler.retries, handler.concurrency, handler.when), (Some(5), Some(2), true));
    assert_eq!(handler.timeout.unwrap().to_string(), "1.5");
    assert_eq!(
        handler.backoff,
        Some(Backoff::Exponential { initial: 1.0, factor: 3.0, max: Some(60.0), jitter: Some(0.1) })
    );
    assert_eq!(handler.errors, Some(ErrorsMode::Permanent));
    let labels: Vec<_> = handler.labels.unwrap().into_iter().collect();
    assert_eq!(
        labels,
        [
            ("a".to_owned(), Filter::Equals(json!("x"))),
            ("b".to_owned(), Filter::Present),
            ("c".to_owned(), Filter::Callback)
        ]
    );
    assert_eq!(handler.annotations.unwrap()["d"], Filter::Absent);
    assert_eq!((handler.field, handler.old), (Some(FieldPath::parse("spec.size")), Some(Filter::Equals(json!(1)))));
    assert_eq!(handler.new, Some(Filter::Callback));
    assert!(callbacks.labels["c"](None) && !callbacks.labels["c"](Some("x")));
    assert!(callbacks.new.unwrap()(Some(&json!(1))) && callbacks.old.is_none() && callbacks.when.len() == 1);
}

#[test]
fn mistakes_are_refused() {
    let check = |refused: Result<Handler, DeclarationError>, expected: &str| {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(finish(create("k"), || async {}), "needs an id");
    check(finish(create("k").value(1), resize), "handler 'resize' filters by value(), old_value() or new_value()");
    check(finish(update("k").old_value(1), resize), "has no field()");
    check(finish(update("k").field("x").old_value(1).value(1), resize), "only one can be used");
    check(finish(create("k").concurrency(0), resize), "concurrency of zero");
    check(finish(create("kopf.dev/v1/"), resize), "without the name of a resource");
    check(finish(create(kopf_reaction::Selector::default()), resize), "without the name of a resource");
    assert!(finish(create(Everything), resize).is_ok());
    assert!(finish(create(|resource: &Resource| resource.namespaced), resize).is_ok());
}
