//! The queue of jobs from the engine to the Python front, and the file descriptor that wakes up the event loop.
//!
//! Jobs cross in batches. The engine's thread flushes the queue when it has nothing else to do, or when enough jobs
//! wait, so that the event loop wakes up once for several of them. No engine thread ever waits for the GIL here.
//!
//! The queue is bounded, even if the user's code blocks the event loop:
//! - Jobs that the engine awaits need a free place; without one, the task that awaits the job waits for a place first.
//! - Notices need no place. The front and the running calls limit their number: an object leaves an index only after an
//!   awaited call has indexed it, a call gets a few reasons to stop, a review gets one answer.
//! - Log records have places too, and never block: when they are used up, the queue counts what it drops, and
//!   [`JobQueue::take`] reports the number. Warnings and errors have twice as many places.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// With as many jobs, the event loop wakes up even if the engine is still busy.
const ENOUGH_FOR_A_WAKE_UP: usize = 8;

thread_local! {
    /// Whether this thread calls [`JobQueue::flush`] when it has nothing else to do.
    static FLUSHES_LATER: Cell<bool> = const { Cell::new(false) };
}

/// How many jobs may wait for the event loop.
#[derive(Clone, Copy)]
pub(crate) struct QueueLimits {
    /// Jobs that the engine awaits.
    pub awaited: usize,
    /// Log records below warnings; together with warnings and errors, twice as many.
    pub log_records: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { awaited: 4096, log_records: 4096 }
    }
}

/// What the event loop has to do now.
pub(crate) struct Batch<J> {
    pub jobs: Vec<J>,
    /// How many log records did not fit into the queue since the previous batch.
    pub dropped_log_records: usize,
}

pub(crate) struct JobQueue<J> {
    waiting: Mutex<Waiting<J>>,
    log_records_limit: usize,
    /// The free places for jobs that the engine awaits.
    places: Semaphore,
    /// Our end of the wake-up.
    sender: UnixStream,
    /// The end that the event loop watches.
    receiver: UnixStream,
}

struct Waiting<J> {
    jobs: Vec<J>,
    /// How many of the jobs occupy places.
    awaited: usize,
    log_records: usize,
    dropped_log_records: usize,
    /// Whether the event loop has been woken up for these jobs already.
    notified: bool,
}

impl<J> JobQueue<J> {
    pub(crate) fn new(limits: QueueLimits) -> std::io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        let waiting = Waiting { jobs: Vec::new(), awaited: 0, log_records: 0, dropped_log_records: 0, notified: false };
        Ok(Self {
            waiting: Mutex::new(waiting),
            log_records_limit: limits.log_records,
            places: Semaphore::new(limits.awaited),
            sender,
            receiver,
        })
    }

    pub(crate) fn fileno(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    /// Enqueues a notice, which nobody awaits.
    pub(crate) fn put(&self, job: J) {
        self.push(&mut self.lock(), job);
    }

    /// Enqueues a job that the engine awaits, or returns it if there is no place for it at the moment.
    pub(crate) fn try_put_awaited(&self, job: J) -> Result<(), J> {
        let Ok(place) = self.places.try_acquire() else { return Err(job) };
        place.forget();
        self.push_awaited(job);
        Ok(())
    }

    /// Enqueues a job that the engine awaits, as soon as there is a place for it. First come, first served.
    pub(crate) async fn put_awaited(&self, job: J) {
        // The semaphore is never closed.
        if let Ok(place) = self.places.acquire().await {
            place.forget();
        }
        self.push_awaited(job);
    }

    /// Enqueues a log record, or counts it as dropped. Urgent ones have more places.
    pub(crate) fn put_log_record(&self, job: J, is_urgent: bool) {
        let mut waiting = self.lock();
        let limit = self.log_records_limit * if is_urgent { 2 } else { 1 };
        if waiting.log_records < limit {
            waiting.log_records += 1;
            self.push(&mut waiting, job);
        } else {
            waiting.dropped_log_records += 1;
        }
    }

    /// The thread has nothing else to do at the moment: the event loop may start with what the thread has enqueued.
    pub(crate) fn flush(&self) {
        FLUSHES_LATER.set(true);
        let mut waiting = self.lock();
        if !waiting.jobs.is_empty() {
            self.notify(&mut waiting);
        }
    }

    /// Takes all jobs. Called by the event loop.
    pub(crate) fn take(&self) -> Batch<J> {
        let mut waiting = self.lock();
        if std::mem::take(&mut waiting.notified) {
            // The byte is there already: it was written under the same lock.
            let _ = (&self.receiver).read(&mut [0; 8]);
        }
        waiting.log_records = 0;
        let dropped_log_records = std::mem::take(&mut waiting.dropped_log_records);
        let jobs = std::mem::take(&mut waiting.jobs);
        let freed = std::mem::take(&mut waiting.awaited);
        drop(waiting);
        if freed > 0 {
            self.places.add_permits(freed);
        }
        Batch { jobs, dropped_log_records }
    }

    fn push_awaited(&self, job: J) {
        let mut waiting = self.lock();
        waiting.awaited += 1;
        self.push(&mut waiting, job);
    }

    fn push(&self, waiting: &mut Waiting<J>, job: J) {
        waiting.jobs.push(job);
        if !FLUSHES_LATER.get() || waiting.jobs.len() >= ENOUGH_FOR_A_WAKE_UP {
            self.notify(waiting);
        }
    }

    fn notify(&self, waiting: &mut Waiting<J>) {
        if !std::mem::replace(&mut waiting.notified, true) {
            // The pipe cannot be full: it holds one byte at most.
            let _ = (&self.sender).write(&[1]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
