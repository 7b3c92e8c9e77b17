//! Giving passes to the objects that wait for them, and what follows a pass.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use kopf_object::{Body, ObjectIdentity};
use kopf_reaction::EventType;
use tokio::time::Instant;

use super::entry::{EntryPhase, WakeUp};
use super::state::{QueuePhase, Ready, State, TakenObject};
use super::{Inner, Queue};
use crate::calls::{WorkerLimits, WorkerPermit, WorkerPool};
use crate::support::clock::LONGEST_WAIT;
use crate::support::{Log, version_number};
use crate::worker::{AfterPass, ObjectInWork, ObjectMemory, ServedResource};

/// This many workers start at once; each further one only when the API has capacity for it. Workers that wait for the API
/// do nothing but hold their objects in memory.
const WORKERS_AT_ONCE: usize = 24;

/// This many more start when the API has capacity.
const EXTRA_WORKERS: usize = 8;

/// How long an object pauses if its worker has crashed, which would be a bug of ours.
const PAUSE_AFTER_A_CRASH: Duration = Duration::from_secs(60);

impl Queue {
    /// Starts workers for the objects that wait, as long as there are permits.
    pub(super) fn dispatch(&self, mut state: MutexGuard<'_, State>) {
        if state.barrier.opens() {
            state.unblock();
        }
        while state.phase == QueuePhase::Open {
            if state.permitted >= WORKERS_AT_ONCE + state.extra_workers {
                return self.dispatch_later(&mut state);
            }
            let Some(permit) = self.inner.workers.try_acquire() else { break };
            let (ready, taken) = loop {
                let Some(ready) = state.next_ready() else { return };
                if let Some(taken) = state.take(&ready, &self.inner.log) {
                    break (ready, taken);
                }
            };
            state.running += 1;
            state.permitted += 1;
            let permit = WorkerPermit::new(Arc::clone(&self.inner) as Arc<dyn WorkerPool>, permit);
            tokio::spawn(self.clone().work(ready, taken, permit));
        }
    }

    /// Goes on when the workers that have started are on their way, and the API still has capacity.
    fn dispatch_later(&self, state: &mut State) {
        let nobody_waits = state.live.is_empty() && state.listed.is_empty();
        if nobody_waits || std::mem::replace(&mut state.awaits_capacity, true) {
            return;
        }
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            queue.inner.api.wait_for_capacity().await;
            let mut state = queue.inner.state();
            state.awaits_capacity = false;
            state.extra_workers = (state.permitted + EXTRA_WORKERS).saturating_sub(WORKERS_AT_ONCE);
            queue.dispatch(state);
        });
    }

    /// One worker: one pass of one object.
    async fn work(self, ready: Ready, taken: TakenObject, mut permit: WorkerPermit) {
        let TakenObject { served, mut memory, pass } = taken;
        let mut killed = self.inner.killed.subscribe();
        // The raw body is enough after a crash, which would be a bug of ours.
        let raw = (!pass.outdated && !pass.only_index).then(|| Arc::clone(pass.body.raw()));
        let object = ObjectInWork { served: &served, key: &ready.key, memory: &mut memory, permit: &mut permit };
        let working = AssertUnwindSafe(self.inner.reactor.pass(object, pass));
        let after = tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => AfterPass::Forget,
            after = working.catch_unwind() => after.unwrap_or_else(|_| {
                let body = raw.and_then(|raw| Body::parse(raw.as_ref()).ok());
                AfterPass::Throttled { delay: PAUSE_AFTER_A_CRASH, body }
            }),
        };
        let had_permit = permit.give_back();
        let mut state = self.inner.state();
        state.permitted -= usize::from(had_permit);
        state.running -= 1;
        // The next workers start only if the API has capacity for them, too.
        state.extra_workers = state.extra_workers.min(state.permitted.saturating_sub(WORKERS_AT_ONCE));
        self.inner.reactor.idle.note_work();
        self.finish_pass(&mut state, &served, ready, memory, after);
        self.dispatch(state);
        self.inner.finished.notify_waiters();
    }

    fn finish_pass(
        &self,
        state: &mut State,
        served: &ServedResource,
        ready: Ready,
        mut memory: Box<ObjectMemory>,
        after: AfterPass,
    ) {
        let forget = |mut memory: Box<ObjectMemory>| self.inner.reactor.unindex(served, &ready.key.uid, &mut memory);
        let Some(objects) = state.resources.get_mut(&ready.key.resource) else { return forget(memory) };
        let Some(entry) = objects.entries.get_mut(&ready.key.uid) else { return forget(memory) };
        // It is there already: the pass has put the memo into it.
        let pending = entry.pending_mut();
        (pending.token, pending.memo) = (None, None);
        if std::mem::take(&mut pending.rewound) {
            memory.version = None;
        }
        for later in &mut pending.events {
            // An event that has come while our own patch was made may be the echo of it.
            let version = ObjectIdentity::from_slice(&later.raw)
                .ok()
                .and_then(|identity| version_number(identity.resource_version.as_deref()));
            later.outdated = later.event != EventType::Deleted && memory.knows(version);
        }
        if objects.served.handlers.event_handlers.is_empty() {
            pending.events.retain(|later| !later.outdated);
        }
        let is_over = (pending.vanished && !memory.is_gone) || matches!(after, AfterPass::Forget);
        if pending.events.is_empty() && is_over {
            objects.entries.remove(&ready.key.uid);
            return forget(memory);
        }
        let mut phase = EntryPhase::Idle;
        match after {
            AfterPass::Idle | AfterPass::Forget => (pending.held, pending.timer) = (None, None),
            AfterPass::Requeue { when, body } => {
                pending.held = Some(body);
                pending.timer = Some(self.wake_up(&ready, when));
            }
            AfterPass::Throttled { delay, body } => {
                pending.held = body.or(pending.held.take());
                phase = EntryPhase::Throttled;
                let when = self.inner.clock.instant() + delay.min(LONGEST_WAIT);
                pending.timer = Some(self.wake_up(&ready, when));
            }
            AfterPass::Unchanged => {}
            AfterPass::Indexed
                if state.barrier.is_open() || pending.events.back().is_some_and(|last| !last.indexed) => {}
            AfterPass::Indexed => phase = EntryPhase::Blocked,
        }
        // The time of a pending body may have come while an outdated event was looked at.
        let is_due = pending.held.is_some() && pending.timer.is_none();
        if phase == EntryPhase::Idle && (is_due || pending.requeued || !pending.events.is_empty()) {
            phase = EntryPhase::Ready;
        }
        (entry.memory, entry.phase) = (Some(memory), phase);
        entry.shrink();
        match phase {
            EntryPhase::Blocked => state.blocked.push_back(ready),
            EntryPhase::Ready => state.live.push_back(ready),
            _ => {}
        }
    }

    /// Brings the object to its next pass at a later time.
    fn wake_up(&self, ready: &Ready, when: Instant) -> WakeUp {
        let queue = self.clone();
        let key = ready.key.clone();
        let sleeping = tokio::spawn(async move {
            queue.inner.clock.sleep_until(when).await;
            let mut state = queue.inner.state();
            let Some(entry) = state.entry(&key) else { return };
            if let Some(pending) = entry.pending_if_any() {
                pending.timer = None;
            }
            if matches!(entry.phase, EntryPhase::Idle | EntryPhase::Throttled) {
                entry.phase = EntryPhase::Ready;
                state.live.push_back(Ready { key, since: queue.inner.clock.instant() });
            }
            queue.dispatch(state);
        });
        WakeUp(sleeping.abort_handle())
    }
}

impl WorkerPool for Inner {
    fn limits(&self) -> &WorkerLimits {
        &self.workers
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn permit_lent(self: Arc<Self>) {
        let queue = Queue { inner: self };
        let mut state = queue.inner.state();
        state.permitted -= 1;
        queue.dispatch(state);
    }

    fn permit_retaken(&self) {
        self.state().permitted += 1;
    }

    fn must_yield(&self) -> bool {
        !self.state().barrier.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_size<A, B, C, D, R>(_: impl FnOnce(A, B, C, D) -> R) -> usize {
        size_of::<R>()
    }

    /// Thousands of workers may wait for their handlers at the same time.
    #[test]
    fn the_task_of_a_worker_is_small() {
        let size = result_size(Queue::work);
        assert!(size <= 4096, "{size}");
    }
}
