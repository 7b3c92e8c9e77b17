//! The right of a worker to work, and how it is left to others while it waits for a busy handler.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Queue;

/// The right of a worker to work, out of as many as the limit allows.
pub(crate) struct Seat {
    pub(super) queue: Queue,
    /// None while it waits without a seat.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// The handlers have to wait, e.g. since the operator pauses: a long turn is to be given up.
    pub fn is_recalled(&self) -> bool {
        !self.queue.inner.state().gate.is_open()
    }

    /// Goes through the gate of a handler; where it is busy, the seat is left to others meanwhile.
    pub async fn pass(&mut self, gate: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if let Ok(passed) = Arc::clone(&gate).try_acquire_owned() {
            return Some(passed);
        }
        // The semaphores are never closed, so that an error cannot happen; it would only unbound us.
        let waiting = tokio::select! {
            biased;
            passed = Arc::clone(&gate).acquire_owned() => return passed.ok(),
            waiting = Arc::clone(&self.queue.inner.waiting_room).acquire_owned() => waiting,
        };
        drop(self.permit.take());
        self.queue.pump(self.queue.inner.state());
        let passed = gate.acquire_owned().await.ok();
        // Before the seat is taken: those who have all the seats may wait for this place to leave them.
        drop(waiting);
        self.permit = Arc::clone(&self.queue.inner.seats).acquire_owned().await.ok();
        passed
    }
}
