//! 6. The permits of workers: they limit how many decide and patch at once. A worker that only waits lends its permit.
//!
//! The queue gives a permit to each worker it starts. Calls of handlers lend it while they take long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_reaction::Severity;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::support::Log;

const TARGET: &str = "kopf.engine.queue";

/// Workers that decide and patch at the same time, where the settings set no limit. A worker waits for the API most of its
/// time, and only a few requests are in flight at once. A worker whose handler takes long does not count.
const WORKERS: usize = 64;

/// A call that lasts longer takes long: its worker lends its permit.
pub(crate) const LONG_CALL: Duration = Duration::from_millis(20);

/// The objects whose handlers take long, in bytes of JSON: hundreds of thousands of usual ones.
const BYTES_IN_LONG_CALLS_AT_MOST: usize = 256 * 1024 * 1024;

/// Workers that wait for a busy handler without a permit; each of them holds one object.
const WAITING_AT_MOST: usize = 1024;

/// The limits on the workers of one operator.
pub(crate) struct WorkerLimits {
    workers: Arc<Semaphore>,
    /// For workers without a permit, see [`WorkerPermit::wait_for`].
    waiting: Arc<Semaphore>,
    /// For workers without a permit, see [`WorkerPermit::lend`]: by the bytes of their objects. None if the settings limit
    /// the workers: then each object that is being handled counts, even if its worker only waits.
    long_calls: Option<Arc<Semaphore>>,
    /// The log has said that the long calls take all the memory they may take.
    is_saturated: AtomicBool,
}

impl WorkerLimits {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self {
            workers: Arc::new(Semaphore::new(limit.unwrap_or(WORKERS).clamp(1, Semaphore::MAX_PERMITS))),
            waiting: Arc::new(Semaphore::new(WAITING_AT_MOST)),
            long_calls: limit.is_none().then(|| Arc::new(Semaphore::new(BYTES_IN_LONG_CALLS_AT_MOST))),
            is_saturated: AtomicBool::new(false),
        }
    }

    /// None if all permits are taken.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.workers).try_acquire_owned().ok()
    }
}

/// Who starts the workers, as far as a permit needs it.
pub(crate) trait WorkerPool: Send + Sync {
    fn limits(&self) -> &WorkerLimits;

    fn log(&self) -> &Log;

    /// A worker has lent its permit: another one may start.
    fn permit_lent(self: Arc<Self>);

    /// A worker has its permit back.
    fn permit_retaken(&self);

    /// Handlers must wait, e.g. because the operator pauses: a worker with many cycles ahead must stop.
    fn must_yield(&self) -> bool;
}

/// The right of one worker to decide and patch.
pub(crate) struct WorkerPermit {
    pool: Arc<dyn WorkerPool>,
    /// None while the worker waits without it.
    permit: Option<OwnedSemaphorePermit>,
    /// The bytes of its object, while it waits for a handler without a permit.
    long_call: Option<OwnedSemaphorePermit>,
}

impl WorkerPermit {
    pub(crate) fn new(pool: Arc<dyn WorkerPool>, permit: OwnedSemaphorePermit) -> Self {
        Self { pool, permit: Some(permit), long_call: None }
    }

    pub(crate) fn must_yield(&self) -> bool {
        self.pool.must_yield()
    }

    /// Whether the permit can be lent while a handler takes long.
    pub(crate) fn is_lendable(&self) -> bool {
        self.permit.is_some() && self.pool.limits().long_calls.is_some()
    }

    /// Lends the permit to others, because a handler takes long; unless such objects take too much memory already.
    pub(crate) fn lend(&mut self, object_bytes: usize) {
        let limits = self.pool.limits();
        let Some(long_calls) = &limits.long_calls else { return };
        let bytes = u32::try_from(object_bytes.min(BYTES_IN_LONG_CALLS_AT_MOST)).unwrap_or(u32::MAX);
        match Arc::clone(long_calls).try_acquire_many_owned(bytes) {
            Ok(long_call) => {
                self.long_call = Some(long_call);
                self.release();
            }
            Err(_) if !limits.is_saturated.swap(true, Ordering::Relaxed) => {
                let mebibytes = BYTES_IN_LONG_CALLS_AT_MOST / 1024 / 1024;
                let text = format!(
                    "Handlers are waiting for objects of {mebibytes} MiB in total. \
                    More objects are handled only when some of these handlers return."
                );
                self.pool.log().emit(Severity::Warning, TARGET, text);
            }
            Err(_) => {}
        }
    }

    /// Takes a permit again, if it was lent.
    pub(crate) async fn retake(&mut self) {
        if self.permit.is_none() {
            // The semaphores are never closed: an error cannot happen, and would only lift the limit.
            self.permit = Arc::clone(&self.pool.limits().workers).acquire_owned().await.ok();
            self.pool.permit_retaken();
            self.long_call = None;
        }
    }

    /// Waits for a place within the limit of a handler; if the handler is busy, the permit is lent meanwhile.
    pub(crate) async fn wait_for(&mut self, limit: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&limit).try_acquire_owned() {
            return Some(place);
        }
        // The semaphores are never closed: an error cannot happen, and would only lift the limit.
        let waiting = tokio::select! {
            biased;
            place = Arc::clone(&limit).acquire_owned() => return place.ok(),
            waiting = Arc::clone(&self.pool.limits().waiting).acquire_owned() => waiting,
        };
        self.release();
        let place = limit.acquire_owned().await.ok();
        // Before the permit is retaken: the workers with all the permits may wait to lend them.
        drop(waiting);
        self.retake().await;
        place
    }

    /// The worker is done; returns whether it had a permit.
    pub(crate) fn give_back(mut self) -> bool {
        self.permit.take().is_some()
    }

    fn release(&mut self) {
        if self.permit.take().is_some() {
            Arc::clone(&self.pool).permit_lent();
        }
    }
}
