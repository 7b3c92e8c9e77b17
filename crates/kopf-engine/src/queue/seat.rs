//! The right of a worker to work, and how it is left to others while the worker only waits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{BYTES_IN_LONG_CALLS_AT_MOST, Queue, TARGET};
use crate::Level;
use crate::queue::state::State;

/// The right of a worker to work, out of as many as the limit allows.
pub(crate) struct Seat {
    pub(super) queue: Queue,
    /// None while it waits without a seat.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// The bytes of its object, while it waits for a handler without a seat.
    pub(super) long_call: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// The handlers have to wait, e.g. since the operator pauses: a long turn is to be given up.
    pub fn is_recalled(&self) -> bool {
        !self.queue.inner.state().gate.is_open()
    }

    /// Whether the seat can be left to others while a handler takes long.
    pub fn is_leavable(&self) -> bool {
        self.permit.is_some() && self.queue.inner.long_calls.is_some()
    }

    /// Leaves the seat to others, since a handler takes long; unless too much memory is held in this way already.
    pub fn leave(&mut self, object_bytes: usize) {
        let Some(long_calls) = &self.queue.inner.long_calls else { return };
        let bytes = u32::try_from(object_bytes.min(BYTES_IN_LONG_CALLS_AT_MOST)).unwrap_or(u32::MAX);
        match Arc::clone(long_calls).try_acquire_many_owned(bytes) {
            Ok(long_call) => {
                self.long_call = Some(long_call);
                self.stand_up();
            }
            Err(_) if !self.queue.inner.is_crowded.swap(true, Ordering::Relaxed) => {
                let mebibytes = BYTES_IN_LONG_CALLS_AT_MOST / 1024 / 1024;
                let text = format!(
                    "Handlers are waiting for objects of {mebibytes} MiB in total. \
                    More objects are handled only when some of these handlers return."
                );
                self.queue.inner.log.emit(Level::Warning, TARGET, text);
            }
            Err(_) => {}
        }
    }

    /// Takes a seat again, if it was left.
    pub async fn retake(&mut self) {
        if self.permit.is_none() {
            // The semaphores are never closed, so that an error cannot happen; it would only unbound us.
            self.permit = Arc::clone(&self.queue.inner.seats).acquire_owned().await.ok();
            self.queue.inner.state().seated += 1;
            self.long_call = None;
        }
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
        self.stand_up();
        let passed = gate.acquire_owned().await.ok();
        // Before the seat is taken: those who have all the seats may wait for this place to leave them.
        drop(waiting);
        self.retake().await;
        passed
    }

    /// The turn is over.
    pub(super) fn give_up(&mut self) -> MutexGuard<'_, State> {
        self.long_call = None;
        let was_seated = self.permit.take().is_some();
        let mut state = self.queue.inner.state();
        state.seated -= usize::from(was_seated);
        state
    }

    fn stand_up(&mut self) {
        if self.permit.take().is_some() {
            let mut state = self.queue.inner.state();
            state.seated -= 1;
            self.queue.pump(state);
        }
    }
}
