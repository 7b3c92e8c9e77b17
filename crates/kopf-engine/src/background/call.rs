//! One call of a daemon or a timer: from the latest body to what is stored of the outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use kopf_object::{Body, ObjectReference};
use kopf_reaction::{CallError, CallOutcome, Severity};

use super::Background;
use super::object_tasks::{ObjectTasks, TaskCall};
use crate::front::{BackgroundCall, CallReply, Children, CycleContext, HandlerCall};
use crate::patching::{Applied, IncompletePatch, ObjectPatch, PatchError};
use crate::support::FrontError;

impl Background {
    pub(super) async fn call(&self, tasks: &Arc<ObjectTasks>, call: TaskCall) {
        let TaskCall { request, stops, live } = call;
        let (caller, patcher) = (&self.inner.caller, &self.inner.patcher);
        let handler = Arc::clone(&request.handler);
        // It was a body when it came, and still is.
        let body = live.body().unwrap_or_else(|_| Body::from_value(serde_json::Value::Null));
        let reference = Arc::new(body.reference());
        let context = Arc::new(CycleContext::new(
            Arc::clone(&tasks.uid),
            Arc::clone(&tasks.resource.resource),
            body,
            None,
            Arc::clone(&self.inner.finalizer),
            Arc::clone(&tasks.memory),
        ));
        let started = caller.start(&handler, request.retry, None).await;
        let (children, _) = Children::channel();
        let background = Some(BackgroundCall { number: self.next_call(), stops, live: Arc::clone(&live) });
        let call = HandlerCall { background, ..HandlerCall::new(request, &context, children) };
        let calling = AssertUnwindSafe(caller.front.call(call)).catch_unwind();
        let reply = calling.await.unwrap_or_else(|_| crashed());
        started.finish(&reply);
        let CallReply { result, error, patch: mut wanted, transformations } = reply;

        let mut notes = Vec::new();
        let outcome = CallOutcome { result, subrefs: Default::default() };
        let result = self.with_context(|context| tasks.called(&handler.id, outcome, context, &mut notes));
        caller.log.notes_about(&reference, notes, error.as_ref());
        if let Some(result) = result {
            patcher.add_result(&tasks.resource.resource, &reference, &mut wanted, &handler.id, result);
        }
        let patch = ObjectPatch { wanted, transformations, ..ObjectPatch::default() };
        if !patch.is_empty() {
            self.store(tasks, &context, &reference, patch).await;
        }
        let changes = self.with_context(|context| tasks.stored(&handler.id, context));
        self.follow_up(tasks, changes);
    }

    /// Patches the object; if the API does not accept that now, then later. A timer does not tick meanwhile, but goes on.
    async fn store(
        &self,
        tasks: &Arc<ObjectTasks>,
        context: &Arc<CycleContext>,
        reference: &Arc<ObjectReference>,
        patch: ObjectPatch,
    ) {
        let (log, patcher) = (&self.inner.caller.log, &self.inner.patcher);
        patcher.log_patch(reference, &patch);
        let delays = &self.inner.error_delays;
        for attempt in 0.. {
            let body = Body::parse(tasks.raw()).unwrap_or_else(|_| context.body.clone());
            match patcher.apply(context, &body, &patch).await {
                Ok(applied) => {
                    patcher.log_outcome(reference, &applied);
                    if let Applied::Patched { latest, .. } = applied
                        && let Ok(body) = latest.into_body()
                    {
                        tasks.update_body(&body);
                    }
                    return;
                }
                Err(IncompletePatch { error: error @ PatchError::Transformation(_), .. }) => {
                    // The user's code fails, and would fail again.
                    let text = format!("Patching has failed: {error}");
                    let PatchError::Transformation(failure) = error else { return };
                    log.error_about(reference, text, failure.error);
                    return;
                }
                Err(incomplete) if tasks.is_forgotten() => {
                    let text = format!("Patching has failed, and the object is not served any more: {incomplete}");
                    log.about(reference, Severity::Error, text);
                    return;
                }
                Err(incomplete) => {
                    let delay = delays.get(attempt).or(delays.last()).copied().unwrap_or(1.0);
                    let text = format!("Patching has failed, and will be tried again in {delay} seconds: {incomplete}");
                    log.about(reference, Severity::Error, text);
                    if let Some(latest) = &incomplete.latest {
                        tasks.update_body(latest);
                    }
                    self.inner.caller.clock.sleep(crate::seconds(delay)).await;
                }
            }
        }
    }
}

/// A front does not panic; if it does, the function counts as failed, and the operator goes on.
fn crashed() -> CallReply {
    let message = "the call has crashed".to_owned();
    let result = Err(CallError::Arbitrary { display: message.clone(), message });
    CallReply { result, error: None::<FrontError>, patch: None, transformations: false }
}
