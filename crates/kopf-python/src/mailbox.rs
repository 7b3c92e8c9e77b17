//! The queue of jobs from the engine to the front, and the file descriptor that tells of them.
//!
//! Jobs cross in batches: one wake-up for as many jobs as there are when the event loop comes to them.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use crate::job::Work;

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
        if !std::mem::replace(&mut jobs.told, true) {
            // A full socket means that the loop has plenty of wake-ups to read already.
            let _ = (&self.sender).write(&[1]);
        }
    }

    pub fn take(&self) -> Vec<Work> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.told = false;
        let mut ignored = [0; 64];
        // It would block when it is empty, which is what we want it to be.
        while matches!((&self.receiver).read(&mut ignored), Ok(count) if count > 0) {}
        std::mem::take(&mut jobs.waiting)
    }
}
