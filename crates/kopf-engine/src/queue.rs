//! 3. From the streams of events to the workers: one pass at a time per object, few workers for all objects.
//!
//! While a worker has an object, its events wait, and the latest wins (unless event handlers must see each of them).
//! Live changes go before listed objects. Everything is bounded: the workers that decide and patch by a limit, the workers
//! that wait for their handlers by the bytes of their objects, the events per object by a limit, the listed objects by
//! their bytes: a listing waits for its budget. The number of handlers that wait is limited only by the settings.

mod sink;
mod entry;
mod barrier;
mod state;
mod dispatch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use kopf_object::ObjectIdentity;
use kopf_reaction::{EventType, Severity};
use tokio::sync::{Notify, Semaphore, watch};

use self::entry::{EntryPhase, PendingEvent, QueueEntry};
use self::state::{ListingPermit, Objects, QueuePhase, Ready, State};
use crate::Api;
use crate::background::Requeue;
use crate::calls::WorkerLimits;
use crate::front::FrontSlot;
use crate::metrics::QueueFigures;
use crate::support::{Clock, Log, ObjectKey, ResourceKey, version_number};
use crate::worker::{ObjectMemory, Reactor, ServedResource};

pub(crate) use sink::QueueSink;

const TARGET: &str = "kopf.engine.queue";

/// Of each resource, listed objects that wait for their passes, in bytes: some hundred usual ones. Without a limit, all of
/// them would be in memory at once; with too small a limit, live changes would wait for most of them to be handled.
const LISTED_BYTES_AT_MOST: u32 = 512 * 1024;

/// The queue of one operator. Clones share it.
#[derive(Clone)]
pub(crate) struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    reactor: Arc<Reactor>,
    api: Api,
    clock: Clock,
    log: Log,
    workers: WorkerLimits,
    state: Mutex<State>,
    /// A worker has come to its end.
    finished: Notify,
    /// Whether the workers must stop at once, wherever they are.
    killed: watch::Sender<bool>,
}

/// The queue, if it is still there.
#[derive(Clone)]
pub(crate) struct WeakQueue(Weak<Inner>);

impl WeakQueue {
    pub(crate) fn upgrade(&self) -> Option<Queue> {
        self.0.upgrade().map(|inner| Queue { inner })
    }
}

impl Requeue for WeakQueue {
    fn requeue(&self, object: &ObjectKey) {
        if let Some(queue) = self.upgrade() {
            queue.requeue(object);
        }
    }
}

/// What the handlers wait for when a stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// For its objects to be indexed, if the resource is.
    Index,
    /// For all its objects: what is known of them is outdated.
    Objects,
}

/// By which listing or watch an event has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub resource: ResourceKey,
    /// One stream per namespace.
    pub stream: u64,
    /// How often the stream has listed its objects so far.
    pub listing: u64,
}

impl Queue {
    /// The reactor gets the way back into the queue.
    pub(crate) fn new(
        api: Api,
        clock: Clock,
        log: Log,
        worker_limit: Option<usize>,
        make_reactor: impl FnOnce(WeakQueue) -> Arc<Reactor>,
    ) -> Self {
        let inner = Arc::new_cyclic(|queue| Inner {
            reactor: make_reactor(WeakQueue(Weak::clone(queue))),
            api,
            clock,
            log,
            workers: WorkerLimits::new(worker_limit),
            state: Mutex::default(),
            finished: Notify::new(),
            killed: watch::Sender::new(false),
        });
        Self { inner }
    }

    pub(crate) fn add_resource(&self, served: Arc<ServedResource>) -> ResourceKey {
        let mut state = self.inner.state();
        let key = ResourceKey::new(state.next_resource);
        state.next_resource += 1;
        let budget = Arc::new(Semaphore::new(LISTED_BYTES_AT_MOST as usize));
        state.resources.insert(key, Objects { served, entries: HashMap::new(), budget });
        key
    }

    /// The resource is served in another way from now on; the queue still remembers its objects.
    pub(crate) fn replace_resource(&self, key: ResourceKey, served: Arc<ServedResource>) {
        if let Some(objects) = self.inner.state().resources.get_mut(&key) {
            objects.served = served;
        }
    }

    /// The resource is not served any more: its objects are forgotten after their passes.
    pub(crate) fn remove_resource(&self, key: ResourceKey) {
        let mut state = self.inner.state();
        if let Some(objects) = state.resources.remove(&key) {
            for (uid, entry) in objects.entries {
                self.forget(&objects.served, &uid, entry);
            }
        }
        state.barrier.release(key, None);
        self.dispatch(state);
    }

    /// No handlers are called until the blocker is dropped: streams are being started.
    pub(crate) fn block(&self) -> Blocker {
        self.inner.state().barrier.block();
        Blocker(self.clone())
    }

    /// The stream is about to start: handlers wait for what its first listing brings.
    pub(crate) fn expect(&self, key: ResourceKey, stream: u64, what: Expected) {
        let mut state = self.inner.state();
        let Some(objects) = state.resources.get(&key) else { return };
        let is_indexed = !objects.served.handlers.index_handlers.is_empty();
        let is_outdated = what == Expected::Objects && !objects.entries.is_empty();
        if is_indexed || is_outdated {
            state.barrier.hold(key, stream);
        }
    }

    /// How full it is, for the metrics.
    pub(crate) fn figures(&self) -> QueueFigures {
        let now = self.inner.clock.instant();
        let state = self.inner.state();
        let oldest = [state.live.front(), state.listed.front().map(|(ready, _)| ready)].into_iter().flatten();
        let oldest =
            oldest.map(|ready| ready.since).min().map(|since| now.saturating_duration_since(since).as_secs_f64());
        QueueFigures {
            waiting: state.live.len() + state.listed.len(),
            blocked: state.blocked.len(),
            running: state.running,
            objects: state.resources.values().map(|objects| objects.entries.len()).sum(),
            oldest_seconds: oldest.unwrap_or_default(),
            closed: !state.barrier.is_open(),
        }
    }

    /// For those who look at it without keeping it.
    pub(crate) fn downgrade(&self) -> WeakQueue {
        WeakQueue(Arc::downgrade(&self.inner))
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.inner.reactor
    }

    /// What is left of an object that is not served any more.
    fn forget(&self, served: &ServedResource, uid: &Arc<str>, entry: QueueEntry) {
        if let Some(mut memory) = entry.memory {
            self.inner.reactor.unindex(served, uid, &mut memory);
        }
    }

    /// Waits for the budget of a listed object. There is no limit as long as handlers must wait, because they may wait for
    /// the end of this very listing.
    pub(crate) async fn listing_budget(&self, key: ResourceKey, size: usize) -> Option<ListingPermit> {
        let budget = {
            let state = self.inner.state();
            let objects = state.resources.get(&key)?;
            state.barrier.is_open().then(|| Arc::clone(&objects.budget))?
        };
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(LISTED_BYTES_AT_MOST);
        // The semaphores are never closed: an error cannot happen, and would only lift the limit.
        budget.acquire_many_owned(size).await.ok()
    }

    /// An object was listed, or something has happened to it.
    pub(crate) fn push(&self, origin: Origin, event: EventType, raw: Bytes, permit: Option<ListingPermit>) {
        let identity = match ObjectIdentity::from_slice(&raw) {
            Ok(identity) => identity,
            Err(error) => {
                let text = format!("An object without an identity is skipped: {error}");
                self.inner.log.emit(Severity::Error, TARGET, text);
                return;
            }
        };
        let version = version_number(identity.resource_version.as_deref());
        let uid = identity.object_uid;
        let mut state = self.inner.state();
        if state.phase == QueuePhase::Closing {
            return;
        }
        let State { resources, barrier, .. } = &mut *state;
        let Some(objects) = resources.get_mut(&origin.resource) else { return };
        let is_indexed = !objects.served.handlers.index_handlers.is_empty();
        let has_event_handlers = !objects.served.handlers.event_handlers.is_empty();
        // All that refers to the object shares one text of its uid.
        let known_uid = objects.entries.get_key_value(uid.as_ref()).map(|(uid, _)| Arc::clone(uid));
        if known_uid.is_none() && event == EventType::Deleted && !has_event_handlers {
            return;
        }
        let uid = known_uid.unwrap_or_else(|| Arc::from(uid.as_ref()));
        let entry = objects.entries.entry(Arc::clone(&uid)).or_insert_with(|| {
            let noticed_by_listing = event == EventType::Listed;
            QueueEntry::new(Box::new(ObjectMemory { noticed_by_listing, ..ObjectMemory::default() }))
        });
        entry.seen_by(origin);
        let known = entry.memory.as_ref().is_some_and(|memory| memory.knows(version));
        let outdated = known && event != EventType::Deleted;
        if outdated && !has_event_handlers {
            return;
        }
        if event != EventType::Deleted
            && entry.is_idle()
            && let Some(memory) = entry.memory.as_mut()
            && self.inner.reactor.is_up_to_date(&objects.served, memory, &raw)
        {
            memory.saw(version);
            self.inner.reactor.idle.note_work();
            return;
        }
        let pending = entry.pending_mut();
        if is_indexed && !outdated {
            pending.token = barrier.token(origin.resource, origin.stream);
        }
        pending.receive(PendingEvent { event, raw, outdated, indexed: false }, has_event_handlers);
        if entry.phase == EntryPhase::Idle && !outdated {
            entry.pending_mut().timer = None;
        }
        let key = ObjectKey { resource: origin.resource, uid };
        let ready = Ready { key, since: self.inner.clock.instant() };
        let is_live = event != EventType::Listed;
        match entry.phase {
            EntryPhase::Idle if !is_indexed && !barrier.is_open() => {
                entry.phase = EntryPhase::Blocked;
                state.blocked.push_back(ready);
            }
            EntryPhase::Blocked if !is_indexed => {}
            EntryPhase::Idle | EntryPhase::Listed | EntryPhase::Blocked if is_live => {
                entry.phase = EntryPhase::Ready;
                state.live.push_back(ready);
            }
            EntryPhase::Idle | EntryPhase::Blocked => {
                entry.phase = EntryPhase::Listed;
                state.listed.push_back((ready, permit));
            }
            // The object is gone: its daemons and its values in the indexes must not wait for the end of the pause.
            EntryPhase::Throttled if event == EventType::Deleted => {
                entry.phase = EntryPhase::Ready;
                entry.pending_mut().timer = None;
                state.live.push_back(ready);
            }
            EntryPhase::Listed | EntryPhase::Ready | EntryPhase::Running | EntryPhase::Throttled => {}
        }
        self.dispatch(state);
    }

    /// The server has gone back in its history, as after a restore of its storage: versions that were seen say nothing
    /// about those to come.
    pub(crate) fn rewind(&self, key: ResourceKey, stream: u64) {
        let mut state = self.inner.state();
        let entries = state.resources.get_mut(&key).into_iter().flat_map(|objects| objects.entries.values_mut());
        for entry in entries.filter(|entry| entry.stream == stream) {
            match &mut entry.memory {
                Some(memory) => memory.version = None,
                None => entry.pending_mut().rewound = true,
            }
        }
    }

    /// A listing is over: objects that it has not shown are gone.
    pub(crate) fn list_done(&self, origin: Origin) {
        let mut state = self.inner.state();
        if let Some(objects) = state.resources.get_mut(&origin.resource) {
            let served = Arc::clone(&objects.served);
            objects.list_done(origin, |uid, entry| self.forget(&served, uid, entry));
        }
        state.barrier.listed(origin.resource, origin.stream);
        self.dispatch(state);
    }

    /// Brings the object to its next pass although no event has come.
    pub(crate) fn requeue(&self, object: &ObjectKey) {
        let mut state = self.inner.state();
        if state.phase == QueuePhase::Closing {
            return;
        }
        let Some(entry) = state.entry(object) else { return };
        entry.pending_mut().requeued = true;
        if entry.phase == EntryPhase::Idle {
            entry.phase = EntryPhase::Ready;
            state.live.push_back(Ready { key: object.clone(), since: self.inner.clock.instant() });
        }
        self.dispatch(state);
    }

    /// A namespace is not served any more.
    pub(crate) fn forget_stream(&self, resource: ResourceKey, stream: u64) {
        self.inner.state().barrier.release(resource, Some(stream));
        self.list_done(Origin { resource, stream, listing: u64::MAX });
    }

    /// Gives the running passes some time to finish, then ends them; no new ones start.
    ///
    /// The queue remembers the objects until [`Queue::kill`].
    pub(crate) async fn close(&self, patience: Duration) {
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
            self.inner.log.emit(Severity::Warning, TARGET, text);
        }
        self.inner.killed.send_replace(true);
    }

    /// The memo of an object, if the object is known.
    pub(crate) fn memo_of(&self, uid: &str) -> Option<Arc<FrontSlot>> {
        let mut state = self.inner.state();
        let entry = state.resources.values_mut().find_map(|objects| objects.entries.get_mut(uid))?;
        match &mut entry.memory {
            Some(memory) => Some(Arc::clone(memory.front.get_or_insert_default())),
            None => entry.pending().memo.clone(),
        }
    }

    /// Ends everything at once, wherever it is.
    pub(crate) fn kill(&self) {
        self.inner.killed.send_replace(true);
        let mut state = self.inner.state();
        state.phase = QueuePhase::Closing;
        state.resources.clear();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock; and if it did, the state is still what it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handlers wait while it exists.
pub(crate) struct Blocker(Queue);

impl Drop for Blocker {
    fn drop(&mut self) {
        let mut state = self.0.inner.state();
        state.barrier.unblock();
        self.0.dispatch(state);
    }
}
