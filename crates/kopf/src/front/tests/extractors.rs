//! Extractors of single triggers, and values that do not fit: the error names the field, and is permanent.

use kopf_engine::BackgroundCall;
use kopf_reaction::StopReasons;
use tokio::sync::watch;

use super::*;
use crate::extract::{Context, Index, Latest, Stopped};

#[tokio::test]
async fn there_is_no_client_before_the_login() {
    async fn by_client(_: Client) {}
    let text = text_of(&call(Operator::new().on(on::create("k"), by_client), body()).await);
    assert_eq!(text, "permanent: handler 'by_client' cannot have a client: the operator has not logged in yet");
}

#[tokio::test]
async fn an_index_that_no_function_fills_is_refused_at_the_start() {
    async fn by_index(_: Index<String, u32>) {}
    async fn leniently(_: Result<Index<String, u32>>) {}
    async fn fill() -> (String, u32) {
        ("key".to_owned(), 1)
    }
    let start = |operator: Operator| operator.into_ready().into_front(None).map(drop);
    let refused = start(Operator::new().on(on::create("k"), by_index)).unwrap_err().to_string();
    assert!(refused.contains("handler 'by_index' has a parameter `Index<alloc::string::String, u32>`"), "{refused}");
    assert!(refused.contains("`Operator::index`"), "{refused}");
    assert!(start(Operator::new().on(on::startup(), by_index)).is_err());
    assert!(start(Operator::new().on(on::create("k"), leniently)).is_ok());
    assert!(start(Operator::new().on(on::create("k"), by_index).index(on::index("k"), fill)).is_ok());
}

#[tokio::test]
async fn a_sub_handler_cannot_read_an_index_that_no_function_fills() {
    async fn by_index(_: Index<String, u32>) {}
    async fn parent(children: Children) -> Result<()> {
        children.on(on::subhandler(), by_index)
    }
    let text = text_of(&call(Operator::new().on(on::create("k"), parent), body()).await);
    assert!(text.starts_with("permanent: handler 'parent/by_index' has a parameter `Index<"), "{text}");
}

#[tokio::test]
async fn values_that_do_not_fit_name_the_field() {
    async fn by_object(_: Object<KopfExample>) {}
    async fn by_new(_: New<Vec<u32>>) {}
    async fn by_null(_: Old<u32>) {}
    let mut misfit = body();
    misfit["spec"]["size"] = json!("big");
    let table = [
        (Operator::new().on(on::create("k"), by_object), "spec.size: invalid type: string \"big\", expected u32"),
        (Operator::new().on(on::update("k"), by_new), "new: invalid type: map, expected a sequence"),
        (Operator::new().on(on::field("k", "spec.absent"), by_null), "old: invalid type: null, expected u32"),
    ];
    for (operator, expected) in table {
        let text = text_of(&call(operator, misfit.clone()).await);
        assert!(text.starts_with("permanent: ") && text.contains(expected), "{text}");
        assert!(text.contains("cannot be called for KopfExample ns/my: "), "{text}");
    }
}

#[tokio::test]
async fn event_handlers_get_the_type_of_the_event() {
    async fn by_event(event: EventType, context: Context) -> Result<String> {
        assert_eq!((context.event_type(), context.label("app")), (Some(event), Some("x")));
        Ok(format!("{event:?}"))
    }
    let front = front(Operator::new().on(on::event("k"), by_event));
    let reply = front.call(handler_call(&front.configuration.handlers[0], &cycle(body())).0).await;
    assert_eq!(reply.result, Ok(Some(json!("Modified"))));

    let mut context = Arc::into_inner(cycle(body())).unwrap();
    context.event = None;
    let reply = front.call(handler_call(&front.configuration.handlers[0], &Arc::new(context)).0).await;
    assert_eq!(text_of(&reply), "permanent: handler 'by_event' was called for KopfExample ns/my without its event");
}

#[tokio::test]
async fn daemons_see_the_latest_state_and_the_request_to_stop() {
    async fn watch_over(stopped: Stopped, latest: Latest, again: Stopped) -> Result<Value> {
        assert!(!stopped.is_set());
        let before = latest.spec::<ExampleSpec>()?.size;
        stopped.wait().await;
        assert!(again.is_set() && again.reasons() == StopReasons::RESOURCE_DELETED);
        let misfit = latest.status::<ExampleSpec>().is_err() && latest.object::<Vec<u32>>().is_err();
        Ok(json!([before, latest.body()?.name(), misfit]))
    }
    let front = front(Operator::new().on(on::daemon("k"), watch_over));
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
async fn handlers_can_decide_about_values_that_do_not_fit() {
    async fn leniently(status: Result<Status<ExampleSpec>>, spec: Result<Spec<ExampleSpec>>) -> Result<Value> {
        Ok(json!([status.is_err(), spec.is_ok()]))
    }
    let reply = call(Operator::new().on(on::create("k"), leniently), body()).await;
    assert_eq!(reply.result, Ok(Some(json!([true, true]))));
}
