//! One object in the queue: its phase, and what waits for its next pass.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kopf_object::Body;
use kopf_reaction::EventType;
use tokio::task::AbortHandle;

use super::Origin;
use super::barrier::Token;
use crate::front::FrontSlot;
use crate::worker::{ObjectMemory, Pass};

/// Events that wait for one object, if event handlers must see all of them.
const EVENTS_AT_MOST: usize = 512;

/// One object. Most objects are idle, and there may be many thousands of them: what idle objects do not need is apart.
#[derive(Default)]
pub(super) struct QueueEntry {
    pub phase: EntryPhase,
    /// None while a worker has it.
    pub memory: Option<Box<ObjectMemory>>,
    /// The number of the listing that has shown the object last.
    pub listing: u64,
    /// The stream (a namespace) by which the object has come last.
    pub stream: u64,
    /// None if nothing is pending.
    pending: Option<Box<Pending>>,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EntryPhase {
    /// Nothing is due.
    #[default]
    Idle,
    /// It was only listed, and waits for a worker after the objects with live changes.
    Listed,
    /// It waits for a worker.
    Ready,
    /// It waits for the readiness barrier; it is indexed, if its resource is.
    Blocked,
    /// A worker has it.
    Running,
    /// It pauses after an error: events are kept, but not looked at.
    Throttled,
}

/// What waits with an object for its next pass, or for the end of the current one.
pub(super) struct Pending {
    pub events: VecDeque<PendingEvent>,
    /// The latest body, while something is pending with it.
    pub held: Option<Body>,
    pub timer: Option<WakeUp>,
    /// The memo, while a worker has the memory.
    pub memo: Option<Arc<FrontSlot>>,
    /// Held until the object is indexed for the first time.
    pub token: Option<Token>,
    /// A listing has shown that the object is gone while a worker had it.
    pub vanished: bool,
    /// The server has gone back in its history while a worker had the object.
    pub rewound: bool,
    /// The object needs another pass with its latest body, e.g. because one of its daemons or timers has ended.
    pub requeued: bool,
}

/// An event that waits for the next pass.
pub(super) struct PendingEvent {
    pub event: EventType,
    pub raw: Bytes,
    /// Older than what is known: for the event handlers only.
    pub outdated: bool,
    /// The object was indexed by this event while handlers had to wait.
    pub indexed: bool,
}

static NOTHING: Pending = Pending::new();

impl QueueEntry {
    pub(super) fn new(memory: Box<ObjectMemory>) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    /// What is pending, to look at.
    pub(super) fn pending(&self) -> &Pending {
        self.pending.as_deref().unwrap_or(&NOTHING)
    }

    /// What is pending, to add something to it. It allocates if nothing was pending.
    pub(super) fn pending_mut(&mut self) -> &mut Pending {
        self.pending.get_or_insert_with(|| Box::new(Pending::new()))
    }

    /// What is pending, to remove something from it; None if nothing is pending.
    pub(super) fn pending_if_any(&mut self) -> Option<&mut Pending> {
        self.pending.as_deref_mut()
    }

    /// Frees the memory for what is pending, if nothing is.
    pub(super) fn shrink(&mut self) {
        if self.pending().is_nothing() {
            self.pending = None;
        }
    }

    /// Nothing waits for a pass.
    pub(super) fn is_idle(&self) -> bool {
        let Pending { events, held, timer, token, requeued, .. } = self.pending();
        self.phase == EntryPhase::Idle
            && events.is_empty()
            && held.is_none()
            && timer.is_none()
            && token.is_none()
            && !requeued
    }

    /// A listing or a watch has shown the object.
    pub(super) fn seen_by(&mut self, origin: Origin) {
        (self.stream, self.listing) = (origin.stream, origin.listing);
        self.set_vanished(false);
    }

    /// Writes only what has changed: for most objects, nothing is pending.
    pub(super) fn set_vanished(&mut self, vanished: bool) {
        if self.pending().vanished != vanished {
            self.pending_mut().vanished = vanished;
        }
    }

    /// The body that something is pending with; or the latest one, if the object is requeued.
    pub(super) fn take_held(&mut self) -> Option<Body> {
        let memory = self.memory.as_ref();
        let is_gone = memory.is_some_and(|memory| memory.is_gone);
        let pending = self.pending.as_deref_mut()?;
        let requeued = std::mem::take(&mut pending.requeued) && !(is_gone && pending.held.is_some());
        let latest = || memory?.background.as_ref()?.latest();
        let latest = if requeued { latest() } else { None };
        let held = pending.held.take();
        latest.or(held)
    }
}

impl Pending {
    const fn new() -> Self {
        Self {
            events: VecDeque::new(),
            held: None,
            timer: None,
            memo: None,
            token: None,
            vanished: false,
            rewound: false,
            requeued: false,
        }
    }

    fn is_nothing(&self) -> bool {
        let Self { events, held, timer, memo, token, vanished, rewound, requeued } = self;
        let is_held = held.is_some() || timer.is_some() || memo.is_some() || token.is_some();
        events.is_empty() && !is_held && !vanished && !rewound && !requeued
    }

    pub(super) fn receive(&mut self, event: PendingEvent, has_event_handlers: bool) {
        if !has_event_handlers {
            // The latest wins; but nothing comes after a deletion.
            self.events.clear();
        } else if self.events.len() >= EVENTS_AT_MOST {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl PendingEvent {
    /// The pass to index the object, unless that was done. An unreadable object is left to the full pass.
    pub(super) fn pass_to_index(&mut self) -> Option<Pass> {
        if std::mem::replace(&mut self.indexed, true) {
            return None;
        }
        let body = Body::parse(self.raw.as_ref()).ok()?;
        Some(Pass { body, event: Some(self.event), outdated: self.outdated, only_index: true })
    }
}

/// A pass at a later time; dropped, it does not come.
pub(super) struct WakeUp(pub AbortHandle);

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::ResourceKey;

    #[test]
    fn an_idle_object_is_small() {
        let mut entry = QueueEntry::default();
        let raw = Bytes::from_static(b"{}");
        let event = PendingEvent { event: EventType::Modified, raw, outdated: false, indexed: false };
        entry.pending_mut().receive(event, true);
        entry.shrink();
        assert_eq!(entry.pending().events.len(), 1);
        entry.pending_mut().events.pop_front();
        entry.shrink();
        assert!(entry.pending.is_none() && entry.is_idle());
        assert!(size_of::<QueueEntry>() <= 40, "{}", size_of::<QueueEntry>());
        assert!(size_of::<ObjectMemory>() <= 64, "{}", size_of::<ObjectMemory>());
    }

    #[test]
    fn an_idle_object_stays_small_when_it_is_seen_again() {
        let mut entry = QueueEntry::new(Box::default());
        entry.seen_by(Origin { resource: ResourceKey::new(1), stream: 2, listing: 3 });
        entry.set_vanished(false);
        assert!(entry.take_held().is_none());
        assert!(entry.pending.is_none(), "{} bytes for nothing", size_of::<Pending>());
        assert_eq!((entry.stream, entry.listing), (2, 3));
        entry.set_vanished(true);
        assert!(entry.pending().vanished);
    }
}
