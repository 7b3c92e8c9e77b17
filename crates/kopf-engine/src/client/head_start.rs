//! Pages of lists that are asked for before it is certain that somebody needs them.
//!
//! At the start of an operator, the kinds are discovered before they are listed. Where a handler names its kind in full, the
//! first page is asked for meanwhile; the stream finds it here when the discovery has told that it is to start. So the
//! first object is handled one answer of the server earlier, and there is a connection for its first patch.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Then they are too old to begin a stream with: the discovery has failed, or the operator is paused.
pub(super) const USABLE_FOR: Duration = Duration::from_secs(5);

/// Each of them is in memory until it is needed.
const AT_MOST: usize = 4;

#[derive(Default)]
pub(super) struct HeadStarts {
    pages: Mutex<HashMap<String, HeadStart>>,
}

/// One page; nothing goes on when it is dropped.
pub(super) struct HeadStart {
    since: Instant,
    /// One task, with the page if the server has given it.
    asking: JoinSet<Option<Bytes>>,
}

impl HeadStarts {
    /// Keeps a page that is being asked for, unless there are enough of them.
    pub fn keep(&self, path: &str, since: Instant, asking: impl Future<Output = Option<Bytes>> + Send + 'static) {
        let mut pages = self.pages();
        if pages.len() < AT_MOST && !pages.contains_key(path) {
            let mut task = JoinSet::new();
            task.spawn(asking);
            pages.insert(path.to_owned(), HeadStart { since, asking: task });
        }
    }

    /// The page, for whoever needs it now; there is only one.
    pub fn take(&self, path: &str) -> Option<HeadStart> {
        self.pages().remove(path)
    }

    fn pages(&self) -> MutexGuard<'_, HashMap<String, HeadStart>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeadStart {
    /// Waits for the rest of the way; None if the page has to be asked for again.
    pub async fn finish(mut self, now: Instant) -> Option<Bytes> {
        if now.saturating_duration_since(self.since) >= USABLE_FOR {
            return None;
        }
        self.asking.join_next().await?.ok()?
    }
}
