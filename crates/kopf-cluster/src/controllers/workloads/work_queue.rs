//! What the driver has to look at: now, and later.
//!
//! A key is there once, however often it is called for, so the work queue is never longer than the
//! number of objects. It is plain data; the driver brings the time.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::store::ObjectKey;

/// An object that a controller looks after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkItem {
    pub kind: WorkKind,
    pub object_key: ObjectKey,
}

/// The kinds with a controller, in the order in which they are looked at: what is owned comes before
/// its owners, so that many changes of pods are one change for their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum WorkKind {
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
pub(super) struct WorkQueue {
    /// To be looked at in the next round.
    pending: BTreeSet<WorkItem>,
    /// To be looked at when their times have come.
    alarms: BTreeSet<(Timestamp, WorkItem)>,
    /// The alarm of each key.
    alarm_of: HashMap<WorkItem, Timestamp>,
}

impl WorkQueue {
    /// Looks at an object in the next round.
    pub(super) fn call(&mut self, key: WorkItem) {
        self.pending.insert(key);
    }

    /// All that is to be looked at now, in order.
    pub(super) fn take_round(&mut self) -> BTreeSet<WorkItem> {
        std::mem::take(&mut self.pending)
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Looks at an object again at a time, or only when it is called for.
    pub(super) fn set_alarm(&mut self, key: &WorkItem, time: Option<Timestamp>) {
        if let Some(known) = self.alarm_of.remove(key) {
            self.alarms.remove(&(known, key.clone()));
        }
        if let Some(time) = time {
            self.alarms.insert((time, key.clone()));
            self.alarm_of.insert(key.clone(), time);
        }
    }

    /// When the next alarm is due.
    pub(super) fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(time, _)| *time)
    }

    /// Calls for everything whose alarm is due by a time.
    pub(super) fn ring(&mut self, until: Timestamp) {
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

    fn key(kind: WorkKind, name: &str) -> WorkItem {
        WorkItem { kind, object_key: ObjectKey::new("default", name) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_round_has_everything_once_and_in_order() {
        let mut work_queue = WorkQueue::default();
        for _ in 0..3 {
            work_queue.call(key(WorkKind::Deployment, "a"));
            work_queue.call(key(WorkKind::Pod, "z"));
        }
        let round: Vec<WorkItem> = work_queue.take_round().into_iter().collect();
        assert_eq!(round, [key(WorkKind::Pod, "z"), key(WorkKind::Deployment, "a")]);
        assert!(!work_queue.has_pending());
    }

    #[test]
    fn the_last_alarm_counts() {
        let mut work_queue = WorkQueue::default();
        let pod = key(WorkKind::Pod, "a");
        work_queue.set_alarm(&pod, Some(at(10)));
        work_queue.set_alarm(&pod, Some(at(20)));
        work_queue.set_alarm(&key(WorkKind::Pod, "b"), Some(at(15)));
        assert_eq!(work_queue.next_alarm(), Some(at(15)));
        work_queue.ring(at(15));
        assert_eq!(work_queue.take_round().len(), 1);
        work_queue.set_alarm(&pod, None);
        assert_eq!(work_queue.next_alarm(), None);
        work_queue.ring(at(99));
        assert!(!work_queue.has_pending());
    }
}
