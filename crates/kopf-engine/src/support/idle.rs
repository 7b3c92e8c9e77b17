//! When an operator becomes idle after much work, the front is notified: a time to return memory.
//!
//! Work leaves freed memory behind, which an allocator keeps for the next work to come. While an operator
//! does nothing, that memory is of more use to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::Clock;

/// Idle means that nothing has happened for this long.
const QUIET: Duration = Duration::from_secs(1);

/// Less work leaves too little memory behind to search for it.
const MUCH_WORK: u32 = 500;

/// Counts the work. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleDetector {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Since the last idle time.
    work: AtomicU32,
    much: Notify,
}

impl IdleDetector {
    /// Something was done: an object had its pass, a timer was called.
    pub(crate) fn note_work(&self) {
        if self.inner.work.fetch_add(1, Ordering::Relaxed) + 1 == MUCH_WORK {
            self.inner.much.notify_one();
        }
    }

    /// Calls `notify` whenever the operator is idle after much work.
    pub(crate) async fn follow(self, clock: Clock, notify: impl Fn() + Send) {
        loop {
            self.quiet_after_much(&clock).await;
            notify();
        }
    }

    async fn quiet_after_much(&self, clock: &Clock) {
        self.inner.much.notified().await;
        let work = || self.inner.work.load(Ordering::Relaxed);
        let mut seen = work();
        loop {
            clock.sleep(QUIET).await;
            let now = work();
            if now == seen {
                break;
            }
            seen = now;
        }
        self.inner.work.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn little_work_is_not_reported() {
        let idle = IdleDetector::default();
        (1..MUCH_WORK).for_each(|_| idle.note_work());
        tokio::time::advance(QUIET * 10).await;
        assert!(idle.quiet_after_much(&Clock::system()).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_times_after_much_work_are_reported_once() {
        let (idle, clock) = (IdleDetector::default(), Clock::system());
        (0..MUCH_WORK).for_each(|_| idle.note_work());
        let mut reported = std::pin::pin!(idle.quiet_after_much(&clock));
        for _ in 0..5 {
            assert!(reported.as_mut().now_or_never().is_none(), "still busy");
            tokio::time::advance(QUIET - Duration::from_millis(1)).await;
            idle.note_work();
            assert!(reported.as_mut().now_or_never().is_none(), "still busy");
            tokio::time::advance(Duration::from_millis(2)).await;
        }
        reported.await;
        assert!(idle.quiet_after_much(&clock).now_or_never().is_none(), "reported once");
        (0..MUCH_WORK).for_each(|_| idle.note_work());
        idle.quiet_after_much(&clock).await;
    }
}
