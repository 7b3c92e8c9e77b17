//! Extractors where they are of use, and where they are not: what is refused says so, and is final.

use kopf_engine::BackgroundCall;
use kopf_reaction::StopReasons;
use tokio::sync::watch;

use super::*;
use crate::{Context, Index, Latest, Review, Stopped, Warnings, daemon, update};

/// Why the first handler of the operator was not called.
async fn refusal(operator: Operator) -> String {
    let text = text_of(&call(operator, body()).await);
    text.strip_prefix("permanent: ").unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[tokio::test]
async fn out_of_place() {
    async fn by_stopped(_: Stopped) {}
    async fn by_latest(_: Latest) {}
    async fn by_review(_: Review) {}
    async fn by_warnings(_: Warnings) {}
    async fn by_index(_: Index<String, u32>) {}
    async fn by_client(_: Client) {}
    let table = [
        (Operator::new().on(create("k"), by_stopped), "it is neither a daemon nor a timer"),
        (Operator::new().on(create("k"), by_latest), "it is neither a daemon nor a timer"),
        (Operator::new().on(create("k"), by_review), "it is not under review"),
        (Operator::new().on(create("k"), by_warnings), "it is not under review"),
        (Operator::new().on(create("k"), by_index), "the operator has no kopf::index::Index<"),
        (Operator::new().on(create("k"), by_client), "'by_client' cannot have a client: there was no login yet"),
    ];
    for (operator, expected) in table {
        let text = refusal(operator).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn values_of_other_types() {
    async fn by_object(_: Object<KopfExample>) {}
    async fn by_new(_: New<Vec<u32>>) {}
    async fn by_null(_: Old<u32>) {}
    let mut odd = body();
    odd["spec"]["size"] = json!("big");
    let table = [
        (Operator::new().on(create("k"), by_object), "spec.size: invalid type: string \"big\", expected u32"),
        (Operator::new().on(update("k"), by_new), "new: invalid type: map, expected a sequence"),
        (Operator::new().on(field("k", "spec.absent"), by_null), "old: invalid type: null, expected u32"),
    ];
    for (operator, expected) in table {
        let text = text_of(&call(operator, odd.clone()).await);
        assert!(text.starts_with("permanent: ") && text.contains(expected), "{text}");
        assert!(text.contains("cannot be called for KopfExample ns/my: "), "{text}");
    }
}

#[tokio::test]
async fn events_and_contexts() {
    async fn by_event(event: EventType, also: Option<EventType>, diff: Diff, context: Context) -> Result<String> {
        assert_eq!((also, diff.len(), context.label("app")), (Some(event), 0, Some("x")));
        Ok(format!("{event:?}"))
    }
    async fn without_one(event: Option<EventType>) -> Result<bool> {
        Ok(event.is_none())
    }
    let reply = call(Operator::new().on(event("k"), by_event), body()).await;
    assert_eq!(reply.result, Ok(Some(json!("Modified"))));

    let front = front(Operator::new().on(create("k"), without_one).on(create("k"), by_event));
    let mut context = Arc::into_inner(cycle(body())).unwrap();
    context.event = None;
    let context = Arc::new(context);
    let reply = front.call(handler_call(&front.configuration.handlers[0], &context).0).await;
    assert_eq!(reply.result, Ok(Some(json!(true))));
    let reply = front.call(handler_call(&front.configuration.handlers[1], &context).0).await;
    assert!(text_of(&reply).ends_with("it has not come by an event"), "{}", text_of(&reply));
}

#[tokio::test]
async fn daemons_see_the_newest_and_the_request_to_stop() {
    async fn watch_over(stopped: Stopped, latest: Latest, again: Stopped) -> Result<Value> {
        assert!(!stopped.is_set());
        let before = latest.spec::<ExampleSpec>()?.size;
        stopped.wait().await;
        assert!(again.is_set() && again.reasons() == StopReasons::RESOURCE_DELETED);
        let misfit = latest.status::<ExampleSpec>().is_err() && latest.object::<Vec<u32>>().is_err();
        Ok(json!([before, latest.body()?.name(), misfit]))
    }
    let front = front(Operator::new().on(daemon("k"), watch_over));
    let context = cycle(body());
    let (mut call, _requests) = handler_call(&front.configuration.handlers[0], &context);
    let (stop, stops) = watch::channel(StopReasons::default());
    let live = Arc::new(kopf_engine::LiveBody::new(Arc::clone(context.body.raw())));
    call.background = Some(BackgroundCall { number: 1, stops, live });
    let calling = tokio::spawn(front.call(call));
    while stop.receiver_count() < 3 {
        tokio::task::yield_now().await;
    }
    stop.send_replace(StopReasons::RESOURCE_DELETED);
    assert_eq!(calling.await.unwrap().result, Ok(Some(json!([3, "my", true]))));
}

#[tokio::test]
async fn refusals_can_be_asked_for() {
    async fn leniently(stopped: Result<Stopped>, spec: Result<Spec<ExampleSpec>>) -> Result<Value> {
        Ok(json!([stopped.is_err(), spec.is_ok()]))
    }
    let reply = call(Operator::new().on(create("k"), leniently), body()).await;
    assert_eq!(reply.result, Ok(Some(json!([true, true]))));
}
