//! How a stream is doing, for probes and metrics: written by the stream, read by anybody.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// What a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// Not begun yet.
    Starting,
    /// Listing all objects.
    Listing,
    /// Connecting to a watch, or waiting for its events.
    Watching,
    /// Pausing after a failure.
    Waiting,
    /// Ended, as the operator wanted.
    Stopped,
}

/// The health of one stream, from its start to its end.
#[derive(Debug)]
pub struct StreamHealth {
    state: AtomicU8,
    /// Milliseconds of the Unix time; the smallest number means never.
    last_event: AtomicI64,
    restarts: AtomicU64,
    failures: AtomicU32,
    listed: AtomicU64,
    last_error: Mutex<Option<String>>,
}

const STATES: [StreamState; 5] =
    [StreamState::Starting, StreamState::Listing, StreamState::Watching, StreamState::Waiting, StreamState::Stopped];

impl Default for StreamHealth {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(StreamState::Starting as u8),
            last_event: AtomicI64::new(i64::MIN),
            restarts: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            listed: AtomicU64::new(0),
            last_error: Mutex::new(None),
        }
    }
}

impl StreamHealth {
    pub fn state(&self) -> StreamState {
        let index = usize::from(self.state.load(Ordering::Relaxed));
        STATES.get(index).copied().unwrap_or(StreamState::Starting)
    }

    /// When the latest sign of life came: an event, a bookmark, a page of a list.
    pub fn last_event(&self) -> Option<Timestamp> {
        let milliseconds = self.last_event.load(Ordering::Relaxed);
        if milliseconds == i64::MIN { None } else { Timestamp::from_millisecond(milliseconds).ok() }
    }

    /// How often a watch was opened again, for whatever reason.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Failures in a row; zero while the stream works.
    pub fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often all objects were listed.
    pub fn listings(&self) -> u64 {
        self.listed.load(Ordering::Relaxed)
    }

    /// Why the latest try failed; None while the stream works.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn enter(&self, state: StreamState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn touch(&self, now: Timestamp) {
        self.last_event.store(now.as_millisecond(), Ordering::Relaxed);
    }

    pub(super) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_listing(&self) {
        self.listed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, failures: u32, error: String) {
        self.failures.store(failures, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(super) fn succeed(&self) {
        if self.failures.swap(0, Ordering::Relaxed) != 0 {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let health = StreamHealth::default();
        assert_eq!((health.state(), health.last_event()), (StreamState::Starting, None));
        for state in STATES {
            health.enter(state);
            assert_eq!(health.state(), state);
        }
        health.touch(Timestamp::UNIX_EPOCH);
        assert_eq!(health.last_event(), Some(Timestamp::UNIX_EPOCH));
        health.fail(3, "why".into());
        assert_eq!((health.failures(), health.last_error()), (3, Some("why".into())));
        health.succeed();
        assert_eq!((health.failures(), health.last_error()), (0, None));
    }
}
