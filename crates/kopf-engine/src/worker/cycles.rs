//! One pass of one object: its cycles, one after another, until nothing is left to do now.

use std::sync::Arc;
use std::time::Duration;

use kopf_object::Body;
use kopf_reaction::{EventType, Severity};

use super::memory::Unapplied;
use super::outcome::{CycleError, CycleOutcome, WriteOutcome};
use super::pass::{AfterPass, ObjectInWork, Pass};
use super::reactor::{ObjectPass, Reactor};
use crate::patching::{IncompletePatch, Latest};
use crate::support::version_number;

/// Cycles of one object in a row, before others have their passes.
const CYCLES_IN_A_ROW: usize = 8;

/// How often the deletion of an object that is gone already is looked at while its daemons end.
const GONE_OBJECT_POLLING: Duration = Duration::from_secs(1);

impl Reactor {
    /// One pass of an object. It never fails, but may throttle the object.
    pub(crate) async fn pass(&self, object: ObjectInWork<'_>, pass: Pass) -> AfterPass {
        let reference = Arc::new(pass.body.reference());
        let mut object = ObjectPass { reactor: self, object, reference };
        if pass.only_index {
            Box::pin(object.index_only(pass)).await;
            return AfterPass::Indexed;
        }
        object.run(pass).await
    }
}

impl ObjectPass<'_> {
    async fn run(&mut self, pass: Pass) -> AfterPass {
        let clock = &self.reactor.caller.clock;
        if self.object.memory.throttle.is_on() {
            self.log(Severity::Info, "Throttling is over. Switching back to normal operations.".to_owned());
        }
        let Pass { mut body, mut event, outdated, .. } = pass;
        let mut consistent = !outdated;
        if consistent {
            let memory = &mut *self.object.memory;
            memory.saw(version_number(body.resource_version()));
            memory.own_updates = if event.is_some() { 0 } else { memory.own_updates };
        }
        if event == Some(EventType::Deleted) {
            self.object.memory.throttle.clear();
        } else if consistent && let Some(unapplied) = self.object.memory.throttle.take_unapplied() {
            match Box::pin(self.catch_up(&body, unapplied)).await {
                Ok(Some(latest)) => body = latest,
                Ok(None) => return AfterPass::Forget,
                Err(error) => return self.throttle(Some(body), error),
            }
        }
        for number in 0..CYCLES_IN_A_ROW {
            if number > 0 && self.object.permit.must_yield() {
                break;
            }
            let outcome = self.cycle(&body, event, consistent).await;
            let memory = &mut *self.object.memory;
            match outcome {
                Err(error) if event == Some(EventType::Deleted) => {
                    self.log_error(format!("An unexpected error: {error}"), error);
                    return AfterPass::Forget;
                }
                Ok(_) if event == Some(EventType::Deleted) => {
                    let Some(last) = self.gone_in_spite_of_finalizer(&body) else { return AfterPass::Forget };
                    self.object.memory.is_gone = true;
                    (body, event) = (last, None);
                }
                Err(error) => {
                    if let Some(latest) = error.latest() {
                        memory.saw(version_number(latest.resource_version()));
                        (body, consistent) = (latest.clone(), true);
                    }
                    return self.throttle(consistent.then_some(body), error);
                }
                Ok(CycleOutcome { gone: true, .. }) => return AfterPass::Forget,
                Ok(CycleOutcome { patched, wake, .. })
                    if !patched.as_ref().is_some_and(|latest| differs(latest, &body)) =>
                {
                    memory.throttle.clear();
                    return match wake {
                        _ if !consistent => AfterPass::Unchanged,
                        None if memory.is_gone && memory.background.is_none() => AfterPass::Forget,
                        None if memory.is_gone => {
                            AfterPass::Requeue { when: clock.instant() + GONE_OBJECT_POLLING, body }
                        }
                        None => AfterPass::Idle,
                        Some(when) => AfterPass::Requeue { when, body },
                    };
                }
                Ok(CycleOutcome { patched, fully_handled, own_update_delay, .. }) => {
                    let Some(latest) = patched else { return AfterPass::Idle };
                    memory.throttle.clear();
                    memory.saw(version_number(latest.resource_version()));
                    let is_released = latest.is_released() && !memory.is_gone;
                    let served = self.object.served;
                    if is_released
                        || (fully_handled && self.reactor.is_up_to_date(served, self.object.memory, latest.raw()))
                    {
                        return AfterPass::Idle;
                    }
                    let latest = match latest.into_body() {
                        Ok(latest) => latest,
                        Err(error) => return self.throttle(None, IncompletePatch { error, latest: None }.into()),
                    };
                    if let Some(delay) = own_update_delay {
                        return AfterPass::Requeue { when: clock.instant() + delay, body: latest };
                    }
                    // Also if an event handler has patched the object on an outdated event: its echo will count as seen.
                    (body, event, consistent) = (latest, None, true);
                }
            }
        }
        AfterPass::Requeue { when: clock.instant(), body }
    }

    /// Writes what was decided before, but could not be written then. None if the object is gone.
    async fn catch_up(&mut self, body: &Body, unapplied: Unapplied) -> Result<Option<Body>, CycleError> {
        let fully_handled = unapplied.fully_handled;
        match self.write(body, unapplied).await? {
            WriteOutcome::Untouched => Ok(Some(body.clone())),
            WriteOutcome::Gone => Ok(None),
            WriteOutcome::Patched(latest) => {
                let memory = &mut *self.object.memory;
                memory.throttle.clear();
                memory.fully_handled_once |= fully_handled;
                memory.saw(version_number(latest.resource_version()));
                let latest = latest.into_body();
                Ok(Some(latest.map_err(|error| IncompletePatch { error, latest: None })?))
            }
        }
    }

    fn throttle(&mut self, body: Option<Body>, error: CycleError) -> AfterPass {
        let delays = &self.reactor.settings.queueing.error_delays;
        let Some(delay) = self.object.memory.throttle.next_delay(delays) else {
            self.log_error(format!("An unexpected error: {error}"), error);
            return AfterPass::Idle;
        };
        self.log_error(format!("Throttling for {delay} seconds due to an unexpected error: {error}"), error);
        AfterPass::Throttled { delay: crate::seconds(delay), body }
    }

    fn log_error(&self, message: String, error: CycleError) {
        self.reactor.caller.log.error_about(&self.reference, message, error.into_front_error());
    }
}

/// A patch that has changed nothing gives no reason to look at the object again.
fn differs(latest: &Latest, body: &Body) -> bool {
    latest.resource_version().is_none() || latest.resource_version() != body.resource_version()
}
