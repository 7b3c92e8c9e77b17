//! Admission: requests of the cluster before it makes a change, and conversions of custom resources.
//!
//! A review comes in by the engine's own server ([`server`]) or by any other one that a front has; the
//! engine selects the handlers, calls one after another through the port to the front, and answers with their outcome.
//! `kopf-reaction` decides; this module waits.

mod server;
mod certificates;
mod peer;
mod convert;
pub(crate) mod managed;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_object::{Body, json_patch, merge};
use kopf_reaction::{
    AdmissionReview, Batch, BatchStep, CallError, CallOutcome, ConversionReview, Denial, ErrorsMode, FilterAnswers,
    Handler, Note, Resource, ReviewError,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

pub use certificates::self_signed;
pub use peer::describe_certificate;
pub use server::{ClientCertificates, ServerError, ServerOptions};

use crate::Insight;
use crate::calls::Caller;
use crate::front::{Admission, FrontSlot, Review, Reviewer, WebhookCall, WebhookContext, WebhookReply};
use crate::support::FrontError;

const TARGET: &str = "kopf._core.engines.admission";

/// Reviews at the same time; others wait, as long as the cluster waits for them.
const REVIEWS_AT_ONCE: usize = 64;

/// How long an answer may take: no cluster waits longer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the memo of an object is, by the object's key; None if it is not remembered.
pub(crate) type Memos = Box<dyn Fn(&str) -> Option<Arc<FrontSlot>> + Send + Sync>;

/// The reviews of one operator.
pub(crate) struct Reviews {
    caller: Caller,
    handlers: Vec<Arc<Handler>>,
    insights: watch::Receiver<Arc<Insight>>,
    memos: Memos,
    slots: Semaphore,
    /// Where the cluster finds the webhooks; None until a server reports it.
    client_config: watch::Sender<Option<Value>>,
}

/// Serves webhooks by the engine's own server until it is dropped. `tell` gets each new address.
pub async fn serve_webhooks(
    admission: &Admission,
    options: ServerOptions,
    tell: impl Fn(Value) + Send,
) -> Result<(), ServerError> {
    let answering = admission.clone();
    let answering = move |review: Review| -> BoxFuture<'static, Result<Value, ReviewError>> {
        let admission = answering.clone();
        Box::pin(async move { admission.review(review).await })
    };
    server::serve(options, &admission.clock, &admission.log, Arc::new(answering), tell).await
}

impl Reviewer for Reviews {
    fn review(&self, review: Review) -> BoxFuture<'_, Result<Value, ReviewError>> {
        Box::pin(async move {
            let limit = review.timeout.unwrap_or(REVIEW_TIMEOUT).min(REVIEW_TIMEOUT);
            let reviewing = async {
                // The semaphore is never closed: an error cannot happen, and would only lift the limit.
                let _slot = self.slots.acquire().await.ok();
                if ConversionReview::is_conversion(&review.content) {
                    return convert::convert(self, &review).await;
                }
                self.admit(&review).await
            };
            let late = || ReviewError::Unavailable(format!("No answer in {} seconds.", limit.as_secs_f64()));
            self.caller.clock.timeout(limit, reviewing).await.map_err(|_| late())?
        })
    }

    fn announce(&self, client_config: Value) {
        self.client_config.send_replace(Some(client_config));
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        let mut insights = self.insights.clone();
        Box::pin(async move { while insights.changed().await.is_ok() {} })
    }
}

impl Reviews {
    pub(crate) fn new(
        caller: Caller,
        handlers: Vec<Arc<Handler>>,
        insights: watch::Receiver<Arc<Insight>>,
        memos: Memos,
    ) -> Self {
        let (slots, client_config) = (Semaphore::new(REVIEWS_AT_ONCE), watch::Sender::new(None));
        Self { caller, handlers, insights, memos, slots, client_config }
    }

    pub(crate) fn client_configs(&self) -> watch::Receiver<Option<Value>> {
        self.client_config.subscribe()
    }

    /// For the servers of the front.
    pub(crate) fn admission(self: Arc<Self>) -> Admission {
        let (clock, log) = (self.caller.clock.clone(), self.caller.log.clone());
        Admission { reviewer: self, clock, log }
    }

    async fn admit(&self, request: &Review) -> Result<Value, ReviewError> {
        let review = AdmissionReview::parse(&request.content)?;
        let insight = Arc::clone(&self.insights.borrow());
        let resources: Vec<Arc<Resource>> = insight.passive.iter().map(|(resource, _)| Arc::clone(resource)).collect();
        let resource = review.find_resource(&resources)?;
        let indexes = insight.passive_selectors_of(&resource);
        let handlers: Vec<Arc<Handler>> =
            indexes.iter().filter_map(|index| self.handlers.get(*index).cloned()).collect();
        let key = review.body.object_uid();
        let creating = review.operation.as_deref() == Some("CREATE");
        let memory = if creating { None } else { (self.memos)(&key) };
        let context = Arc::new(WebhookContext {
            resource,
            body: review.body.clone(),
            old: review.old.clone(),
            new: review.new.clone(),
            diff: review.diff.clone(),
            facts: json!({
                "operation": review.operation,
                "subresource": review.subresource,
                "dryrun": review.dry_run,
                "userinfo": review.user_info,
                "headers": request.headers,
                "sslpeer": request.peer,
            }),
            slot: FrontSlot::new(),
            memory: memory.unwrap_or_default(),
        });
        let candidates = review.candidates(&handlers, request.webhook.as_deref());
        let handlers = self.matching(&review, &candidates, &context).await?;
        let called = self.call_all(handlers, &context).await;
        let patch = match self.patched(&context, called.patch.as_ref(), called.transformations).await {
            Ok(newer) => json_patch(review.body.value(), &newer),
            Err(message) => {
                let refusal = Denial::from(&CallError::Permanent { display: message.clone(), message });
                return Ok(review.answer(&[refusal], &called.warnings, &[]));
            }
        };
        Ok(review.answer(&called.refusals, &called.warnings, &patch))
    }

    /// Applies the filters; the front calls the callbacks.
    async fn matching(
        &self,
        review: &AdmissionReview,
        candidates: &[Arc<Handler>],
        context: &Arc<WebhookContext>,
    ) -> Result<Vec<Arc<Handler>>, ReviewError> {
        let mut answers = FilterAnswers::default();
        loop {
            let questions = match review.matching(candidates, &answers) {
                Ok(handlers) => return Ok(handlers),
                Err(questions) => questions,
            };
            let matches =
                self.caller.front.filter_webhook(Arc::clone(context), questions.clone()).await.map_err(|failure| {
                    self.caller.log.error(TARGET, format!("The filters of webhooks have failed: {}", failure.message));
                    ReviewError::Unavailable(failure.message)
                })?;
            for (index, question) in questions.iter().enumerate() {
                answers.insert(question, matches.get(index).copied().unwrap_or_default());
            }
        }
    }

    /// Calls the handlers one after another, each of them once.
    async fn call_all(&self, handlers: Vec<Arc<Handler>>, context: &Arc<WebhookContext>) -> Called {
        let clock = &self.caller.clock;
        let mut batch = Batch::transient(handlers, ErrorsMode::Permanent, true, 0.0, clock.now());
        let mut called = Called::default();
        let mut last_error: Option<FrontError> = None;
        loop {
            let step = batch.step(clock.now(), &mut || clock.jitter(1.0));
            let reference = Arc::new(context.body.reference());
            let notes = batch.take_notes().into_iter().map(Note::local);
            self.caller.log.notes_about(&reference, notes, last_error.as_ref());
            let BatchStep::Call(request) = step else { return called };
            let reply = self.call(request.handler, context, request.started).await;
            last_error = reply.call.error;
            called.warnings = reply.warnings;
            (called.patch, called.transformations) = (reply.call.patch, reply.call.transformations);
            match &reply.call.result {
                Ok(result) => called.result = result.clone(),
                Err(error) => called.refusals.push(Denial::from(error)),
            }
            let outcome = CallOutcome { result: reply.call.result.map(|_| None), subrefs: Default::default() };
            batch.called(outcome, clock.now(), &mut || clock.jitter(1.0));
        }
    }

    async fn call(
        &self,
        handler: Arc<Handler>,
        context: &Arc<WebhookContext>,
        started: jiff::Timestamp,
    ) -> WebhookReply {
        let started_call = self.caller.start(&handler, 0, None).await;
        let call = WebhookCall { handler, context: Arc::clone(context), started };
        let reply = self.caller.front.call_webhook(call).await;
        started_call.finish(&reply.call);
        reply
    }

    /// The body with all that the handlers want to be changed in it.
    async fn patched(
        &self,
        context: &Arc<WebhookContext>,
        patch: Option<&Value>,
        transformations: bool,
    ) -> Result<Value, String> {
        let mut body = context.body.value().clone();
        if let Some(patch) = patch {
            merge(&mut body, patch);
        }
        if transformations {
            let transformed = self.caller.front.transform_webhook(Arc::clone(context), Body::from_value(body)).await;
            body = transformed.map_err(|failure| {
                self.caller
                    .log
                    .error(TARGET, format!("The transformations of the patch have failed: {}", failure.message));
                failure.message
            })?;
        }
        Ok(body)
    }
}

/// The outcome of all calls of one review.
#[derive(Default)]
struct Called {
    refusals: Vec<Denial>,
    warnings: Vec<String>,
    patch: Option<Value>,
    transformations: bool,
    /// Of the last handler.
    result: Option<Value>,
}
