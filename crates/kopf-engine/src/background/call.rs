//! One call of a daemon or a timer: from the newest body to what is stored of it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use kopf_object::{Body, ObjectReference};
use kopf_reaction::{CallError, CallOutcome};

use super::Background;
use super::object_tasks::{Calling, Companion};
use crate::front::{BackgroundCall, CallReply, Children, CycleContext, FrontSlot, HandlerCall};
use crate::patching::{Applied, ApplyError, Change, Incomplete, apply};
use crate::worker::Reactor;
use crate::{FrontError, Level};

impl Background {
    pub(super) async fn round(&self, reactor: &Reactor, companion: &Arc<Companion>, calling: Calling) {
        let Calling { request, stops, live } = calling;
        let handler = Arc::clone(&request.handler);
        // It was a body when it has come, and is one still.
        let body = live.body().unwrap_or_else(|_| Body::from_value(serde_json::Value::Null));
        let reference = Arc::new(body.reference());
        let context = Arc::new(CycleContext {
            uid: Arc::clone(&companion.uid),
            resource: Arc::clone(&companion.kind.resource),
            body,
            event: None,
            finalizer: Arc::clone(&reactor.finalizer),
            cause: OnceLock::new(),
            slot: FrontSlot::new(),
            memory: Arc::clone(&companion.memory),
        });
        let permit = match reactor.gates.of(&handler) {
            // The semaphores are never closed.
            Some(gate) => gate.acquire_owned().await.ok(),
            None => None,
        };
        let (children, _) = Children::channel();
        let call = HandlerCall {
            handler: Arc::clone(&handler),
            context: Arc::clone(&context),
            retry: request.retry,
            started: request.started,
            runtime_seconds: request.runtime_seconds,
            timeout_seconds: request.timeout_seconds,
            change: None,
            children,
            background: Some(BackgroundCall { number: self.next_call(), stops, live: Arc::clone(&live) }),
        };
        let count = reactor.metrics.begin(&handler, request.retry, &reactor.clock);
        let calling = AssertUnwindSafe(reactor.front.call(call)).catch_unwind();
        let reply = calling.await.unwrap_or_else(|_| crashed());
        count.finish(&reply, &reactor.clock);
        let CallReply { result, error, patch, transformations } = reply;
        drop(permit);

        let mut notes = Vec::new();
        let outcome = CallOutcome { result, subrefs: Default::default() };
        let result = self.with_means(|means| companion.called(&handler.id, outcome, means, &mut notes));
        reactor.write_notes(&reference, notes, error);
        let mut wanted = patch;
        if let Some(result) = result {
            reactor.deliver(&companion.kind.resource, &reference, &mut wanted, &handler.id, result);
        }
        let change = Change { wanted, transformations, ..Change::default() };
        if !change.is_empty() {
            self.store(reactor, companion, &context, &reference, change).await;
        }
        let effects = self.with_means(|means| companion.concluded(&handler.id, means));
        self.carry_out_effects(companion, effects);
    }

    /// Patches the object; if that is not possible now, then later. A timer does not tick meanwhile, but does not die.
    async fn store(
        &self,
        reactor: &Reactor,
        companion: &Arc<Companion>,
        context: &Arc<CycleContext>,
        reference: &Arc<ObjectReference>,
        change: Change,
    ) {
        reactor.describe(reference, &change);
        let delays = &reactor.settings.queueing.error_delays;
        for attempt in 0.. {
            let body = Body::parse(companion.raw()).unwrap_or_else(|_| context.body.clone());
            match apply(reactor.means(), context, &body, &change).await {
                Ok(applied) => {
                    reactor.report(reference, &applied);
                    if let Applied::Patched { newest, .. } = applied
                        && let Ok(body) = newest.into_body()
                    {
                        companion.see(&body);
                    }
                    return;
                }
                Err(Incomplete { error: error @ ApplyError::Transformation(_), .. }) => {
                    // It is the user's code that fails, and it would fail again.
                    let text = format!("Patching has failed: {error}");
                    let ApplyError::Transformation(failure) = error else { return };
                    reactor.fail(reference, text, failure.error);
                    return;
                }
                Err(incomplete) if companion.is_forgotten() => {
                    let text = format!("Patching has failed, and the object is not served any more: {incomplete}");
                    reactor.say(reference, Level::Error, text);
                    return;
                }
                Err(incomplete) => {
                    let delay = delays.get(attempt).or(delays.last()).copied().unwrap_or(1.0);
                    let text = format!("Patching has failed, and will be tried again in {delay} seconds: {incomplete}");
                    reactor.say(reference, Level::Error, text);
                    if let Some(newest) = &incomplete.newest {
                        companion.see(newest);
                    }
                    reactor.clock.sleep(crate::seconds(delay)).await;
                }
            }
        }
    }
}

/// A front does not panic; if it does, then the function counts as failed, and the operator goes on.
fn crashed() -> CallReply {
    let message = "the call has crashed".to_owned();
    let result = Err(CallError::Arbitrary { display: message.clone(), message });
    CallReply { result, error: None::<FrontError>, patch: None, transformations: false }
}
