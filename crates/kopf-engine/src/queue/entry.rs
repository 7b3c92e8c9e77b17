//! One object in the queue: where it is, and what waits for its turn.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use kopf_object::Body;
use kopf_reaction::EventType;
use tokio::task::AbortHandle;

use super::barrier::Token;
use crate::front::FrontSlot;
use crate::worker::ObjectMemory;
use crate::worker::Turn;

/// News that wait for one object, where all of them have to be shown to the spies.
const NEWS_AT_MOST: usize = 512;

/// One object. Most of them are at rest, and there may be many thousands of them: what they do not need then is apart.
#[derive(Default)]
pub(super) struct Entry {
    pub phase: Phase,
    /// None while a worker has it.
    pub memory: Option<Box<ObjectMemory>>,
    /// The number of the listing that has seen the object last.
    pub listing: u64,
    /// The stream (a namespace) by which the object has come last.
    pub stream: u64,
    /// None if nothing is pending: reads as an empty one.
    pending: Option<Box<Pending>>,
}

/// What waits with an object for its turn, or for the end of its turn.
pub(super) struct Pending {
    pub news: VecDeque<News>,
    /// The newest body, while something is pending with it.
    pub held: Option<Body>,
    pub timer: Option<Timer>,
    /// The memo, while a worker has the memory.
    pub memo: Option<Arc<FrontSlot>>,
    /// Held until the object is indexed for the first time.
    pub token: Option<Token>,
    /// It turned out to be not there any more while a worker had it.
    pub vanished: bool,
    /// The server has gone back in its history while a worker had it.
    pub rewound: bool,
    /// A daemon or a timer of it has ended, so that its newest body is to be looked at again.
    pub nudged: bool,
}

static NOTHING: Pending = Pending::new();

impl Pending {
    const fn new() -> Self {
        Self {
            news: VecDeque::new(),
            held: None,
            timer: None,
            memo: None,
            token: None,
            vanished: false,
            rewound: false,
            nudged: false,
        }
    }

    fn is_nothing(&self) -> bool {
        let Self { news, held, timer, memo, token, vanished, rewound, nudged } = self;
        let is_held = held.is_some() || timer.is_some() || memo.is_some() || token.is_some();
        news.is_empty() && !is_held && !vanished && !rewound && !nudged
    }
}

impl Deref for Entry {
    type Target = Pending;

    fn deref(&self) -> &Pending {
        self.pending.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Entry {
    fn deref_mut(&mut self) -> &mut Pending {
        self.pending.get_or_insert_with(|| Box::new(Pending::new()))
    }
}

/// Where an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is due.
    #[default]
    Idle,
    /// It was only listed, and waits for a worker after those with live changes.
    Listed,
    /// It waits for a worker.
    Ready,
    /// It is indexed if need be, and waits for all others to be.
    Gated,
    /// A worker has it.
    Running,
    /// It rests after an error: news are kept, but not looked at.
    Resting,
}

/// Something new about an object.
pub(super) struct News {
    pub event: EventType,
    pub raw: Bytes,
    /// Older than what is known: for the spies only.
    pub outdated: bool,
    /// It was indexed while the gate was closed.
    pub indexed: bool,
}

impl News {
    /// The turn to index it, unless that was done. What cannot be read is left to the full turn.
    pub fn turn_to_index(&mut self) -> Option<Turn> {
        if std::mem::replace(&mut self.indexed, true) {
            return None;
        }
        let body = Body::parse(self.raw.as_ref()).ok()?;
        Some(Turn { body, event: Some(self.event), outdated: self.outdated, only_index: true })
    }
}

impl Entry {
    pub fn new(memory: Box<ObjectMemory>) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    /// Nothing waits for a turn, and nothing is pending.
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle
            && self.news.is_empty()
            && self.held.is_none()
            && self.timer.is_none()
            && self.token.is_none()
            && !self.nudged
    }

    /// The body that something is pending with; or the newest one, if it is to be looked at again.
    pub fn take_held(&mut self) -> Option<Body> {
        let is_ghost = self.memory.as_ref().is_some_and(|memory| memory.is_ghost);
        let nudged = std::mem::take(&mut self.nudged) && !(is_ghost && self.held.is_some());
        let newest = || self.memory.as_ref()?.background.as_ref()?.newest();
        let newest = if nudged { newest() } else { None };
        let held = self.held.take();
        newest.or(held)
    }

    pub fn receive(&mut self, news: News, has_spies: bool) {
        if !has_spies {
            // The newest wins; but nothing comes after a deletion.
            self.news.clear();
        } else if self.news.len() >= NEWS_AT_MOST {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    /// Gives up the room for what is pending, if nothing is.
    pub fn rest(&mut self) {
        if self.is_nothing() {
            self.pending = None;
        }
    }
}

/// A pending wake-up; dropped, it does not come.
pub(super) struct Timer(pub AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_at_rest_is_small() {
        let mut entry = Entry::default();
        let raw = Bytes::from_static(b"{}");
        entry.receive(News { event: EventType::Modified, raw, outdated: false, indexed: false }, true);
        entry.rest();
        assert_eq!(entry.news.len(), 1);
        entry.news.pop_front();
        entry.rest();
        assert!(entry.pending.is_none() && entry.news.is_empty());
        assert!(size_of::<Entry>() <= 40, "{}", size_of::<Entry>());
        assert!(size_of::<ObjectMemory>() <= 64, "{}", size_of::<ObjectMemory>());
    }
}
