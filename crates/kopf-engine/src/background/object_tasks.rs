//! The background tasks of one object (its daemons and timers), and the latest body for them.
//!
//! Everything here is synchronous: it changes the state under a lock, and returns what follows from that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kopf_object::Body;
use kopf_reaction::{
    BackgroundTask, BackgroundView, CallOutcome, CallRequest, Handler, HandlerType, InitialDelay, Moment, Note,
    Resource, StopReasons, StopStep, TaskEnding, TaskPhase, TaskSettings, TaskStep,
};
use serde_json::Value;
use tokio::sync::watch;

use super::bodies::{Dictionaries, LatestBody};
use super::tick::Tick;
use crate::front::{CycleContext, FrontSlot, LiveBody};
use crate::support::{ObjectKey, ResourceKey};

/// The background tasks of one object, for as long as the queue remembers the object.
pub(super) struct ObjectTasks {
    pub resource: Arc<TasksOfResource>,
    pub uid: Arc<str>,
    /// The front's own things for the life of the object.
    pub memory: Arc<FrontSlot>,
    /// The position in [`AllObjectTasks`].
    pub place: u32,
    state: Mutex<State>,
}

/// What the objects of one resource have in common.
pub(super) struct TasksOfResource {
    pub key: ResourceKey,
    pub resource: Arc<Resource>,
    pub dictionaries: Dictionaries,
}

struct State {
    latest: LatestBody,
    /// Since when the object has not changed in what matters.
    idle_since: Tick,
    /// What the essence was then.
    essence: u64,
    tasks: Vec<TaskSlot>,
    /// The handlers that have ended on their own; usually none, which takes less memory than an empty list.
    ended: Option<Box<Ended>>,
    /// The object is not remembered any more: nobody needs to know about its tasks.
    forgotten: bool,
    /// A cycle of the object waits for its tasks to end, and needs no requeue.
    attended: bool,
    next_number: u32,
}

/// The ids of handlers.
#[derive(Default)]
struct Ended(Vec<Arc<str>>);

/// One task and its position in the schedule.
struct TaskSlot {
    task: BackgroundTask,
    /// The number of its entry in the schedule. An entry under another number is stale.
    number: u32,
    /// Whether there is such an entry.
    scheduled: bool,
    /// Notifies the function to stop, while it is called.
    stops: Option<Box<watch::Sender<StopReasons>>>,
}

/// What is to be done after a change of the state, when it is not locked any more.
#[derive(Default)]
pub(super) struct FollowUp {
    /// To be put into the schedule: when, and under which number.
    pub schedule: Vec<(Duration, u32)>,
    /// How many entries of the schedule are stale now.
    pub stale: usize,
    pub call: Option<TaskCall>,
    /// The cycle of the object must decide again.
    pub requeue: bool,
    /// Some task has ended, or was given up.
    pub ended: bool,
    pub notes: Vec<Note>,
}

/// A call to be made.
pub(super) struct TaskCall {
    pub request: CallRequest,
    pub stops: watch::Receiver<StopReasons>,
    pub live: Arc<LiveBody>,
}

/// What the tasks need from outside to decide.
#[derive(Clone, Copy)]
pub(super) struct TaskContext<'a> {
    pub now: Moment,
    pub settings: &'a TaskSettings,
    /// Returns a number in 0..1.
    pub random: &'a dyn Fn() -> f64,
}

impl ObjectTasks {
    pub(super) fn new(
        context: &CycleContext,
        resource: Arc<TasksOfResource>,
        place: u32,
        essence: u64,
        now: Moment,
    ) -> Self {
        let state = Mutex::new(State {
            latest: LatestBody::new(&context.body, &resource.dictionaries),
            idle_since: Tick::from(now.tick),
            essence,
            tasks: Vec::new(),
            ended: None,
            forgotten: false,
            attended: false,
            next_number: 0,
        });
        let (uid, memory) = (Arc::clone(&context.uid), Arc::clone(&context.memory));
        Self { resource, uid, memory, place, state }
    }

    /// How the queue knows the object.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { resource: self.resource.key, uid: Arc::clone(&self.uid) }
    }

    /// How the tasks are doing.
    pub(super) fn view(&self, paused: Option<StopReasons>) -> BackgroundView {
        let state = self.state();
        let tasks = state.tasks.iter().map(|slot| (Arc::clone(&slot.task.handler().id), slot.task.phase())).collect();
        let ended = state.ended.as_ref().map_or_else(Vec::new, |ended| ended.0.clone());
        BackgroundView { tasks, ended, paused, tracked: true }
    }

    pub(super) fn holding(&self) -> usize {
        self.state().tasks.iter().filter(|slot| slot.task.phase() != TaskPhase::Orphaned).count()
    }

    /// A cycle waits for the tasks to end, from now on or no more; returns how many hold the object.
    pub(super) fn attend(&self, attended: bool) -> usize {
        let mut state = self.state();
        state.attended = attended;
        state.tasks.iter().filter(|slot| slot.task.phase() != TaskPhase::Orphaned).count()
    }

    pub(super) fn update_body(&self, body: &Body) {
        self.state().latest.update(body, &self.resource.dictionaries);
    }

    pub(super) fn raw(&self) -> Arc<[u8]> {
        self.state().latest.raw()
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.state().forgotten
    }

    /// The essence of the object is this; if it has changed, the object is idle from now on.
    pub(super) fn essence_seen(&self, essence: u64, context: TaskContext<'_>) -> FollowUp {
        let mut follow_up = FollowUp::default();
        let mut state = self.state();
        if std::mem::replace(&mut state.essence, essence) != essence {
            state.idle_since = Tick::from(context.now.tick);
            for position in 0..state.tasks.len() {
                let slot = &state.tasks[position];
                if !slot.scheduled && slot.stops.is_none() {
                    state.schedule(position, context.now.tick, &mut follow_up);
                }
            }
        }
        follow_up
    }

    /// Adds the task of a handler, unless there is one.
    pub(super) fn start(
        &self,
        handler: &Arc<Handler>,
        initial_delay_seconds: f64,
        context: TaskContext<'_>,
    ) -> FollowUp {
        let mut follow_up = FollowUp::default();
        let mut state = self.state();
        if state.forgotten || state.tasks.iter().any(|slot| slot.task.handler().id == handler.id) {
            return follow_up;
        }
        let task = BackgroundTask::new(Arc::clone(handler), initial_delay_seconds, context.now);
        let number = state.new_number();
        // Most objects have one or two; a vector would reserve more by itself.
        state.tasks.reserve_exact(1);
        state.tasks.push(TaskSlot { task, number, scheduled: true, stops: None });
        // Even if it is due at once: the schedule cares for the limits.
        let due = context.now.tick + Duration::from_secs_f64(initial_delay_seconds.clamp(0.0, 1e9));
        follow_up.schedule.push((due, number));
        follow_up
    }

    /// Asks one task to stop, or all of them.
    pub(super) fn stop(&self, id: Option<&Arc<str>>, reason: StopReasons, context: TaskContext<'_>) -> FollowUp {
        let mut follow_up = FollowUp::default();
        let mut state = self.state();
        let wanted = |slot: &TaskSlot| id.is_none_or(|id| slot.task.handler().id == *id);
        let positions: Vec<usize> = (0..state.tasks.len()).filter(|place| wanted(&state.tasks[*place])).collect();
        for position in positions.into_iter().rev() {
            let step = state.tasks[position].task.stop(reason, context.now, context.settings, &mut follow_up.notes);
            match step {
                Some(step) => state.stopping(position, step, &mut follow_up),
                None => state.end(position, &mut follow_up),
            }
        }
        follow_up
    }

    /// The object is not remembered any more.
    pub(super) fn forget(&self, reason: StopReasons, context: TaskContext<'_>) -> FollowUp {
        self.state().forgotten = true;
        let follow_up = self.stop(None, reason, context);
        FollowUp { requeue: false, ..follow_up }
    }

    /// Whether the entry of the schedule is for a timer that is about to be called; None if it is stale.
    pub(super) fn is_for_timer(&self, number: u32) -> Option<bool> {
        let state = self.state();
        let slot = state.tasks.iter().find(|slot| slot.number == number && slot.scheduled)?;
        Some(slot.task.handler().handler_type == HandlerType::Timer && slot.stops.is_none())
    }

    /// The time of an entry of the schedule has come.
    pub(super) fn fire(&self, number: u32, context: TaskContext<'_>) -> FollowUp {
        let mut follow_up = FollowUp::default();
        let mut state = self.state();
        let Some(position) = state.tasks.iter().position(|slot| slot.number == number && slot.scheduled) else {
            return follow_up;
        };
        state.tasks[position].scheduled = false;
        match state.tasks[position].task.stop_further(context.now, context.settings) {
            Some(step) => state.stopping(position, step, &mut follow_up),
            None => state.poll(position, context, &mut follow_up),
        }
        follow_up
    }

    /// The call of the handler is over; returns its result.
    pub(super) fn called(
        &self,
        id: &Arc<str>,
        outcome: CallOutcome,
        context: TaskContext<'_>,
        notes: &mut Vec<Note>,
    ) -> Option<Value> {
        let mut state = self.state();
        let slot = state.tasks.iter_mut().find(|slot| slot.task.handler().id == *id)?;
        slot.task.called(outcome, context.now, context.settings, notes, (context.random)())
    }

    /// What the call has left behind is stored, or cannot be stored.
    pub(super) fn stored(&self, id: &Arc<str>, context: TaskContext<'_>) -> FollowUp {
        let mut follow_up = FollowUp::default();
        let mut state = self.state();
        state.latest.release(&self.resource.dictionaries);
        let Some(position) = state.tasks.iter().position(|slot| slot.task.handler().id == *id) else {
            return follow_up;
        };
        let slot = &mut state.tasks[position];
        slot.task.concluded(context.now, context.settings, &mut follow_up.notes);
        slot.stops = None;
        state.unschedule(position, &mut follow_up);
        match state.tasks[position].task.ending() {
            Some(ending) => state.end_by_itself(position, ending, &mut follow_up),
            // The schedule finds out when it is due.
            None => state.schedule(position, context.now.tick, &mut follow_up),
        }
        follow_up
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock; and if it did, the state is still what it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new_number(&mut self) -> u32 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }

    fn poll(&mut self, position: usize, context: TaskContext<'_>, follow_up: &mut FollowUp) {
        let idle_since = Duration::from(self.idle_since);
        let task = &mut self.tasks[position].task;
        match task.poll(context.now, idle_since, context.settings, &mut follow_up.notes, &mut || (context.random)()) {
            TaskStep::WaitUntil(when) => self.schedule(position, when, follow_up),
            TaskStep::WaitForChange | TaskStep::Calling => {}
            TaskStep::Ended(ending) => self.end_by_itself(position, ending, follow_up),
            TaskStep::Call(request) => {
                let (sender, stops) = watch::channel(StopReasons::default());
                self.tasks[position].stops = Some(Box::new(sender));
                let live = self.latest.borrow();
                follow_up.call = Some(TaskCall { request, stops, live });
            }
        }
    }

    fn end_by_itself(&mut self, position: usize, ending: TaskEnding, follow_up: &mut FollowUp) {
        if ending == TaskEnding::OnItsOwn {
            let id = Arc::clone(&self.tasks[position].task.handler().id);
            self.ended.get_or_insert_default().0.push(id);
        }
        follow_up.requeue |= !self.forgotten && !self.attended;
        self.end(position, follow_up);
    }

    /// Goes on with the stopping of a task.
    fn stopping(&mut self, position: usize, step: StopStep, follow_up: &mut FollowUp) {
        let StopStep { new_reasons, next, notes } = step;
        follow_up.notes.extend(notes);
        if let (Some(new_reasons), Some(stops)) = (new_reasons, &self.tasks[position].stops) {
            stops.send_replace(new_reasons);
        }
        self.unschedule(position, follow_up);
        if let Some(when) = next {
            self.schedule(position, when, follow_up);
        }
        if self.tasks[position].task.phase() == TaskPhase::Orphaned {
            follow_up.requeue |= !self.forgotten && !self.attended;
            follow_up.ended = true;
        }
    }

    fn schedule(&mut self, position: usize, when: Duration, follow_up: &mut FollowUp) {
        let number = self.new_number();
        let slot = &mut self.tasks[position];
        (slot.number, slot.scheduled) = (number, true);
        follow_up.schedule.push((when, number));
    }

    fn unschedule(&mut self, position: usize, follow_up: &mut FollowUp) {
        if std::mem::take(&mut self.tasks[position].scheduled) {
            follow_up.stale += 1;
        }
    }

    fn end(&mut self, position: usize, follow_up: &mut FollowUp) {
        self.unschedule(position, follow_up);
        self.tasks.swap_remove(position);
        follow_up.ended = true;
    }
}

/// The delay that is declared; None if the front has to be asked.
pub(super) fn declared_delay(handler: &Handler) -> Option<f64> {
    match &handler.background.initial_delay {
        None => Some(0.0),
        Some(InitialDelay::Seconds(seconds)) => Some(seconds.as_f64()),
        Some(InitialDelay::Callback { .. }) => None,
    }
}

/// The tasks of all objects, to reach each of them.
#[derive(Default)]
pub(super) struct AllObjectTasks {
    places: Vec<Weak<ObjectTasks>>,
    free: Vec<u32>,
}

impl AllObjectTasks {
    /// Adds the tasks of one object, which know their place.
    pub(super) fn add(&mut self, make: impl FnOnce(u32) -> ObjectTasks) -> Arc<ObjectTasks> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Weak::new());
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let tasks = Arc::new(make(place));
        if let Some(kept) = self.places.get_mut(place as usize) {
            *kept = Arc::downgrade(&tasks);
        }
        tasks
    }

    pub(super) fn remove(&mut self, place: u32) {
        if let Some(kept) = self.places.get_mut(place as usize) {
            *kept = Weak::new();
            self.free.push(place);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<ObjectTasks>> {
        self.places.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one of each per object with a timer. Together with what the queue and the memory keep of an object, the
    /// compressed body, and the entry of the schedule, a waiting timer must stay below a KiB.
    #[test]
    fn a_waiting_timer_is_small() {
        assert!(size_of::<ObjectTasks>() <= 144, "{}", size_of::<ObjectTasks>());
        assert!(size_of::<TaskSlot>() <= 80, "{}", size_of::<TaskSlot>());
    }
}
