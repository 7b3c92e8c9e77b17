//! The slots of requests in flight, and how many wait for them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

pub(super) struct Slots {
    limit: usize,
    free: Semaphore,
    waiting: AtomicUsize,
    /// There is capacity again.
    freed: Notify,
}

/// Counts as a waiting one as long as it lives: it may be dropped before it has its slot.
struct Waiting<'a>(&'a Slots);

impl Slots {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, free: Semaphore::new(limit), waiting: AtomicUsize::new(0), freed: Notify::new() }
    }

    /// Waits for a slot, in the order of coming.
    pub(super) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(slot) = self.free.try_acquire() {
            return Some(slot);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self);
        // The semaphore is never closed: an error cannot happen, and would only lift the limit.
        let slot = self.free.acquire().await.ok();
        drop(waiting);
        slot
    }

    /// Whether as many wait as there are slots.
    fn is_saturated(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.limit
    }

    /// Waits until there is capacity.
    pub(super) async fn wait_for_capacity(&self) {
        loop {
            let freed = self.freed.notified();
            if !self.is_saturated() {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::Relaxed) == self.0.limit {
            self.0.freed.notify_waiters();
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
    async fn saturated_means_as_many_waiting_as_slots() {
        let slots = Slots::new(2);
        let first = slots.take().await;
        let second = slots.take().await;
        assert!(first.is_some() && second.is_some() && !slots.is_saturated());
        let mut third = Box::pin(slots.take());
        let mut fourth = Box::pin(slots.take());
        assert!(third.as_mut().now_or_never().is_none() && !slots.is_saturated());
        assert!(fourth.as_mut().now_or_never().is_none() && slots.is_saturated());
        let mut capacity = pin!(slots.wait_for_capacity());
        assert!(capacity.as_mut().now_or_never().is_none());
        drop(first);
        let third = third.await;
        assert!(third.is_some() && !slots.is_saturated());
        capacity.await;
    }

    #[tokio::test]
    async fn those_who_give_up_do_not_wait() {
        let slots = Slots::new(1);
        let _slot = slots.take().await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(slots.take())).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let capacity = join_all((0..2).map(|_| slots.wait_for_capacity()));
        let mut capacity = pin!(capacity);
        assert!(capacity.as_mut().now_or_never().is_none());
        waiting.truncate(1);
        assert!(slots.is_saturated() && capacity.as_mut().now_or_never().is_none());
        waiting.clear();
        capacity.await;
    }
}
