//! The slots of requests in flight, and how many wait for them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

pub(super) struct Slots {
    limit: usize,
    free: Semaphore,
    waiting: AtomicUsize,
    /// The crowd is over.
    relief: Notify,
}

/// Counts as a waiting one as long as it lives: it may be dropped before its turn.
struct Waiting<'a>(&'a Slots);

impl Slots {
    pub fn new(limit: usize) -> Self {
        Self { limit, free: Semaphore::new(limit), waiting: AtomicUsize::new(0), relief: Notify::new() }
    }

    /// Waits for a slot, in the order of coming.
    pub async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(slot) = self.free.try_acquire() {
            return Some(slot);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self);
        // The semaphore is never closed, so that an error cannot happen; it would only unbound us.
        let slot = self.free.acquire().await.ok();
        drop(waiting);
        slot
    }

    /// Whether as many wait as there are slots.
    fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.limit
    }

    /// Waits until it is not crowded (any more).
    pub async fn relieved(&self) {
        loop {
            let relief = self.relief.notified();
            if !self.is_crowded() {
                return;
            }
            relief.await;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::Relaxed) == self.0.limit {
            self.0.relief.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_crowd_is_as_many_as_there_are_slots() {
        let slots = Slots::new(2);
        let first = slots.take().await;
        let second = slots.take().await;
        assert!(first.is_some() && second.is_some() && !slots.is_crowded());
        let mut third = Box::pin(slots.take());
        let mut fourth = Box::pin(slots.take());
        assert!(third.as_mut().now_or_never().is_none() && !slots.is_crowded());
        assert!(fourth.as_mut().now_or_never().is_none() && slots.is_crowded());
        let mut relieved = pin!(slots.relieved());
        assert!(relieved.as_mut().now_or_never().is_none());
        drop(first);
        let third = third.await;
        assert!(third.is_some() && !slots.is_crowded());
        relieved.await;
    }

    #[tokio::test]
    async fn those_who_give_up_do_not_wait() {
        let slots = Slots::new(1);
        let _slot = slots.take().await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(slots.take())).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let relieved = join_all((0..2).map(|_| slots.relieved()));
        let mut relieved = pin!(relieved);
        assert!(relieved.as_mut().now_or_never().is_none());
        waiting.truncate(1);
        assert!(slots.is_crowded() && relieved.as_mut().now_or_never().is_none());
        waiting.clear();
        relieved.await;
    }
}
