//! Follows the changes of the store, and lets the controllers act on them.
//!
//! One task per cluster, started by the first request and ended with the cluster. It works in
//! rounds: everything that has changed is looked at once, pods before their owners, so that a
//! thousand changes of pods are one change for their deployment. When nothing has changed it sleeps
//! until the next alarm. Time that was leapt over is lived through alarm by alarm.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::affected::{FOLLOWED, ObjectIndex};
use super::execute::{EventBudget, execute, execute_all};
use super::inputs;
use super::objects::{text, time};
use super::plan::{Action, Api, EVENTS, PODS};
use super::work_queue::{WorkItem, WorkKind, WorkQueue};
use crate::state::State;
use crate::store::{Change, Event, Stored};
use crate::support::clock::later;
use crate::support::options::Workloads;

/// How many events are read at a time.
const PORTION: usize = 1024;
/// After this many objects, the driver yields to other tasks.
const BREATH: usize = 16;
/// Alarms within this time are one, so that many pods that get ready together are one change.
const GRAIN: Duration = Duration::from_millis(20);
/// Alarms that are later than this were leapt over.
const LEAP: Duration = Duration::from_secs(1);
/// How many passes belong to one moment at most while the driver catches up with an advanced clock.
const ROUNDS_PER_MOMENT: usize = 100;
/// How long to wait after an error, doubled with each.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const RETRY_DOUBLINGS: u32 = 9;
/// Reconciling an owner of many objects takes time. The driver waits this many times as long before it does so again.
const PAUSE_FACTOR: u32 = 4;
const SHORT: Duration = Duration::from_millis(2);
/// Events are kept for this long.
const EVENT_AGE: Duration = Duration::from_secs(3600);

/// Makes sure that the driver of a cluster runs. It costs nothing if it does.
pub(crate) fn start(state: &Arc<State>) {
    if state.options.workloads.is_none() || state.workloads_run.load(Ordering::Relaxed) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if state.workloads_run.swap(true, Ordering::AcqRel) {
        return;
    }
    let running = Running(Arc::downgrade(state));
    runtime.spawn(async move {
        run(&running.0).await;
        drop(running);
    });
}

/// If the runtime goes away before the cluster, the next request starts another driver.
struct Running(Weak<State>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            state.workloads_run.store(false, Ordering::Release);
        }
    }
}

async fn run(cluster: &Weak<State>) {
    let Some(mut driver) = cluster.upgrade().map(|state| Driver::new(&state)) else { return };
    loop {
        // The cluster is only held while there is something to do.
        let (pause, mut leapt) = {
            let Some(state) = cluster.upgrade() else { return };
            let leapt = state.clock().leaps();
            (driver.work(&state).await, leapt)
        };
        let changes = driver.followed.iter_mut().map(|followed| Box::pin(followed.changed.changed()));
        let change = futures::future::select_all(changes);
        let pause = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (changed, ..) = change => if changed.is_err() { return },
            () = pause => {}
            leap = leapt.changed() => if leap.is_err() { return },
        }
    }
}

/// A resource whose changes are followed.
struct Followed {
    api: Api,
    kind: Option<WorkKind>,
    storage: Arc<str>,
    changed: watch::Receiver<u64>,
    /// Everything up to this version has been seen.
    position: u64,
}

struct Driver {
    followed: Vec<Followed>,
    memory: ObjectIndex,
    work_queue: WorkQueue,
    workloads: Workloads,
    /// Limits the events per object.
    notes: EventBudget,
    /// How often in a row the server rejected the writes for an object.
    refusals: HashMap<WorkItem, u32>,
    /// The items that the driver does not reconcile before a time.
    paused_until: HashMap<WorkItem, Timestamp>,
    /// When old events are to be removed.
    sweep: Timestamp,
    /// The time up to which the alarms have rung.
    now: Timestamp,
}

impl Driver {
    fn new(state: &State) -> Self {
        let mut driver = Self {
            followed: Vec::new(),
            memory: ObjectIndex::default(),
            work_queue: WorkQueue::default(),
            workloads: state.options.workloads.clone().unwrap_or_default(),
            notes: EventBudget::default(),
            refusals: HashMap::new(),
            paused_until: HashMap::new(),
            sweep: later(state.now(), EVENT_AGE),
            now: state.now(),
        };
        for (api, kind) in FOLLOWED {
            let Some(resource) = state.built_in(api.group, api.version, api.plural) else { continue };
            let storage = Arc::clone(&resource.storage);
            let changed = state.store().subscribe(&storage);
            driver.followed.push(Followed { api, kind, storage, changed, position: 0 });
        }
        driver.look_at_everything(state);
        driver
    }

    /// Reconciles everything that is due; returns the time until the next timer, if there is one.
    async fn work(&mut self, state: &Arc<State>) -> Option<Duration> {
        let mut rounds = 0;
        loop {
            self.follow(state);
            let clock = state.now();
            let next = self.work_queue.next_alarm();
            let leapt = next.is_some_and(|alarm| later(alarm, LEAP) < clock);
            if !leapt {
                self.now = clock.max(self.now);
            } else if !self.work_queue.has_pending() || rounds >= ROUNDS_PER_MOMENT {
                rounds = 0;
                self.now = next.map_or(self.now, |alarm| later(alarm, GRAIN)).clamp(self.now.min(clock), clock);
            }
            self.work_queue.ring(self.now);
            if self.sweep <= self.now {
                self.sweep = later(self.now, EVENT_AGE);
                remove_old_events(state, self.now);
            }
            if !self.work_queue.has_pending() {
                let pause = self.work_queue.next_alarm()?.duration_since(state.now());
                return Some(Duration::try_from(pause).unwrap_or_default().max(GRAIN.min(self.grain())));
            }
            rounds += 1;
            for (index, key) in self.work_queue.take_round().into_iter().enumerate() {
                if index % BREATH == BREATH - 1 {
                    tokio::task::yield_now().await;
                }
                self.look_at(state, &key);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Pauses shorter than this are not worth waking up for.
    fn grain(&self) -> Duration {
        self.workloads.ready_delay.min(GRAIN) / 4
    }

    /// Lets a controller act on an object.
    fn look_at(&mut self, state: &Arc<State>, key: &WorkItem) {
        if let Some(end) = self.paused_until.remove(key).filter(|end| *end > self.now) {
            self.paused_until.insert(key.clone(), end);
            self.work_queue.set_alarm(key, Some(end));
            return;
        }
        let begun = tokio::time::Instant::now();
        let Some(plan) = inputs::plan(state, &mut self.memory, &self.workloads, key, self.now) else {
            self.work_queue.set_alarm(key, None);
            self.refusals.remove(key);
            return;
        };
        let took = begun.elapsed();
        if took > SHORT {
            self.paused_until.insert(key.clone(), later(self.now, took * PAUSE_FACTOR));
        }
        let wake = plan.wake;
        match execute_all(state, &mut self.notes, plan) {
            Ok(()) => {
                self.refusals.remove(key);
                self.work_queue.set_alarm(key, wake);
            }
            Err(_) => {
                // Usually another client changed the object first. Retry in any case.
                let refusals = self.refusals.entry(key.clone()).or_default();
                let retry = later(self.now, FIRST_RETRY * 2_u32.pow((*refusals).min(RETRY_DOUBLINGS)));
                *refusals += 1;
                self.work_queue.set_alarm(key, Some(wake.map_or(retry, |wake| wake.min(retry))));
            }
        }
    }

    /// Reads the events since the last time.
    fn follow(&mut self, state: &State) {
        let mut lost = false;
        for index in 0..self.followed.len() {
            loop {
                let followed = &mut self.followed[index];
                followed.changed.borrow_and_update();
                let events = state.store().events_after(&followed.storage, followed.position, PORTION);
                let Ok(events) = events else {
                    lost = true;
                    break;
                };
                let (api, kind) = (followed.api, followed.kind);
                let Some(last) = events.last() else { break };
                followed.position = last.object.version;
                for event in &events {
                    self.tell(api, kind, event);
                }
            }
        }
        if lost {
            self.look_at_everything(state);
        }
    }

    fn tell(&mut self, api: Api, kind: Option<WorkKind>, event: &Event) {
        for key in self.memory.concerned(api, kind, event) {
            self.work_queue.call(key);
        }
    }

    /// Looks at all objects: at the start, and if the history was too short.
    fn look_at_everything(&mut self, state: &State) {
        for index in 0..self.followed.len() {
            let (objects, api, kind) = {
                let followed = &mut self.followed[index];
                let store = state.store();
                followed.position = store.version();
                (store.list(&followed.storage, None, None), followed.api, followed.kind)
            };
            for object in objects {
                if api == PODS {
                    self.learn_pod(&object);
                }
                self.tell(api, kind, &Event { change: Change::Added, object, previous: None });
            }
        }
    }

    fn learn_pod(&mut self, stored: &Stored) {
        let pod = stored.decode();
        self.memory.learn_address(&stored.object_key, text(&pod, "/status/podIP"));
    }
}

/// Events are forgotten after a while, also those of others. It happens along with other work.
fn remove_old_events(state: &Arc<State>, now: Timestamp) {
    let Some(resource) = state.built_in(EVENTS.group, EVENTS.version, EVENTS.plural) else { return };
    let events = state.store().list(&resource.storage, None, None);
    for event in events {
        let object = event.decode();
        let last = ["/lastTimestamp", "/series/lastObservedTime", "/eventTime", "/metadata/creationTimestamp"];
        let Some(last) = last.iter().find_map(|field| time(&object, field)) else { continue };
        if later(last, EVENT_AGE) <= now {
            // It may be gone already.
            let _ = execute(state, Action::Delete { api: EVENTS, object, grace_period_seconds: None });
        }
    }
}
