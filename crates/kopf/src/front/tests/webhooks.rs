//! Reviews and conversions without a cluster.

use std::sync::Arc;

use kopf_engine::{FrontSlot, WebhookCall, WebhookContext};
use kopf_object::{Body, diff};
use kopf_reaction::{CallError, FilterQuestion, FilterSlot};
use serde_json::{Value, json};

use super::{ExampleSpec, KopfExample, body, cycle, front};
use crate::extract::{Context, Conversion, Diff, New, Object, Old, Patch, Review, Spec, Warnings};
use crate::front::RustFront;
use crate::webhook::{Operation, Server};
use crate::{Error, Operator, of, on};
use kopf_engine::{Front, WebhookReply};

fn webhook(facts: Value) -> Arc<WebhookContext> {
    let cycle = cycle(body());
    Arc::new(WebhookContext {
        resource: Arc::clone(&cycle.resource),
        body: Body::from_value(body()),
        old: None,
        new: Some(body()),
        diff: diff(None, Some(&body())),
        facts,
        slot: FrontSlot::new(),
        memory: Arc::default(),
    })
}

async fn call(front: &RustFront, number: usize, context: &Arc<WebhookContext>) -> WebhookReply {
    let handler = Arc::clone(&front.configuration.handlers[number]);
    let started = "2026-11-15T12:00:00Z".parse().unwrap();
    front.call_webhook(WebhookCall { handler, context: Arc::clone(context), started }).await
}

async fn check(spec: Spec<ExampleSpec>, review: Review, warnings: Warnings) -> crate::Result<()> {
    warnings.add(format!("{} by {:?}", review.operation, review.user.username));
    if spec.size > 2 && !review.dry_run { Err(Error::denied(400, "Too much.")) } else { Ok(()) }
}

#[tokio::test]
async fn handlers_deny_and_warn() {
    let front = front(Operator::new().on(on::validate(of::<KopfExample>()), check));
    for (dry_run, refused) in [(false, true), (true, false)] {
        let facts = json!({"operation": "CREATE", "dryrun": dry_run, "userinfo": {"username": "me"}});
        let reply = call(&front, 0, &webhook(facts)).await;
        assert_eq!(reply.warnings, ["CREATE by Some(\"me\")"]);
        let (message, display) = ("Too much.".to_owned(), "Too much.".to_owned());
        let expected = CallError::Denied { message, display, code: Some(400) };
        assert_eq!(reply.call.result, if refused { Err(expected) } else { Ok(None) });
    }
}

#[tokio::test]
async fn all_handlers_of_a_review_share_the_patch() {
    async fn first(patch: Patch) -> crate::Result<()> {
        patch.spec("first", 1)
    }
    async fn second(patch: Patch) -> crate::Result<()> {
        patch.transform(|body| body["spec"]["second"] = json!(2));
        Ok(())
    }
    let front = front(Operator::new().on(on::mutate("kopfexamples"), first).on(on::mutate("kopfexamples"), second));
    let context = webhook(json!({"operation": "UPDATE"}));
    call(&front, 0, &context).await;
    let reply = call(&front, 1, &context).await.call;
    assert_eq!((reply.patch, reply.transformations), (Some(json!({"spec": {"first": 1}})), true));
    let body = front.transform_webhook(context, Body::from_value(json!({"spec": {}}))).await.unwrap();
    assert_eq!(body, json!({"spec": {"second": 2}}));
}

#[tokio::test]
async fn conversions_return_whole_objects() {
    async fn up(object: Object<KopfExample>, conversion: Conversion) -> crate::Result<Value> {
        assert_eq!((&*conversion.from, &*conversion.to), ("v1", "v2"));
        Ok(json!({"spec": {"length": object.spec.size}}))
    }
    let front = front(Operator::new().on(on::convert(of::<KopfExample>(), "v1", "v2").persistent(), up));
    let declared = &front.configuration.handlers[0];
    assert_eq!(declared.selector.as_ref().unwrap().version, None);
    assert!(declared.webhook.as_ref().unwrap().persistent);
    let mut context = Arc::into_inner(webhook(json!({"from_version": "v1", "to_version": "v2"}))).unwrap();
    let mut typed = body();
    typed["apiVersion"] = json!("kopf.dev/v1");
    typed["kind"] = json!("KopfExample");
    context.body = Body::from_value(typed);
    let reply = call(&front, 0, &Arc::new(context)).await;
    assert_eq!(reply.call.result, Ok(Some(json!({"spec": {"length": 3}}))));
}

#[tokio::test]
async fn callbacks_see_the_review() {
    let registration = on::validate(of::<KopfExample>())
        .when(|context| context.review().is_some_and(|review| review.operation == Operation::Update));
    let front = front(Operator::new().on(registration, check));
    let question = FilterQuestion { handler: 0, condition: None, slot: FilterSlot::When, value: None };
    for (operation, expected) in [("UPDATE", true), ("CREATE", false)] {
        let answers = front.filter_webhook(webhook(json!({"operation": operation})), vec![question.clone()]).await;
        assert_eq!(answers.unwrap(), [expected]);
    }
}

#[tokio::test]
async fn handlers_without_a_server_are_refused() {
    let failure = front(Operator::new().on(on::validate(of::<KopfExample>()), check)).configure().await.unwrap_err();
    assert!(failure.message.contains("no server"), "{}", failure.message);
    let served = Operator::new().webhooks(Server::new().managed("x.example.com")).on(
        on::validate(of::<KopfExample>()).operations([Operation::Create]).subresource("status").ignore_failures(),
        check,
    );
    let configuration = front(served).configure().await.unwrap();
    assert_eq!(configuration.settings.admission.managed.as_deref(), Some("x.example.com"));
    let options = configuration.handlers[0].webhook.clone().unwrap();
    assert_eq!(options.operations, Some(vec!["CREATE".to_owned()]));
    assert!(options.ignore_failures && !options.side_effects);
}

#[tokio::test]
async fn a_review_has_no_reason_but_the_requested_change() {
    async fn compare(context: Context, new: New<Value>, old: Old<Option<Value>>, diff: Diff) -> crate::Result<()> {
        assert_eq!((context.reason(), context.event_type(), old.0.is_none()), (None, None, true));
        assert_eq!((context.new_value(), context.diff()), (Some(&new.0), Some(&diff)));
        Ok(())
    }
    let front = front(Operator::new().on(on::validate(of::<KopfExample>()), compare));
    let reply = call(&front, 0, &webhook(json!({"operation": "CREATE", "userinfo": null, "headers": null}))).await;
    assert_eq!(reply.call.result, Ok(None));
}

#[tokio::test]
async fn a_review_that_cannot_be_read_is_denied() {
    let front = front(Operator::new().on(on::validate(of::<KopfExample>()), check));
    let reply = call(&front, 0, &webhook(json!({"operation": "EXPLODE"}))).await;
    let Err(CallError::Permanent { message, .. }) = reply.call.result else { panic!("{:?}", reply.call.result) };
    assert!(message.starts_with("the review cannot be read: unknown variant `EXPLODE`"), "{message}");
}
