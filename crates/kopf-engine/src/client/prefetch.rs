//! Pages of lists that the engine requests before it is certain that a stream needs them.
//!
//! When an operator starts, discovery goes before the lists. If a handler names its resource in full, the engine requests
//! the first page meanwhile; the stream finds it here once discovery has found the resource. So the first object
//! is handled one round trip earlier, and a connection for its first patch is open.
//!
//! A page shows the objects at the time of the request. Where peers may have handled them since, the peering
//! drops the pages, so that the streams list the objects as they are.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Then they are too old to begin a stream with: the discovery takes long, or fails.
pub(super) const USABLE_FOR: Duration = Duration::from_secs(5);

/// Each of them is in memory until it is needed.
const AT_MOST: usize = 4;

#[derive(Default)]
pub(super) struct PrefetchedPages {
    pages: Mutex<HashMap<String, PrefetchedPage>>,
}

/// One page; nothing goes on when it is dropped.
pub(super) struct PrefetchedPage {
    since: Instant,
    /// One task, with the page if the server has given it.
    asking: JoinSet<Option<Bytes>>,
}

impl PrefetchedPages {
    /// Keeps a page that is being asked for, unless there are enough of them.
    pub(super) fn keep(
        &self,
        path: &str,
        since: Instant,
        asking: impl Future<Output = Option<Bytes>> + Send + 'static,
    ) {
        let mut pages = self.pages();
        if pages.len() < AT_MOST && !pages.contains_key(path) {
            let mut task = JoinSet::new();
            task.spawn(asking);
            pages.insert(path.to_owned(), PrefetchedPage { since, asking: task });
        }
    }

    /// The page, for the stream that needs it now; there is only one.
    pub(super) fn take(&self, path: &str) -> Option<PrefetchedPage> {
        self.pages().remove(path)
    }

    /// Drops all pages, also those on their way.
    pub(super) fn clear(&self) {
        self.pages().clear();
    }

    fn pages(&self) -> MutexGuard<'_, HashMap<String, PrefetchedPage>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrefetchedPage {
    /// Waits for the rest of the way; None if the page has to be asked for again.
    pub(super) async fn finish(mut self, now: Instant) -> Option<Bytes> {
        if now.saturating_duration_since(self.since) >= USABLE_FOR {
            return None;
        }
        self.asking.join_next().await?.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn page() -> Option<Bytes> {
        Some(Bytes::from_static(b"{}"))
    }

    #[tokio::test(start_paused = true)]
    async fn few_pages_are_kept_for_a_short_time_and_used_once() {
        let (pages, began) = (PrefetchedPages::default(), Instant::now());
        let paths: Vec<String> = (0..AT_MOST + 2).map(|number| format!("/{number}")).collect();
        paths.iter().for_each(|path| pages.keep(path, began, page()));
        let mut kept: Vec<_> = paths.iter().filter_map(|path| pages.take(path)).collect();
        assert_eq!(kept.len(), AT_MOST);
        assert!(paths.iter().all(|path| pages.take(path).is_none()));
        assert_eq!(kept.pop().unwrap().finish(began + USABLE_FOR).await, None);
        assert_eq!(kept.pop().unwrap().finish(began).await, page().await);
    }

    #[tokio::test]
    async fn dropped_pages_are_asked_for_again() {
        let (pages, now) = (PrefetchedPages::default(), Instant::now());
        pages.keep("/", now, page());
        pages.clear();
        assert!(pages.take("/").is_none());
    }

    #[tokio::test]
    async fn failed_pages_are_requested_again() {
        let (pages, now) = (PrefetchedPages::default(), Instant::now());
        pages.keep("/", now, async { None });
        assert_eq!(pages.take("/").unwrap().finish(now).await, None);
    }
}
