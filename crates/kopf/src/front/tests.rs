//! The front without a cluster: the tests make calls in the place of the engine, and check the replies.

mod extractors;
mod subhandlers;
mod webhooks;

use std::sync::OnceLock;

use futures::channel::mpsc::Receiver;
use kopf_engine::{Children as ChildrenPort, ChildrenRequest};
use kopf_object::diff;
use kopf_reaction::{Activity, Cause, EventType, FilterSlot, Reason};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::extract::{
    Children, Diff, Events, FromRef, Logger, Memo, Meta, New, Object, Old, Retry, Runtime, Spec, Started, State, Status,
};
use crate::operator::ProvideState;
use crate::{Client, Operator, of, on};

#[derive(kube::CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[kube(group = "kopf.dev", version = "v1", kind = "KopfExample", namespaced)]
struct ExampleSpec {
    size: u32,
    #[serde(default)]
    tags: Vec<String>,
}

fn front<S: Send + Sync + 'static, P: ProvideState<S>>(operator: Operator<S, P>) -> RustFront {
    operator.into_ready().into_front(None).map_err(|error| error.to_string()).unwrap().0
}

fn body() -> Value {
    json!({
        "metadata": {"name": "my", "namespace": "ns", "uid": "u1", "labels": {"app": "x"}},
        "spec": {"size": 3, "tags": ["a"]},
    })
}

fn cycle(body: Value) -> Arc<CycleContext> {
    let resource = json!({
        "group": "kopf.dev", "version": "v1", "plural": "kopfexamples", "kind": "KopfExample", "singular": "kopfexample",
        "shortcuts": [], "categories": [], "subresources": [], "namespaced": true, "preferred": true, "verbs": [],
    });
    let body = Body::from_value(body);
    let (old, new) = (json!({"spec": {"size": 1}}), json!({"spec": body.value()["spec"]}));
    let cause = Cause {
        body: body.clone(),
        event: None,
        reason: Reason::Update,
        initial: false,
        diff: diff(Some(&old), Some(&new)),
        old: Some(old),
        new: Some(new),
        deletion_ongoing: false,
    };
    Arc::new(CycleContext {
        uid: "u1".into(),
        resource: Arc::new(serde_json::from_value(resource).unwrap()),
        body,
        event: Some(EventType::Modified),
        finalizer: "kopf.dev/finalizer".into(),
        cause: OnceLock::from(Arc::new(cause)),
        slot: OnceLock::new(),
        memory: Arc::default(),
    })
}

fn handler_call(handler: &Arc<Handler>, context: &Arc<CycleContext>) -> (HandlerCall, Receiver<ChildrenRequest>) {
    let (children, requests) = ChildrenPort::channel();
    let change = context.cause.get().unwrap().change_for(handler);
    let call = HandlerCall {
        handler: Arc::clone(handler),
        context: Arc::clone(context),
        retry: 2,
        started: "2026-11-15T12:00:00Z".parse().unwrap(),
        runtime_seconds: 1.5,
        timeout_seconds: None,
        change: (handler.handler_type != kopf_reaction::HandlerType::Event).then_some(change),
        children,
        background: None,
    };
    (call, requests)
}

/// Calls the first handler of the operator.
async fn call<S: Send + Sync + 'static, P: ProvideState<S>>(operator: Operator<S, P>, body: Value) -> CallReply {
    let front = front(operator);
    let (call, _requests) = handler_call(&front.configuration.handlers[0], &cycle(body));
    front.call(call).await
}

fn text_of(reply: &CallReply) -> String {
    match &reply.result {
        Err(CallError::Permanent { message, .. }) => format!("permanent: {message}"),
        Err(CallError::Temporary { message, delay, .. }) => format!("temporary in {delay:?}: {message}"),
        Err(CallError::Arbitrary { message, .. }) => format!("arbitrary: {message}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn handlers_get_the_object_and_its_change() {
    let handle = |spec: Spec<ExampleSpec>,
                  status: Status<Option<ExampleSpec>>,
                  meta: Meta,
                  object: Object<KopfExample>,
                  body: Body,
                  old: Old<Value>,
                  New(new): New<Value>,
                  diff: Diff,
                  reason: Reason,
                  retry: Retry,
                  Runtime(runtime): Runtime,
                  started: Started| async move {
        assert!(status.is_none() && object.spec.size == spec.size && body.name() == Some("my"));
        assert_eq!((meta.name(), meta.namespace(), meta.uid()), ("my", Some("ns"), "u1"));
        assert_eq!((meta.label("app"), meta.annotation("none")), (Some("x"), None));
        let owner = meta.owner_reference();
        assert_eq!((&*owner.api_version, &*owner.kind, &*owner.uid), ("kopf.dev/v1", "KopfExample", "u1"));
        assert_eq!((*retry, runtime.as_millis(), started.as_second() > 0), (2, 1500, true));
        Ok::<_, Error>(json!({"old": *old, "new": new, "diff": diff.len(), "reason": reason, "size": spec.size}))
    };
    let mut typed = body();
    typed["apiVersion"] = json!("kopf.dev/v1");
    typed["kind"] = json!("KopfExample");
    let reply = call(Operator::new().on(on::create(of::<KopfExample>()).id("handle"), handle), typed).await;
    let expected = json!({
        "old": {"spec": {"size": 1}}, "new": {"spec": {"size": 3, "tags": ["a"]}}, "diff": 2, "reason": "update", "size": 3,
    });
    assert_eq!(reply.result, Ok(Some(expected)));
    assert!(reply.patch.is_none() && !reply.transformations);
}

#[tokio::test]
async fn field_handlers_get_their_field() {
    async fn resize(old: Old<Option<u32>>, new: New<Option<u32>>) -> Result<String> {
        Ok(format!("{:?} {:?}", *old, *new))
    }
    let reply = call(Operator::new().on(on::field("k", "spec.size"), resize), body()).await;
    assert_eq!(reply.result, Ok(Some(json!("Some(1) Some(3)"))));
    let reply = call(Operator::new().on(on::field("k", "spec.absent"), resize), body()).await;
    assert_eq!(reply.result, Ok(Some(json!("None None"))));
}

#[tokio::test]
async fn errors_of_extraction_name_the_object_the_field_and_the_handler() {
    async fn by_spec(_: Spec<ExampleSpec>) {}
    async fn by_status(_: Status<ExampleSpec>) {}
    async fn by_old(_: Old<u32>) {}
    async fn leniently(spec: Result<Spec<ExampleSpec>>) -> Result<bool> {
        Ok(spec.is_err())
    }
    let mut bad = body();
    bad["spec"] = json!({"size": "big", "tags": []});
    let reply = call(Operator::new().on(on::create("k"), by_spec), bad.clone()).await;
    assert_eq!(
        text_of(&reply),
        "permanent: handler 'by_spec' cannot be called for KopfExample ns/my: \
         spec.size: invalid type: string \"big\", expected u32"
    );
    bad["spec"] = json!({"size": 1, "tags": ["a", 1]});
    let reply = call(Operator::new().on(on::create("k"), by_spec), bad.clone()).await;
    assert!(text_of(&reply).contains("spec.tags[1]: invalid type"), "{}", text_of(&reply));
    let reply = call(Operator::new().on(on::create("k"), by_status), body()).await;
    assert!(text_of(&reply).ends_with("status: missing field `size`"), "{}", text_of(&reply));
    let reply = call(Operator::new().on(on::create("k"), by_old), body()).await;
    assert!(text_of(&reply).contains("old: invalid type: map"), "{}", text_of(&reply));
    let reply = call(Operator::new().on(on::create("k"), leniently), bad).await;
    assert_eq!(reply.result, Ok(Some(json!(true))));
}

#[tokio::test]
async fn the_patch_is_shared_in_a_cycle_and_kept_on_errors() {
    async fn first(patch: Patch) -> Result<()> {
        patch.status("first", 1)?;
        Err(Error::permanent("boo"))
    }
    async fn second(patch: Patch) -> Result<()> {
        patch.status("second", 2)?;
        patch.transform(|body| body["spec"]["tags"] = json!(["b"]));
        Ok(())
    }
    let front = front(Operator::new().on(on::create("k"), first).on(on::create("k"), second));
    let context = cycle(body());
    let reply = front.call(handler_call(&front.configuration.handlers[0], &context).0).await;
    assert_eq!((text_of(&reply).as_str(), reply.transformations), ("permanent: boo", false));
    assert_eq!(reply.patch, Some(json!({"status": {"first": 1}})));
    let reply = front.call(handler_call(&front.configuration.handlers[1], &context).0).await;
    assert_eq!(reply.patch, Some(json!({"status": {"first": 1, "second": 2}})));
    assert!(reply.transformations);
    let transformed = front.transform(Arc::clone(&context), context.body.clone()).await.unwrap();
    assert_eq!(transformed["spec"], json!({"size": 3, "tags": ["b"]}));
    let other = front.call(handler_call(&front.configuration.handlers[1], &cycle(body())).0).await;
    assert_eq!(other.patch, Some(json!({"status": {"second": 2}})));
}

#[tokio::test]
async fn a_memo_outlives_cycles() {
    async fn count(memo: Memo) -> Result<u32> {
        Ok(memo.with(|count: &mut u32| {
            *count += 1;
            *count
        }))
    }
    let front = front(Operator::new().on(on::create("k"), count));
    let first = cycle(body());
    let second =
        Arc::new(CycleContext { memory: Arc::clone(&first.memory), ..Arc::into_inner(cycle(body())).unwrap() });
    for (context, expected) in [(&first, 1), (&second, 2), (&cycle(body()), 1)] {
        let reply = front.call(handler_call(&front.configuration.handlers[0], context).0).await;
        assert_eq!(reply.result, Ok(Some(json!(expected))));
    }
}

#[tokio::test]
async fn errors_and_panics_become_call_errors() {
    async fn temporary() -> Result<()> {
        Err(Error::temporary("later").after(Duration::from_secs(5)))
    }
    async fn arbitrary() -> Result<()> {
        "x".parse::<u32>()?;
        Ok(())
    }
    async fn foreign() -> std::result::Result<(), std::num::ParseIntError> {
        "x".parse::<u32>().map(drop)
    }
    async fn panicking() {
        let items: Vec<u32> = Vec::new();
        assert!(items.len() > 1, "too few: {}", items.len());
    }
    let reply = call(Operator::new().on(on::create("k"), temporary), body()).await;
    assert_eq!(text_of(&reply), "temporary in Some(5.0): later");
    for reply in [
        call(Operator::new().on(on::create("k"), arbitrary), body()).await,
        call(Operator::new().on(on::create("k"), foreign), body()).await,
    ] {
        assert_eq!(text_of(&reply), "arbitrary: invalid digit found in string");
        assert!(reply.error.unwrap().downcast_ref::<Error>().is_some());
    }
    let reply = call(Operator::new().on(on::create("k"), panicking), body()).await;
    assert_eq!(text_of(&reply), "arbitrary: panicked: too few: 0");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_is_limited() {
    async fn endless(patch: Patch) -> Result<()> {
        patch.status("begun", true)?;
        std::future::pending().await
    }
    let front = front(Operator::new().on(on::create("k"), endless));
    let (mut call, _requests) = handler_call(&front.configuration.handlers[0], &cycle(body()));
    call.timeout_seconds = Some(30.0);
    let reply = front.call(call).await;
    assert_eq!(reply.result, Err(CallError::TimedOut));
    assert_eq!(reply.patch, Some(json!({"status": {"begun": true}})));
}

#[tokio::test]
async fn callbacks_of_filters_and_selectors_are_called() {
    async fn handle(_: Logger, _: Events) {}
    let operator = Operator::new().on(
        on::event(of::<KopfExample>())
            .label("app", |value: Option<&str>| value == Some("x"))
            .annotation("note", |value: Option<&str>| value.is_none())
            .field("spec.size")
            .value(|value: Option<&Value>| value.is_some_and(|value| value.as_u64() > Some(2)))
            .when(|context| context.get("spec.size") == Some(&json!(3)))
            .when(|context| context.reason() == Some(Reason::Update)),
        handle,
    );
    let front = front(operator.on(on::event(|resource: &Resource| resource.kind == "KopfExample"), handle));
    let question = |slot, value| FilterQuestion { handler: 0, condition: None, slot, value };
    let questions = vec![
        question(FilterSlot::Label("app".into()), Some(json!("x"))),
        question(FilterSlot::Label("app".into()), Some(json!("y"))),
        question(FilterSlot::Annotation("note".into()), None),
        question(FilterSlot::Value { before: true }, Some(json!(2))),
        question(FilterSlot::When, None),
    ];
    let context = cycle(body());
    assert_eq!(front.filter(Arc::clone(&context), questions).await.unwrap(), [true, false, true, false, true]);
    let failure = front.filter(Arc::clone(&context), vec![question(FilterSlot::Old, None)]).await.unwrap_err();
    assert!(failure.message.contains("KopfExample ns/my is not known"), "{failure:?}");
    assert!(front.select(1, Arc::clone(&context.resource)).await.unwrap());
    assert!(front.select(0, Arc::clone(&context.resource)).await.is_err());
}

#[tokio::test]
async fn a_panic_of_a_callback_is_a_failure() {
    async fn handle() {}
    let operator = Operator::new().on(on::create("k").when(|_| panic!("oops")), handle);
    let front = front(operator);
    let question = FilterQuestion { handler: 0, condition: None, slot: FilterSlot::When, value: None };
    let failure = front.filter(cycle(body()), vec![question]).await.unwrap_err();
    assert!(failure.message.ends_with("KopfExample ns/my has failed: panicked: oops"), "{failure:?}");
}

#[derive(Clone)]
struct App {
    zone: &'static str,
}

struct Zone(&'static str);

impl FromRef<App> for Zone {
    fn from_ref(app: &App) -> Self {
        Self(app.zone)
    }
}

#[tokio::test]
async fn activities_get_the_state() {
    async fn start(State(zone): State<Zone>, retry: Retry, _: Logger) -> Result<String> {
        Ok(format!("{} {}", zone.0, *retry))
    }
    async fn connect(_: Client) {}
    let operator =
        Operator::new().with_state(App { zone: "a" }).on(on::startup().retries(3), start).on(on::cleanup(), connect);
    let (front, activities) = operator.into_ready().into_front(None).map_err(|error| error.to_string()).unwrap();
    assert!(front.configuration.handlers.is_empty());
    let ids: Vec<_> =
        activities.iter().map(|handler| (&*handler.id, handler.activity.unwrap(), handler.fallback)).collect();
    assert_eq!(
        ids,
        [
            ("start", Activity::Startup, false),
            ("connect", Activity::Cleanup, false),
            ("login_via_environment", Activity::Authentication, true),
        ]
    );
    let call = |number: usize| {
        front.call_activity(EngineActivityCall {
            activity: activities[number].activity.unwrap(),
            handler: Arc::clone(&activities[number]),
            retry: 1,
            started: "2026-11-15T12:00:00Z".parse().unwrap(),
            runtime_seconds: 0.0,
        })
    };
    assert_eq!(call(0).await.result, Ok(Some(json!("a 1"))));
    assert_eq!(
        text_of(&call(1).await),
        "permanent: handler 'connect' cannot have a client: the operator has not logged in yet"
    );
    assert_eq!(call(2).await.result, Ok(Some(json!({"kubeconfig": true, "trust_env": true}))));
}

#[tokio::test]
async fn declarations_are_checked_before_anything_runs() {
    async fn handle() {}
    let operator = Operator::new().on(on::create("k").value(1), handle).on(on::create("k"), || async {});
    let error = operator.into_ready().into_front(None).map(drop).unwrap_err().to_string();
    assert!(error.contains("handler 'handle'") && error.contains("needs an id"), "{error}");
}

#[tokio::test]
async fn the_engine_can_read_the_result_of_a_login() {
    async fn login() -> Result<crate::ConnectionInfo> {
        let server = "https://localhost:6443".to_owned();
        Ok(crate::ConnectionInfo { server, token: Some("t".into()), ..crate::ConnectionInfo::default() })
    }
    let (front, activities) =
        Operator::new().on(on::login(), login).into_ready().into_front(None).map_err(drop).unwrap();
    let call = EngineActivityCall {
        activity: Activity::Authentication,
        handler: Arc::clone(&activities[0]),
        retry: 0,
        started: "2026-11-15T12:00:00Z".parse().unwrap(),
        runtime_seconds: 0.0,
    };
    let result = front.call_activity(call).await.result.unwrap().unwrap();
    let info: crate::ConnectionInfo = serde_json::from_value(result).unwrap();
    assert_eq!((&*info.server, info.token.as_deref()), ("https://localhost:6443", Some("t")));
}
