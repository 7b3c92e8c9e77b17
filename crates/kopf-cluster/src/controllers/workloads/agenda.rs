//! What the driver has to look at: now, and later.
//!
//! A key is there once, however often it is called for, so the agenda is never longer than the
//! number of objects. It is plain data; the driver brings the time.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::store::Place;

/// An object that a controller looks after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub place: Place,
}

/// The kinds with a controller, in the order in which they are looked at: what is owned comes before
/// its owners, so that many changes of pods are one change for their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Node,
    Claim,
    Volume,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
    Deployment,
    CronJob,
    Service,
    Budget,
}

#[derive(Debug, Default)]
pub struct Agenda {
    /// To be looked at in the next round.
    pending: BTreeSet<Key>,
    /// To be looked at when their times have come.
    alarms: BTreeSet<(Timestamp, Key)>,
    /// The alarm of each key.
    alarm_of: HashMap<Key, Timestamp>,
}

impl Agenda {
    /// Looks at an object in the next round.
    pub fn call(&mut self, key: Key) {
        self.pending.insert(key);
    }

    /// All that is to be looked at now, in order.
    pub fn take_round(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.pending)
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Looks at an object again at a time, or only when it is called for.
    pub fn set_alarm(&mut self, key: &Key, time: Option<Timestamp>) {
        if let Some(known) = self.alarm_of.remove(key) {
            self.alarms.remove(&(known, key.clone()));
        }
        if let Some(time) = time {
            self.alarms.insert((time, key.clone()));
            self.alarm_of.insert(key.clone(), time);
        }
    }

    /// When the next alarm is due.
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(time, _)| *time)
    }

    /// Calls for everything whose alarm is due by a time.
    pub fn ring(&mut self, until: Timestamp) {
        while let Some((time, _)) = self.alarms.first().filter(|(time, _)| *time <= until) {
            let time = *time;
            let Some((_, key)) = self.alarms.pop_first() else { return };
            debug_assert_eq!(self.alarm_of.get(&key), Some(&time));
            self.alarm_of.remove(&key);
            self.pending.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, name: &str) -> Key {
        Key { kind, place: Place::new("default", name) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_round_has_everything_once_and_in_order() {
        let mut agenda = Agenda::default();
        for _ in 0..3 {
            agenda.call(key(Kind::Deployment, "a"));
            agenda.call(key(Kind::Pod, "z"));
        }
        let round: Vec<Key> = agenda.take_round().into_iter().collect();
        assert_eq!(round, [key(Kind::Pod, "z"), key(Kind::Deployment, "a")]);
        assert!(!agenda.has_pending());
    }

    #[test]
    fn the_last_alarm_counts() {
        let mut agenda = Agenda::default();
        let pod = key(Kind::Pod, "a");
        agenda.set_alarm(&pod, Some(at(10)));
        agenda.set_alarm(&pod, Some(at(20)));
        agenda.set_alarm(&key(Kind::Pod, "b"), Some(at(15)));
        assert_eq!(agenda.next_alarm(), Some(at(15)));
        agenda.ring(at(15));
        assert_eq!(agenda.take_round().len(), 1);
        agenda.set_alarm(&pod, None);
        assert_eq!(agenda.next_alarm(), None);
        agenda.ring(at(99));
        assert!(!agenda.has_pending());
    }
}
