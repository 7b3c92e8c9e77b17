//! Conversions: each object goes by the shortest chain of handlers from its version to the wanted one.

use std::sync::Arc;

use kopf_object::Body;
use kopf_reaction::{
    CallError, ConversionFailure, ConversionReview, Handler, ReviewError, WebhookType, conversion_path,
    restore_metadata,
};
use serde_json::{Value, json};

use super::Reviews;
use crate::front::{FrontSlot, Review, WebhookContext};

pub(super) async fn convert(reviews: &Reviews, request: &Review) -> Result<Value, ReviewError> {
    let review = ConversionReview::parse(&request.content)?;
    let mut converted = Vec::with_capacity(review.objects.len());
    for object in &review.objects {
        match convert_one(reviews, &review, object).await {
            Ok(object) => converted.push(object),
            Err(failure) => return Ok(review.answer(Err(failure))),
        }
    }
    Ok(review.answer(Ok(converted)))
}

async fn convert_one(reviews: &Reviews, review: &ConversionReview, object: &Value) -> Result<Value, ConversionFailure> {
    let route = review.route(object)?;
    let insight = Arc::clone(&reviews.insights.borrow());
    let no_path = || ConversionFailure::NoPath {
        kind: route.kind.to_owned(),
        from: route.from.to_owned(),
        to: route.to.to_owned(),
    };
    let matching =
        insight.passive.iter().filter(|(resource, _)| resource.group == route.group && resource.kind == route.kind);
    let (mut resource, mut handlers): (_, Vec<Arc<Handler>>) = (None, Vec::new());
    for (known, indexes) in matching {
        resource.get_or_insert_with(|| Arc::clone(known));
        let declared = indexes.iter().filter_map(|index| reviews.handlers.get(*index));
        handlers.extend(declared.filter(|handler| is_converting(handler)).cloned());
    }
    let resource = resource.ok_or_else(no_path)?;
    let path = conversion_path(&handlers, route.from, route.to).ok_or_else(no_path)?;
    let mut current = object.clone();
    for handler in path {
        let options = handler.webhook.as_ref();
        let version = |version: Option<&String>| version.cloned().unwrap_or_default();
        let (from, to) =
            (version(options.and_then(|one| one.from.as_ref())), version(options.and_then(|one| one.to.as_ref())));
        let context = Arc::new(WebhookContext {
            resource: Arc::clone(&resource),
            body: Body::from_value(current.clone()),
            old: None,
            new: None,
            diff: Default::default(),
            facts: json!({"from_version": from, "to_version": to}),
            slot: FrontSlot::new(),
            memory: Arc::default(),
        });
        current = step(reviews, &handler, &context, &format!("{}/{to}", route.group)).await?;
    }
    Ok(current)
}

/// One step: either the handler returns the whole new object, or it changes the old one by its patch.
async fn step(
    reviews: &Reviews,
    handler: &Arc<Handler>,
    context: &Arc<WebhookContext>,
    api_version: &str,
) -> Result<Value, ConversionFailure> {
    let failed = |message: String| ConversionFailure::Handler { handler: handler.title(), message };
    let reply = reviews.call(Arc::clone(handler), context, reviews.caller.clock.now()).await.call;
    let result = reply.result.map_err(|error| failed(text_of(&error)))?;
    let object = match result {
        Some(object) => object,
        None => reviews.patched(context, reply.patch.as_ref(), reply.transformations).await.map_err(failed)?,
    };
    match object {
        Value::Object(fields) => Ok(restore_metadata(context.body.value(), fields, api_version)),
        other => {
            let found = kopf_reaction::python_repr(&other);
            Err(ConversionFailure::NotAnObject { handler: handler.title(), found })
        }
    }
}

fn is_converting(handler: &Handler) -> bool {
    handler.webhook.as_ref().is_some_and(|options| options.webhook_type == WebhookType::Converting)
}

fn text_of(error: &CallError) -> String {
    match error {
        CallError::Temporary { display, .. }
        | CallError::Permanent { display, .. }
        | CallError::Denied { display, .. }
        | CallError::Arbitrary { display, .. } => display.clone(),
        CallError::Exhausted { message } => message.clone(),
        CallError::TimedOut => "it has timed out".to_owned(),
        CallError::Abandoned => "the operator is stopping".to_owned(),
        CallError::ChildrenRetry { .. } => "conversions have no sub-handlers".to_owned(),
    }
}
