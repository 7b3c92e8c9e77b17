//! The queue of jobs from the engine to the front, and the file descriptor that tells of them.
//!
//! Jobs cross in batches. The thread of the engine tells of its jobs when it comes to rest, or when there are
//! enough of them, so that the event loop wakes up once for what came of several answers and events.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use crate::job::Work;

/// The event loop need not wait for more jobs than that, even if the engine is still busy.
const WORTH_A_WAKE_UP: usize = 8;

thread_local! {
    /// Whether this thread comes to [`Mailbox::tell`] by itself when it has nothing else to do.
    static TELLS_LATER: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Mailbox {
    jobs: Mutex<Jobs>,
    /// Our end of the wake-up.
    sender: UnixStream,
    /// The end which the event loop watches.
    receiver: UnixStream,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<Work>,
    /// The event loop was told already.
    told: bool,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { jobs: Mutex::default(), sender, receiver })
    }

    pub fn fileno(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    pub fn put(&self, work: Work) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.waiting.push(work);
        if !TELLS_LATER.get() || jobs.waiting.len() >= WORTH_A_WAKE_UP {
            self.wake(&mut jobs);
        }
    }

    /// The thread has nothing else to do at the moment: whatever it has put here is to be done now.
    pub fn tell(&self) {
        TELLS_LATER.set(true);
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if !jobs.waiting.is_empty() {
            self.wake(&mut jobs);
        }
    }

    fn wake(&self, jobs: &mut Jobs) {
        if !std::mem::replace(&mut jobs.told, true) {
            // It cannot be full: there is one byte in it at most.
            let _ = (&self.sender).write(&[1]);
        }
    }

    pub fn take(&self) -> Vec<Work> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut jobs.told) {
            // The byte is there already: it was written under the same lock.
            let _ = (&self.receiver).read(&mut [0; 8]);
        }
        std::mem::take(&mut jobs.waiting)
    }
}
