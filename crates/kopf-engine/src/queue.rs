//! 2. From the streams of events to the workers: one turn at a time per object, few workers for all.
//!
//! While an object has its turn, its news wait, and the newest wins (unless spies want to see each of them).
//! Live changes go before what was only listed. Everything is bounded: the workers that decide and patch by a limit, those
//! that wait for their handlers by the bytes of their objects, the news per object by a limit, the listed objects by
//! their bytes: a listing waits for room. How many handlers wait for something is not limited, unless the settings say so.

mod entry;
mod barrier;
mod seat;
mod state;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use kopf_object::{Body, ObjectIdentity};
use kopf_reaction::EventType;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::front::FrontSlot;
use crate::metrics::{Metrics, QueueFigures};
use crate::worker::{After, Reactor, ServedKind, Turn};
use crate::worker::{ObjectMemory, version_number};
use crate::{Clock, Level, Log};
use entry::{Entry, News, Phase, Timer};
pub(crate) use seat::Seat;
pub(crate) use state::Room;
use state::{Objects, QueuePhase, Ready, State};

const TARGET: &str = "kopf.engine.queue";

/// Workers that decide and patch at the same time, where the settings set no limit. Most of a worker's time is waiting for
/// the API, of which only so many requests are in flight at once. A worker whose handler takes long does not count.
const WORKERS: usize = 64;

/// After this time, a call of a handler takes long, and its worker leaves its seat to others.
pub(crate) const LONG_CALL: Duration = Duration::from_millis(20);

/// The objects whose handlers take long, in bytes of JSON: hundreds of thousands of usual ones.
const BYTES_IN_LONG_CALLS_AT_MOST: usize = 256 * 1024 * 1024;

/// So many of them start at once; each of the others only when it shows that the API has time for it. Workers that wait
/// for the API do nothing but hold their objects in memory.
const WORKERS_AT_ONCE: usize = 24;

/// So many more start when the API has time for them.
const MORE_WORKERS: usize = 8;

/// How long an object rests if its worker has crashed, which would be a bug of ours.
const REST_AFTER_A_CRASH: Duration = Duration::from_secs(60);

/// Workers that wait for a busy handler while others have their seats; each of them holds one object.
const WAITING_AT_MOST: usize = 1024;

/// Of each kind, objects that were listed and wait for their turns, in bytes: some hundred usual ones. Without a limit,
/// they would be in memory all at once; with too small a limit, live changes would wait for most of them to be handled.
const LISTED_BYTES_AT_MOST: u32 = 512 * 1024;

/// The longest wait for anything; then the object is looked at again.
pub(crate) const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The queue of one operator. Clones share it.
#[derive(Clone)]
pub(crate) struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    reactor: Arc<Reactor>,
    clock: Clock,
    log: Log,
    /// One per worker, as many as the limit allows.
    seats: Arc<Semaphore>,
    /// For those without a seat, see [`Seat::pass`].
    waiting_room: Arc<Semaphore>,
    /// For those without a seat, see [`Seat::leave`]: by the bytes of their objects. None if the settings limit the workers:
    /// then each object that is being handled counts, also if it waits.
    long_calls: Option<Arc<Semaphore>>,
    /// Somebody was told that the long calls take all the memory that there is for them.
    is_crowded: AtomicBool,
    state: Mutex<State>,
    /// A worker has come to its end.
    finished: Notify,
    /// Whether the workers must stop at once, wherever they are.
    killed: watch::Sender<bool>,
}

/// The queue, if it is still there.
pub(crate) struct WeakQueue(Weak<Inner>);

impl WeakQueue {
    pub fn upgrade(&self) -> Option<Queue> {
        self.0.upgrade().map(|inner| Queue { inner })
    }
}

/// For what the handlers have to wait when a stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// For its objects to be indexed, if they are.
    Index,
    /// For all its objects: what is known of them is outdated, if anything is.
    News,
}

/// How a kind is known to the queue; dropped with [`Queue::remove_kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindKey(u64);

impl Queue {
    pub fn new(reactor: Arc<Reactor>, limit: Option<usize>, clock: Clock, log: Log) -> Self {
        let seats = Arc::new(Semaphore::new(limit.unwrap_or(WORKERS).clamp(1, Semaphore::MAX_PERMITS)));
        let waiting_room = Arc::new(Semaphore::new(WAITING_AT_MOST));
        let long_calls = limit.is_none().then(|| Arc::new(Semaphore::new(BYTES_IN_LONG_CALLS_AT_MOST)));
        let is_crowded = AtomicBool::new(false);
        let (killed, _) = watch::channel(false);
        let (state, finished) = (Mutex::default(), Notify::new());
        let inner = Inner { reactor, clock, log, seats, waiting_room, long_calls, is_crowded, state, finished, killed };
        Self { inner: Arc::new(inner) }
    }

    pub fn add_kind(&self, kind: Arc<ServedKind>) -> KindKey {
        let mut state = self.inner.state();
        let key = state.next_kind;
        state.next_kind += 1;
        let room = Arc::new(Semaphore::new(LISTED_BYTES_AT_MOST as usize));
        state.kinds.insert(key, Objects { kind, entries: HashMap::new(), room });
        KindKey(key)
    }

    /// The kind is served in another way from now on; what is remembered of its objects stays.
    pub fn replace_kind(&self, key: KindKey, kind: Arc<ServedKind>) {
        if let Some(objects) = self.inner.state().kinds.get_mut(&key.0) {
            objects.kind = kind;
        }
    }

    /// The kind is not served any more: its objects are forgotten after their turns.
    pub fn remove_kind(&self, key: KindKey) {
        let mut state = self.inner.state();
        if let Some(objects) = state.kinds.remove(&key.0) {
            for (uid, entry) in objects.entries {
                self.forget(&objects.kind, &uid, entry);
            }
        }
        state.gate.release(key.0, None);
        self.pump(state);
    }

    /// No handlers are called until the blocker is dropped: streams are being started.
    pub fn block(&self) -> Blocker {
        self.inner.state().gate.block();
        Blocker(self.clone())
    }

    /// The stream is about to start: handlers wait for what its first listing brings.
    pub fn expect(&self, key: KindKey, stream: u64, what: Expected) {
        let mut state = self.inner.state();
        let Some(objects) = state.kinds.get(&key.0) else { return };
        let is_indexed = !objects.kind.handlers.index_handlers.is_empty();
        let is_outdated = what == Expected::News && !objects.entries.is_empty();
        if is_indexed || is_outdated {
            state.gate.hold(key.0, stream);
        }
    }

    /// How full it is, for the metrics.
    pub fn figures(&self) -> QueueFigures {
        let now = self.inner.clock.instant();
        let state = self.inner.state();
        let oldest = [state.live.front(), state.listed.front().map(|(ready, _)| ready)].into_iter().flatten();
        let oldest =
            oldest.map(|ready| ready.since).min().map(|since| now.saturating_duration_since(since).as_secs_f64());
        QueueFigures {
            waiting: state.live.len() + state.listed.len(),
            gated: state.gated.len(),
            running: state.running,
            objects: state.kinds.values().map(|objects| objects.entries.len()).sum(),
            oldest_seconds: oldest.unwrap_or_default(),
            closed: !state.gate.is_open(),
        }
    }

    /// For those who look at it without keeping it.
    pub fn downgrade(&self) -> WeakQueue {
        WeakQueue(Arc::downgrade(&self.inner))
    }

    pub fn reactor(&self) -> &Reactor {
        &self.inner.reactor
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.reactor.metrics
    }

    /// What is left of an object that is not served any more.
    fn forget(&self, kind: &ServedKind, uid: &Arc<str>, entry: Entry) {
        if let Some(mut memory) = entry.memory {
            self.inner.reactor.unindex(kind, uid, &mut memory);
        }
    }

    /// Waits for the room for a listed object. There is always room as long as handlers have to wait, since what they
    /// wait for may be the end of this very listing.
    pub async fn room(&self, key: KindKey, size: usize) -> Option<Room> {
        let room = {
            let state = self.inner.state();
            let objects = state.kinds.get(&key.0)?;
            state.gate.is_open().then(|| Arc::clone(&objects.room))?
        };
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(LISTED_BYTES_AT_MOST);
        // The semaphores are never closed, so that an error cannot happen; it would only unbound us.
        room.acquire_many_owned(size).await.ok()
    }

    /// Something was listed or has happened to an object.
    pub fn push(&self, key: KindKey, stream: u64, listing: u64, event: EventType, raw: Bytes, room: Option<Room>) {
        let identity = match ObjectIdentity::from_slice(&raw) {
            Ok(identity) => identity,
            Err(error) => {
                let text = format!("An object without an identity is skipped: {error}");
                self.inner.log.emit(Level::Error, TARGET, text);
                return;
            }
        };
        let version = version_number(identity.resource_version.as_deref());
        let uid = identity.object_uid;
        let mut state = self.inner.state();
        if state.phase == QueuePhase::Closing {
            return;
        }
        let State { kinds, gate, .. } = &mut *state;
        let Some(objects) = kinds.get_mut(&key.0) else { return };
        let is_indexed = !objects.kind.handlers.index_handlers.is_empty();
        let has_spies = !objects.kind.handlers.event_handlers.is_empty();
        // All that refers to the object shares one text of its uid.
        let known_uid = objects.entries.get_key_value(uid.as_ref()).map(|(uid, _)| Arc::clone(uid));
        if known_uid.is_none() && event == EventType::Deleted && !has_spies {
            return;
        }
        let uid = known_uid.unwrap_or_else(|| Arc::from(uid.as_ref()));
        let entry = objects.entries.entry(Arc::clone(&uid)).or_insert_with(|| {
            let noticed_by_listing = event == EventType::Listed;
            Entry::new(Box::new(ObjectMemory { noticed_by_listing, ..ObjectMemory::default() }))
        });
        (entry.stream, entry.listing, entry.vanished) = (stream, listing, false);
        let known = entry.memory.as_ref().is_some_and(|memory| memory.knows(version));
        let outdated = known && event != EventType::Deleted;
        if outdated && !has_spies {
            return;
        }
        if event != EventType::Deleted
            && entry.is_at_rest()
            && let Some(memory) = entry.memory.as_mut()
            && self.inner.reactor.is_settled(&objects.kind, memory, &raw)
        {
            memory.saw(version);
            self.inner.reactor.rest.worked();
            return;
        }
        if is_indexed && !outdated {
            entry.token = gate.token(key.0, stream);
        }
        entry.receive(News { event, raw, outdated, indexed: false }, has_spies);
        let ready = Ready { kind: key.0, uid, since: self.inner.clock.instant() };
        let is_live = event != EventType::Listed;
        if entry.phase == Phase::Idle && !outdated {
            entry.timer = None;
        }
        match entry.phase {
            Phase::Idle if !is_indexed && !gate.is_open() => {
                entry.phase = Phase::Gated;
                state.gated.push_back(ready);
            }
            Phase::Gated if !is_indexed => {}
            Phase::Idle | Phase::Listed | Phase::Gated if is_live => {
                entry.phase = Phase::Ready;
                state.live.push_back(ready);
            }
            Phase::Idle | Phase::Gated => {
                entry.phase = Phase::Listed;
                state.listed.push_back((ready, room));
            }
            // It is not there any more: its daemons and its traces in the indexes must not wait for the rest to end.
            Phase::Resting if event == EventType::Deleted => {
                (entry.phase, entry.timer) = (Phase::Ready, None);
                state.live.push_back(ready);
            }
            Phase::Listed | Phase::Ready | Phase::Running | Phase::Resting => {}
        }
        self.pump(state);
    }

    /// The server has gone back in its history, as after a restore of its storage: versions that were seen say nothing
    /// about those to come.
    pub fn rewind(&self, key: KindKey, stream: u64) {
        let mut state = self.inner.state();
        let entries = state.kinds.get_mut(&key.0).into_iter().flat_map(|objects| objects.entries.values_mut());
        for entry in entries.filter(|entry| entry.stream == stream) {
            match &mut entry.memory {
                Some(memory) => memory.version = None,
                None => entry.rewound = true,
            }
        }
    }

    /// A listing is over: what it has not seen, is not there any more.
    pub fn listed(&self, key: KindKey, stream: u64, listing: u64) {
        let mut state = self.inner.state();
        if let Some(objects) = state.kinds.get_mut(&key.0) {
            let kind = Arc::clone(&objects.kind);
            objects.entries.retain(|uid, entry| {
                let is_seen = entry.stream != stream || entry.listing == listing;
                // The spies are still to be told.
                let is_being_deleted = entry.news.back().is_some_and(|news| news.event == EventType::Deleted);
                entry.vanished = !is_seen;
                let is_ghost = entry.memory.as_ref().is_some_and(|memory| memory.is_ghost);
                let is_kept = is_seen || is_being_deleted || is_ghost || entry.phase == Phase::Running;
                if !is_kept {
                    self.forget(&kind, uid, std::mem::take(entry));
                }
                is_kept
            });
        }
        state.gate.listed(key.0, stream);
        self.pump(state);
    }

    /// Something has happened beside the events: the object is to be looked at again.
    pub fn nudge(&self, kind: u64, uid: &Arc<str>) {
        let mut state = self.inner.state();
        if state.phase == QueuePhase::Closing {
            return;
        }
        let entry = state.kinds.get_mut(&kind).and_then(|objects| objects.entries.get_mut(uid));
        let Some(entry) = entry else { return };
        entry.nudged = true;
        if entry.phase == Phase::Idle {
            entry.phase = Phase::Ready;
            state.live.push_back(Ready { kind, uid: Arc::clone(uid), since: self.inner.clock.instant() });
        }
        self.pump(state);
    }

    /// A namespace is not served any more.
    pub fn forget_stream(&self, key: KindKey, stream: u64) {
        self.inner.state().gate.release(key.0, Some(stream));
        self.listed(key, stream, u64::MAX);
    }

    /// Gives the running turns some time to come to their ends, then ends them; no new ones are given.
    ///
    /// What is remembered stays until [`Queue::kill`].
    pub async fn close(&self, patience: Duration) {
        self.inner.state().phase = QueuePhase::Closing;
        let depleted = async {
            loop {
                let finished = self.inner.finished.notified();
                if self.inner.state().running == 0 {
                    break;
                }
                finished.await;
            }
        };
        if self.inner.clock.timeout(patience, depleted).await.is_err() {
            let left = self.inner.state().running;
            let text = format!(
                "The operator stops while handlers are still running for {left} object(s). \
                Their outcomes are not stored; they will be called again at the next start."
            );
            self.inner.log.emit(Level::Warning, TARGET, text);
        }
        self.inner.killed.send_replace(true);
    }

    /// The memo of an object, if the object is known.
    pub fn memo_of(&self, uid: &str) -> Option<Arc<FrontSlot>> {
        let mut state = self.inner.state();
        let entry = state.kinds.values_mut().find_map(|objects| objects.entries.get_mut(uid))?;
        match &mut entry.memory {
            Some(memory) => Some(Arc::clone(memory.front.get_or_insert_default())),
            None => entry.memo.clone(),
        }
    }

    /// Ends everything at once, wherever it is.
    pub fn kill(&self) {
        self.inner.killed.send_replace(true);
        let mut state = self.inner.state();
        state.phase = QueuePhase::Closing;
        state.kinds.clear();
    }

    /// Gives turns to the objects that wait for them, as long as there are workers.
    fn pump(&self, mut state: MutexGuard<'_, State>) {
        if state.gate.opens() {
            state.open();
        }
        while state.phase == QueuePhase::Open {
            if state.seated >= WORKERS_AT_ONCE + state.more {
                return self.pump_later(&mut state);
            }
            let Ok(permit) = Arc::clone(&self.inner.seats).try_acquire_owned() else { break };
            let (ready, (kind, memory, turn)) = loop {
                let Some(ready) = state.next_ready() else { return };
                if let Some(taken) = state.take(&ready, &self.inner.log) {
                    break (ready, taken);
                }
            };
            state.running += 1;
            state.seated += 1;
            let seat = Seat { queue: self.clone(), permit: Some(permit), long_call: None };
            tokio::spawn(self.clone().work(ready, kind, memory, turn, seat));
        }
    }

    /// Goes on when those who have started are on their way, and the API still has time.
    fn pump_later(&self, state: &mut State) {
        let nobody_waits = state.live.is_empty() && state.listed.is_empty();
        if nobody_waits || std::mem::replace(&mut state.awaits_relief, true) {
            return;
        }
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            queue.inner.reactor.api.relieved().await;
            let mut state = queue.inner.state();
            state.awaits_relief = false;
            state.more = (state.seated + MORE_WORKERS).saturating_sub(WORKERS_AT_ONCE);
            queue.pump(state);
        });
    }

    /// One worker: one turn of one object.
    async fn work(
        self,
        ready: Ready,
        kind: Arc<ServedKind>,
        mut memory: Box<ObjectMemory>,
        turn: Turn,
        mut seat: Seat,
    ) {
        let mut killed = self.inner.killed.subscribe();
        // Its text is enough for a crash, which would be a bug of ours.
        let text = (!turn.outdated && !turn.only_index).then(|| Arc::clone(turn.body.raw()));
        let reacting =
            AssertUnwindSafe(self.inner.reactor.react(&kind, ready.kind, &ready.uid, &mut memory, turn, &mut seat));
        let after = tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => After::Forget,
            after = reacting.catch_unwind() => after.unwrap_or_else(|_| {
                let body = text.and_then(|text| Body::parse(text.as_ref()).ok());
                After::Throttled { delay: REST_AFTER_A_CRASH, body }
            }),
        };
        let mut state = seat.give_up();
        state.running -= 1;
        // Whoever comes after it has to show again that there is time for it.
        state.more = state.more.min(state.seated.saturating_sub(WORKERS_AT_ONCE));
        self.inner.reactor.rest.worked();
        self.settle(&mut state, &kind, ready, memory, after);
        self.pump(state);
        self.inner.finished.notify_waiters();
    }

    fn settle(&self, state: &mut State, kind: &ServedKind, ready: Ready, mut memory: Box<ObjectMemory>, after: After) {
        let gone = |mut memory: Box<ObjectMemory>| self.inner.reactor.unindex(kind, &ready.uid, &mut memory);
        let Some(objects) = state.kinds.get_mut(&ready.kind) else { return gone(memory) };
        let Some(entry) = objects.entries.get_mut(&ready.uid) else { return gone(memory) };
        entry.token = None;
        if std::mem::take(&mut entry.rewound) {
            memory.version = None;
        }
        for news in &mut entry.news {
            // What has come while our own patch was made may be the echo of it.
            let version = ObjectIdentity::from_slice(&news.raw)
                .ok()
                .and_then(|identity| version_number(identity.resource_version.as_deref()));
            news.outdated = news.event != EventType::Deleted && memory.knows(version);
        }
        if objects.kind.handlers.event_handlers.is_empty() {
            entry.news.retain(|news| !news.outdated);
        }
        let is_over = (entry.vanished && !memory.is_ghost) || matches!(after, After::Forget);
        if entry.news.is_empty() && is_over {
            objects.entries.remove(&ready.uid);
            return gone(memory);
        }
        entry.memory = Some(memory);
        entry.memo = None;
        entry.phase = Phase::Idle;
        match after {
            After::Rest | After::Forget => (entry.held, entry.timer) = (None, None),
            After::Wake { when, body } => {
                entry.held = Some(body);
                entry.timer = Some(self.wake_up(&ready, when));
            }
            After::Throttled { delay, body } => {
                entry.held = body.or(entry.held.take());
                entry.phase = Phase::Resting;
                let when = self.inner.clock.instant() + delay.min(A_YEAR);
                entry.timer = Some(self.wake_up(&ready, when));
            }
            After::Unchanged => {}
            After::Indexed if state.gate.is_open() || entry.news.back().is_some_and(|news| !news.indexed) => {}
            After::Indexed => {
                entry.phase = Phase::Gated;
                state.gated.push_back(ready);
                return;
            }
        }
        entry.rest();
        // The time of a pending body may have come while its old news were looked at.
        let is_due = entry.held.is_some() && entry.timer.is_none();
        if entry.phase == Phase::Idle && (is_due || entry.nudged || !entry.news.is_empty()) {
            entry.phase = Phase::Ready;
            state.live.push_back(ready);
        }
    }

    /// Brings the object to its turn at a later time.
    fn wake_up(&self, ready: &Ready, when: Instant) -> Timer {
        let queue = self.clone();
        let (kind, uid) = (ready.kind, Arc::clone(&ready.uid));
        let sleeping = tokio::spawn(async move {
            queue.inner.clock.sleep_until(when).await;
            let mut state = queue.inner.state();
            let entry = state.kinds.get_mut(&kind).and_then(|objects| objects.entries.get_mut(&uid));
            let Some(entry) = entry else { return };
            entry.timer = None;
            if matches!(entry.phase, Phase::Idle | Phase::Resting) {
                entry.phase = Phase::Ready;
                state.live.push_back(Ready { kind, uid, since: queue.inner.clock.instant() });
            }
            queue.pump(state);
        });
        Timer(sleeping.abort_handle())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock; and if it did, the state is still what it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handlers wait as long as it is there.
pub(crate) struct Blocker(Queue);

impl Drop for Blocker {
    fn drop(&mut self) {
        let mut state = self.0.inner.state();
        state.gate.unblock();
        self.0.pump(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_size<A, B, C, D, E, F, R>(_: impl FnOnce(A, B, C, D, E, F) -> R) -> usize {
        size_of::<R>()
    }

    /// Thousands of workers may wait for their handlers at the same time.
    #[test]
    fn the_task_of_a_worker_is_small() {
        let size = result_size(Queue::work);
        assert!(size <= 4096, "{size}");
    }
}
