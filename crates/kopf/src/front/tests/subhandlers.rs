//! Sub-handlers: the test takes the place of the engine.

use futures::StreamExt as _;
use kopf_engine::ChildrenReply;

use super::*;

/// Calls the first handler, and its sub-handlers in the place of the engine. Returns their ids and results.
async fn call_parent<S, P>(operator: Operator<S, P>, done: bool) -> (CallReply, Vec<(String, Value)>, RustFront)
where
    S: Send + Sync + 'static,
    P: ProvideState<S>,
{
    let front = front(operator);
    let context = cycle(body());
    let (call, mut requests) = handler_call(&front.configuration.handlers[0], &context);
    let mut calling = front.call(call);
    let mut results = Vec::new();
    let reply = loop {
        tokio::select! {
            reply = &mut calling => break reply,
            Some(request) = requests.next() => {
                for handler in &request.handlers {
                    let (call, _requests) = handler_call(handler, &context);
                    results.push((handler.id.to_string(), front.call(call).await.result.unwrap().unwrap()));
                }
                request.reply.send(ChildrenReply { done, delay_seconds: Some(3.0) }).unwrap();
            }
        }
    };
    (reply, results, front)
}

#[tokio::test]
async fn sub_handlers_are_executed_when_their_parent_returns() {
    async fn implicitly(spec: Spec<ExampleSpec>, children: Children) -> Result<&'static str> {
        for number in 0..spec.size {
            children.on(on::subhandler().id(format!("child{number}")), move |meta: Meta| async move {
                Ok::<_, Error>(format!("{} {number}", meta.name()))
            })?;
        }
        Ok("parent")
    }
    let (reply, results, front) = call_parent(Operator::new().on(on::create("k"), implicitly), true).await;
    assert_eq!(reply.result, Ok(Some(json!("parent"))));
    let expected = ["implicitly/child0", "implicitly/child1", "implicitly/child2"].into_iter().enumerate();
    assert_eq!(results, expected.map(|(n, id)| (id.to_owned(), json!(format!("my {n}")))).collect::<Vec<_>>());
    let first_of_children = front.configuration.handlers[0].index + 2;
    assert!(front.operator.registry.get(first_of_children).is_none(), "sub-handlers must be forgotten");
}

#[tokio::test]
async fn sub_handlers_executed_explicitly_and_not_finished() {
    async fn named(State(state): State<u32>) -> Result<u32> {
        Ok(state)
    }
    async fn explicitly(children: Children<u32>, patch: Patch) -> Result<()> {
        children.on(on::subhandler(), named)?;
        children.execute().await?;
        patch.status("unreachable", true)
    }
    let operator = || Operator::new().on(on::resume("k"), explicitly).with_state(7);
    let (reply, results, _) = call_parent(operator(), false).await;
    assert_eq!(reply.result, Err(CallError::ChildrenRetry { delay: Some(3.0) }));
    assert_eq!((results, reply.patch), (vec![("explicitly/named".to_owned(), json!(7))], None));
    let (reply, results, _) = call_parent(operator(), true).await;
    assert_eq!((results.len(), reply.result, reply.patch.is_some()), (1, Ok(None), true));
}

#[tokio::test]
async fn sub_handlers_without_names_are_refused() {
    async fn parent(children: Children) -> Result<()> {
        children.on(on::subhandler(), || async {})
    }
    let reply = call(Operator::new().on(on::create("k"), parent), body()).await;
    assert!(text_of(&reply).starts_with("permanent: a handler without a name needs an id"), "{}", text_of(&reply));
}
