//! The connections of a small server: bounded in number, and those that wait for their clients give way.
//!
//! The servers of webhooks and probes use it. Anybody who reaches their ports can open connections and say nothing, which
//! must not keep others out. So when all permits are taken, the connection that waits for its client for longest is
//! closed: first those that have never sent a request, then the idle ones. A connection whose request is being
//! answered is never closed. Connections that stay silent for too long are closed in any case.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Clock;

/// The permits of one server; clones share them.
#[derive(Clone)]
pub(crate) struct ConnectionLimit {
    inner: Arc<Inner>,
}

struct Inner {
    limit: usize,
    clock: Clock,
    state: Mutex<State>,
    /// A permit has become free, or its connection has become idle.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Counts what happens, so that the longest wait is known.
    next: u64,
    /// By the numbers of the permits.
    taken: BTreeMap<u64, Taken>,
}

/// What is known of one connection.
struct Taken {
    /// Requests whose bodies are being received.
    receiving: usize,
    /// Requests that were received and are being answered.
    answering: usize,
    /// It has sent a request, at least one.
    known: bool,
    /// When it has begun to wait for its client, by the count of what happens.
    waiting_since: u64,
    /// It must leave.
    leaving: bool,
    leave: Arc<Notify>,
}

impl Taken {
    /// Whether it may be closed for another one: it waits for its client.
    fn gives_way(&self) -> bool {
        self.answering == 0
    }
}

impl ConnectionLimit {
    pub(crate) fn new(limit: usize, clock: Clock) -> Self {
        Self { inner: Arc::new(Inner { limit, clock, state: Mutex::default(), changed: Notify::new() }) }
    }

    /// A permit for a connection that was accepted. If there is none, another connection has to leave; if all of them are
    /// being answered, it waits for the first answer.
    pub(crate) async fn take(&self) -> ConnectionPermit {
        loop {
            let changed = self.inner.changed.notified();
            if let Some(permit) = self.try_take() {
                return permit;
            }
            changed.await;
        }
    }

    fn try_take(&self) -> Option<ConnectionPermit> {
        let mut state = self.inner.state();
        if state.taken.len() < self.inner.limit {
            let (number, leave) = (state.count(), Arc::new(Notify::new()));
            let taken = Taken {
                receiving: 0,
                answering: 0,
                known: false,
                waiting_since: number,
                leaving: false,
                leave: Arc::clone(&leave),
            };
            state.taken.insert(number, taken);
            return Some(ConnectionPermit { inner: Arc::clone(&self.inner), number, leave, activity: Notify::new() });
        }
        let candidates = || state.taken.values().filter(|taken| taken.gives_way());
        if !candidates().any(|taken| taken.leaving) {
            let chosen = candidates().min_by_key(|taken| (taken.known, taken.waiting_since))?.waiting_since;
            let chosen = state.taken.values_mut().find(|taken| taken.waiting_since == chosen)?;
            chosen.leaving = true;
            chosen.leave.notify_one();
        }
        None
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The permit of one connection while it is open.
pub(crate) struct ConnectionPermit {
    inner: Arc<Inner>,
    number: u64,
    leave: Arc<Notify>,
    /// A request has begun or ended.
    activity: Notify,
}

impl ConnectionPermit {
    /// A request has begun: its head is there.
    pub(crate) fn request(self: &Arc<Self>) -> RequestOnConnection {
        self.change(|taken| {
            taken.receiving += 1;
            taken.known = true;
        });
        RequestOnConnection { permit: Arc::clone(self), answering: false }
    }

    /// Waits until the connection has to be closed: it has for another one; or its client has not sent
    /// the first request, or the next one, in time.
    pub(crate) async fn dismissed(&self, first: Duration, next: Duration) {
        loop {
            let activity = self.activity.notified();
            let limit = match self.look(|taken| (taken.receiving + taken.answering, taken.known)) {
                (0, false) => first,
                (0, true) => next,
                _ => Duration::MAX,
            };
            tokio::select! {
                () = self.leave.notified() => return,
                () = activity => {}
                _ = self.inner.clock.timeout(limit, std::future::pending::<()>()) => return,
            }
        }
    }

    /// Whether the client has sent a request, so that it should be notified of the end.
    pub(crate) fn is_known(&self) -> bool {
        self.look(|taken| taken.known)
    }

    /// Whether a request is being received or answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.look(|taken| taken.receiving + taken.answering > 0)
    }

    fn look<T: Default>(&self, look: impl FnOnce(&Taken) -> T) -> T {
        self.inner.state().taken.get(&self.number).map(look).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Taken)) {
        let mut state = self.inner.state();
        let now = state.count();
        if let Some(taken) = state.taken.get_mut(&self.number) {
            change(taken);
            taken.waiting_since = now;
        }
        drop(state);
        self.activity.notify_waiters();
        self.inner.changed.notify_waiters();
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.inner.state().taken.remove(&self.number);
        self.inner.changed.notify_waiters();
    }
}

/// One request of a connection, until it is answered.
pub(crate) struct RequestOnConnection {
    permit: Arc<ConnectionPermit>,
    answering: bool,
}

impl RequestOnConnection {
    /// The whole request is there: from now on, it is up to us.
    pub(crate) fn received(&mut self) {
        if !std::mem::replace(&mut self.answering, true) {
            self.permit.change(|taken| {
                taken.receiving -= 1;
                taken.answering += 1;
            });
        }
    }
}

impl Drop for RequestOnConnection {
    fn drop(&mut self) {
        let answering = self.answering;
        self.permit.change(|taken| match answering {
            true => taken.answering -= 1,
            false => taken.receiving -= 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const FIRST: Duration = Duration::from_secs(10);
    const NEXT: Duration = Duration::from_secs(60);

    async fn take(permits: &ConnectionLimit) -> Arc<ConnectionPermit> {
        Arc::new(permits.take().await)
    }

    fn is_dismissed(permit: &ConnectionPermit) -> bool {
        permit.dismissed(FIRST, NEXT).now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_wait_gives_way_and_strangers_before_others() {
        let permits = ConnectionLimit::new(4, Clock::system());
        let (known, silent) = (take(&permits).await, take(&permits).await);
        let (later, answered) = (take(&permits).await, take(&permits).await);
        drop(known.request());
        let mut request = answered.request();
        request.received();
        // Who has to leave, one after the other.
        for expected in [silent, later, known] {
            let mut next = Box::pin(permits.take());
            assert!(next.as_mut().now_or_never().is_none());
            assert!(is_dismissed(&expected) && !is_dismissed(&answered));
            // Only one leaves for one that comes.
            assert!(next.as_mut().now_or_never().is_none());
            drop(expected);
            let mut request = Arc::new(next.await).request();
            request.received();
            // It stays for the rest of the test.
            std::mem::forget(request);
        }
        // All are being answered: the next one waits, until one of them is.
        let mut next = Box::pin(permits.take());
        assert!(next.as_mut().now_or_never().is_none() && !is_dismissed(&answered));
        drop(request);
        assert!(next.as_mut().now_or_never().is_none() && is_dismissed(&answered));
        drop(answered);
        next.await;
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_limited_but_work_is_not() {
        let (permits, clock) = (ConnectionLimit::new(1, Clock::system()), Clock::system());
        let permit = take(&permits).await;
        let began = clock.instant();
        permit.dismissed(FIRST, NEXT).await;
        assert_eq!(clock.instant() - began, FIRST);
        let mut request = permit.request();
        assert!(clock.timeout(NEXT * 9, permit.dismissed(FIRST, NEXT)).await.is_err() && permit.is_busy());
        request.received();
        assert!(clock.timeout(NEXT * 9, permit.dismissed(FIRST, NEXT)).await.is_err() && permit.is_busy());
        drop(request);
        let began = clock.instant();
        permit.dismissed(FIRST, NEXT).await;
        assert_eq!(clock.instant() - began, NEXT);
        assert!(permit.is_known() && !permit.is_busy());
    }
}
