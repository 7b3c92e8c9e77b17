//! What the queue knows: the objects, who waits for a turn, and who is next.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kopf_object::Body;
use kopf_reaction::EventType;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::TARGET;
use super::barrier::Gate;
use super::entry::{Entry, News, Phase};
use crate::support::Lane;
use crate::worker::ObjectMemory;
use crate::worker::{ServedKind, Turn};
use crate::{Level, Log};

/// Live changes that go before a listed object which is there already.
const OVERTAKINGS_AT_MOST: usize = 8;

#[derive(Default)]
pub(super) struct State {
    pub phase: QueuePhase,
    pub kinds: HashMap<u64, Objects>,
    /// Objects with live changes, in the order of their coming.
    pub live: Lane<Ready>,
    /// Objects that were only listed, with the room that they take.
    pub listed: Lane<(Ready, Option<Room>)>,
    /// Closed as long as the indexes are not complete.
    pub gate: Gate,
    /// Objects that wait behind the gate.
    pub gated: VecDeque<Ready>,
    /// The workers, with and without seats.
    pub running: usize,
    /// The workers with seats.
    pub seated: usize,
    /// How many live changes went before listed objects since the last listed one.
    pub overtakings: usize,
    /// Beyond those that start at once.
    pub more: usize,
    /// Somebody waits for the API to have time for more of them.
    pub awaits_relief: bool,
    pub next_kind: u64,
}

/// Whether new turns are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum QueuePhase {
    #[default]
    Open,
    /// The operator stops: the running turns come to their ends, no new ones are given.
    Closing,
}

/// The objects of one kind.
pub(super) struct Objects {
    pub kind: Arc<ServedKind>,
    pub entries: HashMap<Arc<str>, Entry>,
    /// For those that were only listed.
    pub room: Arc<Semaphore>,
}

/// The room for an object that was listed, until it has its turn.
pub(crate) type Room = OwnedSemaphorePermit;

/// An object that waits for its turn.
pub(super) struct Ready {
    pub kind: u64,
    pub uid: Arc<str>,
    pub since: Instant,
}

impl State {
    /// Who comes next: live changes first, but listed objects have their share even if live changes never end.
    pub fn next_ready(&mut self) -> Option<Ready> {
        let is_listed_next = self.live.is_empty() || self.overtakings >= OVERTAKINGS_AT_MOST;
        if let Some((ready, _)) = is_listed_next.then(|| self.listed.pop_front()).flatten() {
            self.overtakings = 0;
            return Some(ready);
        }
        self.overtakings += usize::from(!self.listed.is_empty());
        self.live.pop_front()
    }

    /// What a worker needs for the turn of an object; None if there is nothing to be done.
    pub fn take(&mut self, ready: &Ready, log: &Log) -> Option<(Arc<ServedKind>, Box<ObjectMemory>, Turn)> {
        let objects = self.kinds.get_mut(&ready.kind)?;
        let entry = objects.entries.get_mut(&ready.uid)?;
        if !matches!(entry.phase, Phase::Listed | Phase::Ready) {
            // It had its turn already: it was queued twice, first as listed and then as changed.
            return None;
        }
        if !self.gate.is_open() {
            let indexed = !objects.kind.handlers.index_handlers.is_empty();
            if let Some(turn) = entry.news.back_mut().filter(|_| indexed).and_then(News::turn_to_index) {
                let memory = entry.memory.take()?;
                entry.phase = Phase::Running;
                return Some((Arc::clone(&objects.kind), memory, turn));
            }
            (entry.phase, entry.token) = (Phase::Gated, None);
            self.gated.push_back(Ready { kind: ready.kind, uid: Arc::clone(&ready.uid), since: ready.since });
            return None;
        }
        let turn = loop {
            match entry.news.pop_front() {
                None => match entry.take_held() {
                    Some(body) => break Turn { body, event: None, outdated: false, only_index: false },
                    None => {
                        entry.phase = Phase::Idle;
                        entry.rest();
                        return None;
                    }
                },
                Some(News { event, raw, outdated, .. }) => match Body::parse(raw.as_ref()) {
                    Ok(body) => {
                        // If a newer one waits behind it, then it is for the spies only, too.
                        let outdated = outdated || entry.news.iter().any(|later| !later.outdated);
                        break Turn { body, event: Some(event), outdated, only_index: false };
                    }
                    Err(error) => {
                        let text = format!(
                            "An object of {} (uid {}) cannot be read; it is skipped until it changes: {error}",
                            objects.kind.resource, ready.uid
                        );
                        log.emit(Level::Error, TARGET, text);
                    }
                },
            }
        };
        if !turn.outdated {
            entry.timer = None;
            entry.held = None;
            entry.nudged = false;
        }
        let mut memory = entry.memory.take()?;
        entry.memo = Some(Arc::clone(memory.front.get_or_insert_default()));
        entry.phase = Phase::Running;
        Some((Arc::clone(&objects.kind), memory, turn))
    }

    /// The indexes are complete: whoever has waited for that, waits for a worker now.
    pub fn open(&mut self) {
        for ready in std::mem::take(&mut self.gated) {
            let objects = self.kinds.get_mut(&ready.kind);
            let entry = objects.and_then(|objects| objects.entries.get_mut(&ready.uid));
            let Some(entry) = entry.filter(|entry| entry.phase == Phase::Gated) else { continue };
            if entry.news.front().is_some_and(|news| news.event == EventType::Listed) {
                entry.phase = Phase::Listed;
                self.listed.push_back((ready, None));
            } else {
                entry.phase = Phase::Ready;
                self.live.push_back(ready);
            }
        }
    }
}
