//! What the queue knows: the objects, those that wait for a pass, and which of them is next.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kopf_object::Body;
use kopf_reaction::{EventType, Severity};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::barrier::ReadinessBarrier;
use super::entry::{EntryPhase, PendingEvent, QueueEntry};
use super::{Origin, TARGET};
use crate::support::{Fifo, Log, ObjectKey, ResourceKey};
use crate::worker::{ObjectMemory, Pass, ServedResource};

/// Live changes that go before a listed object which waits already.
const OVERTAKINGS_AT_MOST: usize = 8;

#[derive(Default)]
pub(super) struct State {
    pub phase: QueuePhase,
    pub resources: HashMap<ResourceKey, Objects>,
    /// Objects with live changes, in the order of their coming.
    pub live: Fifo<Ready>,
    /// Objects that were only listed, each with its share of the budget.
    pub listed: Fifo<(Ready, Option<ListingPermit>)>,
    /// Closed as long as the indexes are not complete.
    pub barrier: ReadinessBarrier,
    /// Objects that wait for the barrier.
    pub blocked: VecDeque<Ready>,
    /// The workers, with and without permits.
    pub running: usize,
    /// The workers with permits.
    pub permitted: usize,
    /// How many live changes went before listed objects since the last listed one.
    pub overtakings: usize,
    /// Workers that may start beyond those that start at once.
    pub extra_workers: usize,
    /// A task waits until the API has capacity for more workers.
    pub awaits_capacity: bool,
    pub next_resource: u64,
}

/// Whether new passes start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum QueuePhase {
    #[default]
    Open,
    /// The operator stops: the running passes finish, no new ones start.
    Closing,
}

/// The objects of one resource.
pub(super) struct Objects {
    pub served: Arc<ServedResource>,
    pub entries: HashMap<Arc<str>, QueueEntry>,
    /// For those that were only listed.
    pub budget: Arc<Semaphore>,
}

/// The share of a listed object in the budget of its listing, until the object has its pass.
pub(crate) type ListingPermit = OwnedSemaphorePermit;

/// An object that waits for its pass.
pub(super) struct Ready {
    pub key: ObjectKey,
    pub since: Instant,
}

/// What a worker starts with.
pub(super) struct TakenObject {
    pub served: Arc<ServedResource>,
    pub memory: Box<ObjectMemory>,
    pub pass: Pass,
}

impl Objects {
    /// A listing of one stream is over: forgets the objects that it has not shown.
    pub(super) fn list_done(&mut self, origin: Origin, mut forget: impl FnMut(&Arc<str>, QueueEntry)) {
        self.entries.retain(|uid, entry| {
            let is_seen = entry.stream != origin.stream || entry.listing == origin.listing;
            // The event handlers have not seen it yet.
            let is_being_deleted = entry.pending().events.back().is_some_and(|last| last.event == EventType::Deleted);
            let is_gone = entry.memory.as_ref().is_some_and(|memory| memory.is_gone);
            let is_kept = is_seen || is_being_deleted || is_gone || entry.phase == EntryPhase::Running;
            if is_kept {
                entry.set_vanished(!is_seen);
            } else {
                forget(uid, std::mem::take(entry));
            }
            is_kept
        });
    }
}

impl State {
    pub(super) fn entry(&mut self, key: &ObjectKey) -> Option<&mut QueueEntry> {
        self.resources.get_mut(&key.resource)?.entries.get_mut(&key.uid)
    }

    /// The next object: live changes first, but listed objects have their share even if live changes never end.
    pub(super) fn next_ready(&mut self) -> Option<Ready> {
        let is_listed_next = self.live.is_empty() || self.overtakings >= OVERTAKINGS_AT_MOST;
        if let Some((ready, _)) = is_listed_next.then(|| self.listed.pop_front()).flatten() {
            self.overtakings = 0;
            return Some(ready);
        }
        self.overtakings += usize::from(!self.listed.is_empty());
        self.live.pop_front()
    }

    /// What a worker needs for the pass of an object; None if nothing is to be done.
    pub(super) fn take(&mut self, ready: &Ready, log: &Log) -> Option<TakenObject> {
        let objects = self.resources.get_mut(&ready.key.resource)?;
        let entry = objects.entries.get_mut(&ready.key.uid)?;
        if !matches!(entry.phase, EntryPhase::Listed | EntryPhase::Ready) {
            // It had its pass already: it was enqueued twice, first as listed and then as changed.
            return None;
        }
        if !self.barrier.is_open() {
            let is_indexed = !objects.served.handlers.index_handlers.is_empty();
            let last = entry.pending_if_any().and_then(|pending| pending.events.back_mut());
            if let Some(pass) = last.filter(|_| is_indexed).and_then(PendingEvent::pass_to_index) {
                let memory = entry.memory.take()?;
                entry.phase = EntryPhase::Running;
                return Some(TakenObject { served: Arc::clone(&objects.served), memory, pass });
            }
            entry.phase = EntryPhase::Blocked;
            if let Some(pending) = entry.pending_if_any() {
                pending.token = None;
            }
            self.blocked.push_back(Ready { key: ready.key.clone(), since: ready.since });
            return None;
        }
        let pass = loop {
            match entry.pending_if_any().and_then(|pending| pending.events.pop_front()) {
                None => match entry.take_held() {
                    Some(body) => break Pass { body, event: None, outdated: false, only_index: false },
                    None => {
                        entry.phase = EntryPhase::Idle;
                        entry.shrink();
                        return None;
                    }
                },
                Some(PendingEvent { event, raw, outdated, .. }) => match Body::parse(raw.as_ref()) {
                    Ok(body) => {
                        // If a newer event waits behind it, then it is for the event handlers only, too.
                        let outdated = outdated || entry.pending().events.iter().any(|later| !later.outdated);
                        break Pass { body, event: Some(event), outdated, only_index: false };
                    }
                    Err(error) => {
                        let text = format!(
                            "An object of {} (uid {}) cannot be read; it is skipped until it changes: {error}",
                            objects.served.resource, ready.key.uid
                        );
                        log.emit(Severity::Error, TARGET, text);
                    }
                },
            }
        };
        let mut memory = entry.memory.take()?;
        let pending = entry.pending_mut();
        if !pass.outdated {
            (pending.timer, pending.held, pending.requeued) = (None, None, false);
        }
        pending.memo = Some(Arc::clone(memory.front.get_or_insert_default()));
        entry.phase = EntryPhase::Running;
        Some(TakenObject { served: Arc::clone(&objects.served), memory, pass })
    }

    /// The indexes are complete: the objects that have waited for that wait for a worker now.
    pub(super) fn unblock(&mut self) {
        for ready in std::mem::take(&mut self.blocked) {
            let Some(entry) = self.entry(&ready.key).filter(|entry| entry.phase == EntryPhase::Blocked) else {
                continue;
            };
            if entry.pending().events.front().is_some_and(|first| first.event == EventType::Listed) {
                entry.phase = EntryPhase::Listed;
                self.listed.push_back((ready, None));
            } else {
                entry.phase = EntryPhase::Ready;
                self.live.push_back(ready);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kopf_reaction::{HandlerSet, Resource};

    use super::*;

    fn objects() -> Objects {
        let handlers = Arc::new(HandlerSet::from_handlers([]));
        let served = ServedResource { resource: Arc::new(Resource::default()), handlers, up_to_date: None };
        Objects { served: Arc::new(served), entries: HashMap::new(), budget: Arc::new(Semaphore::new(1)) }
    }

    /// There may be many thousands of them, and each of them is listed again and again.
    #[test]
    fn idle_objects_stay_small_after_a_relist() {
        let mut objects = objects();
        for uid in ["seen", "unseen", "elsewhere"] {
            objects.entries.insert(uid.into(), QueueEntry::new(Box::default()));
        }
        let origin = Origin { resource: ResourceKey::new(0), stream: 1, listing: 2 };
        for (uid, listing) in [("seen", 2), ("unseen", 1)] {
            objects.entries.get_mut(uid).unwrap().seen_by(Origin { listing, ..origin });
        }
        let mut forgotten = Vec::new();
        objects.list_done(origin, |uid, _| forgotten.push(uid.to_string()));
        assert_eq!(forgotten, ["unseen"]);
        for (uid, entry) in &mut objects.entries {
            assert!(entry.pending_if_any().is_none(), "{uid}");
        }
    }
}
