//! Keeping the time: which daemons and timers are due, and how many timers are called at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kopf_reaction::Severity;
use tokio::sync::OwnedSemaphorePermit;

use super::object_tasks::{ObjectTasks, TaskCall};
use super::schedule::DueTask;
use super::{Background, lock};

const TARGET: &str = "kopf.engine.background";

/// Calls of timers that are begun at the same time; others that are due wait for them. In a burst, most calls
/// are short, and more of them at once would only take more memory.
pub(super) const TIMERS_AT_ONCE: usize = 256;

/// After this time, a call is a long one, and lends its permit to the next one; unless this many others have ended
/// meanwhile: then it is not the functions that take long, but there are many of them.
const LONG_CALL: Duration = Duration::from_millis(250);
const ENDED_MEANWHILE: u64 = TIMERS_AT_ONCE as u64 / 4;

/// Long calls at the same time.
pub(super) const LONG_CALLS_AT_ONCE: usize = 4096;

impl Background {
    /// Keeps the time, for as long as the operator runs.
    pub(crate) async fn run(self) {
        let inner = &self.inner;
        loop {
            let next = lock(&inner.schedule).next();
            tokio::select! {
                biased;
                () = inner.rescheduled.notified() => continue,
                () = self.sleep_until(next) => {}
            }
            self.fire_due();
            self.compact();
        }
    }

    async fn sleep_until(&self, tick: Option<Duration>) {
        match tick {
            Some(tick) => self.inner.caller.clock.sleep_until(self.inner.origin + tick).await,
            None => std::future::pending().await,
        }
    }

    fn fire_due(&self) {
        let now = self.now().tick;
        loop {
            let Some(entry) = lock(&self.inner.schedule).pop_due(now) else { break };
            let Some(tasks) = entry.tasks.upgrade() else { continue };
            match tasks.is_for_timer(entry.number) {
                None => lock(&self.inner.schedule).dropped_stale(),
                Some(false) => self.fire(&tasks, entry.number, None),
                Some(true) => match self.free_permit() {
                    Some(permit) => self.fire(&tasks, entry.number, Some(permit)),
                    None => self.postpone(entry),
                },
            }
        }
    }

    fn free_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.inner.timer_permits).try_acquire_owned().ok()
    }

    fn postpone(&self, entry: DueTask) {
        lock(&self.inner.backlog).push_back(entry);
        // The last permit may have become free just before that.
        self.hand_over(self.free_permit());
    }

    /// A permit is free: the next timer in the backlog gets it.
    fn hand_over(&self, permit: Option<OwnedSemaphorePermit>) {
        let Some(mut permit) = permit else { return };
        loop {
            let Some(entry) = lock(&self.inner.backlog).pop_front() else {
                self.inner.is_saturated.store(false, Ordering::Relaxed);
                drop(permit);
                // A timer that has come in between has seen no free permit.
                if lock(&self.inner.backlog).is_empty() {
                    return;
                }
                match self.free_permit() {
                    Some(free) => permit = free,
                    None => return,
                }
                continue;
            };
            let Some(tasks) = entry.tasks.upgrade() else { continue };
            match self.fire_with(&tasks, entry.number, Some(permit)) {
                Some(unused) => permit = unused,
                None => return,
            }
        }
    }

    fn fire(&self, tasks: &Arc<ObjectTasks>, number: u32, permit: Option<OwnedSemaphorePermit>) {
        // Dropping an unused permit frees it.
        drop(self.fire_with(tasks, number, permit));
    }

    /// Gives the permit back if nothing is called.
    fn fire_with(
        &self,
        tasks: &Arc<ObjectTasks>,
        number: u32,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut follow_up = self.with_context(|context| tasks.fire(number, context));
        let Some(call) = follow_up.call.take() else {
            self.follow_up(tasks, follow_up);
            return permit;
        };
        self.follow_up(tasks, follow_up);
        self.spawn(tasks, call, permit);
        None
    }

    fn spawn(&self, tasks: &Arc<ObjectTasks>, call: TaskCall, permit: Option<OwnedSemaphorePermit>) {
        let (background, tasks) = (self.clone(), Arc::clone(tasks));
        let mut killed = self.inner.killed.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = background.with_permit(permit, background.call(&tasks, call)) => {}
            }
            background.inner.idle.note_work();
        });
    }

    /// Makes the call on a permit, if it has one; a long call gives it away.
    async fn with_permit(&self, permit: Option<OwnedSemaphorePermit>, call: impl Future<Output = ()>) {
        let Some(permit) = permit else { return call.await };
        tokio::pin!(call);
        let ended = || self.inner.timer_calls_ended.load(Ordering::Relaxed);
        loop {
            let ended_before = ended();
            tokio::select! {
                biased;
                () = &mut call => break,
                () = self.inner.caller.clock.sleep(LONG_CALL) => {}
            }
            if ended().wrapping_sub(ended_before) >= ENDED_MEANWHILE {
                continue;
            }
            if let Ok(_place) = Arc::clone(&self.inner.long_calls).try_acquire_owned() {
                self.hand_over(Some(permit));
                return call.await;
            }
            self.warn_if_saturated();
        }
        self.inner.timer_calls_ended.fetch_add(1, Ordering::Relaxed);
        self.hand_over(Some(permit));
    }

    fn warn_if_saturated(&self) {
        if !lock(&self.inner.backlog).is_empty() && !self.inner.is_saturated.swap(true, Ordering::Relaxed) {
            let count = TIMERS_AT_ONCE + LONG_CALLS_AT_ONCE;
            let text = format!("{count} timers are running already; others that are due wait for them.");
            self.inner.caller.log.emit(Severity::Warning, TARGET, text);
        }
    }

    /// Drops stale entries, if there are too many of them.
    fn compact(&self) {
        let Some(mut entries) = lock(&self.inner.schedule).take_if_stale() else { return };
        entries.retain(|entry| entry.tasks.upgrade().is_some_and(|tasks| tasks.is_for_timer(entry.number).is_some()));
        lock(&self.inner.schedule).refill(entries);
    }
}
