//! What is kept of one object with daemons and timers: their runs, and the newest body for them.
//!
//! Everything here is synchronous: a change of the state under a lock, and what is to be done about it afterwards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kopf_object::Body;
use kopf_reaction::{
    BackgroundTask, BackgroundView, CallOutcome, CallRequest, Handler, HandlerType, InitialDelay, Moment, Note,
    Resource, StopReasons, StopStep, TaskEnding, TaskPhase, TaskSettings, TaskStep,
};
use serde_json::Value;
use tokio::sync::watch;

use super::bodies::{Dictionaries, Newest};
use super::schedule::Tick;
use crate::front::FrontSlot;
use crate::front::LiveBody;

/// The background of one object, for as long as the object is remembered.
pub(super) struct Companion {
    pub kind: Arc<KindInBackground>,
    pub uid: Arc<str>,
    /// The front's own things for the life of the object.
    pub memory: Arc<FrontSlot>,
    /// The place in the list of all companions.
    pub place: u32,
    state: Mutex<State>,
}

/// What the objects of one kind have in common.
pub(super) struct KindInBackground {
    /// How the queue knows the kind.
    pub key: u64,
    pub resource: Arc<Resource>,
    pub dictionaries: Dictionaries,
}

struct State {
    newest: Newest,
    /// Since when the object has not changed in what matters.
    idle_since: Tick,
    /// What the essence was then.
    essence: u64,
    runs: Vec<Seat>,
    /// The handlers that have ended on their own; usually none, which takes less room than an empty list.
    ended: Option<Box<Ended>>,
    /// The object is not remembered any more: nobody needs to be told about its runs.
    forgotten: bool,
    /// A cycle of the object waits for its runs to end, and need not be told.
    attended: bool,
    next_number: u32,
}

/// The ids of handlers.
#[derive(Default)]
struct Ended(Vec<Arc<str>>);

/// One run and its place in the schedule.
struct Seat {
    run: BackgroundTask,
    /// The number of its entry in the schedule. An entry under another number is void.
    number: u32,
    /// Whether there is such an entry.
    scheduled: bool,
    /// How the function is told to stop, while it is called.
    stops: Option<Box<watch::Sender<StopReasons>>>,
}

/// What is to be done after a change of the state, when it is not locked any more.
#[derive(Default)]
pub(super) struct Effects {
    /// To be put into the schedule: when, and under which number.
    pub schedule: Vec<(Duration, u32)>,
    /// So many entries of the schedule are void now.
    pub voided: usize,
    pub call: Option<Calling>,
    /// The cycle of the object has to decide anew.
    pub nudge: bool,
    /// Some run has ended, or was given up.
    pub ended: bool,
    pub notes: Vec<Note>,
}

/// A call to be made.
pub(super) struct Calling {
    pub request: CallRequest,
    pub stops: watch::Receiver<StopReasons>,
    pub live: Arc<LiveBody>,
}

/// What the companion needs from outside to decide.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub now: Moment,
    pub settings: &'a TaskSettings,
    /// Gives a number in 0..1.
    pub random: &'a dyn Fn() -> f64,
}

impl Companion {
    pub fn new(
        kind: Arc<KindInBackground>,
        uid: Arc<str>,
        memory: Arc<FrontSlot>,
        place: u32,
        body: &Body,
        essence: u64,
        now: Moment,
    ) -> Self {
        let state = Mutex::new(State {
            newest: Newest::new(body, &kind.dictionaries),
            idle_since: Tick::from(now.tick),
            essence,
            runs: Vec::new(),
            ended: None,
            forgotten: false,
            attended: false,
            next_number: 0,
        });
        Self { kind, uid, memory, place, state }
    }

    /// How the runs are doing.
    pub fn view(&self, paused: Option<StopReasons>) -> BackgroundView {
        let state = self.state();
        let runs = state.runs.iter().map(|seat| (Arc::clone(&seat.run.handler().id), seat.run.phase())).collect();
        let ended = state.ended.as_ref().map_or_else(Vec::new, |ended| ended.0.clone());
        BackgroundView { tasks: runs, ended, paused, tracked: true }
    }

    pub fn holding(&self) -> usize {
        self.state().runs.iter().filter(|seat| seat.run.phase() != TaskPhase::Orphaned).count()
    }

    /// A cycle waits for the runs to end, from now on or no more; gives how many hold the object.
    pub fn attend(&self, attended: bool) -> usize {
        let mut state = self.state();
        state.attended = attended;
        state.runs.iter().filter(|seat| seat.run.phase() != TaskPhase::Orphaned).count()
    }

    pub fn see(&self, body: &Body) {
        self.state().newest.see(body, &self.kind.dictionaries);
    }

    pub fn raw(&self) -> Arc<[u8]> {
        self.state().newest.raw()
    }

    pub fn is_forgotten(&self) -> bool {
        self.state().forgotten
    }

    /// The essence of the object is this; if it has changed, the idling begins anew.
    pub fn notice(&self, essence: u64, means: Means<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut state = self.state();
        if std::mem::replace(&mut state.essence, essence) != essence {
            state.idle_since = Tick::from(means.now.tick);
            for position in 0..state.runs.len() {
                let seat = &state.runs[position];
                if !seat.scheduled && seat.stops.is_none() {
                    state.schedule(position, means.now.tick, &mut effects);
                }
            }
        }
        effects
    }

    /// A new run, unless there is one.
    pub fn start(&self, handler: &Arc<Handler>, initial_delay_seconds: f64, means: Means<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut state = self.state();
        if state.forgotten || state.runs.iter().any(|seat| seat.run.handler().id == handler.id) {
            return effects;
        }
        let run = BackgroundTask::new(Arc::clone(handler), initial_delay_seconds, means.now);
        let number = state.new_number();
        // Most objects have one or two; a vector would reserve more by itself.
        state.runs.reserve_exact(1);
        state.runs.push(Seat { run, number, scheduled: true, stops: None });
        // Even if it is due at once: the schedule cares for the limits.
        let due = means.now.tick + Duration::from_secs_f64(initial_delay_seconds.clamp(0.0, 1e9));
        effects.schedule.push((due, number));
        effects
    }

    /// Asks one run to stop, or all of them.
    pub fn stop(&self, id: Option<&Arc<str>>, reason: StopReasons, means: Means<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut state = self.state();
        let wanted = |seat: &Seat| id.is_none_or(|id| seat.run.handler().id == *id);
        let positions: Vec<usize> = (0..state.runs.len()).filter(|place| wanted(&state.runs[*place])).collect();
        for position in positions.into_iter().rev() {
            let step = state.runs[position].run.stop(reason, means.now, means.settings, &mut effects.notes);
            match step {
                Some(step) => state.stopping(position, step, &mut effects),
                None => state.end(position, &mut effects),
            }
        }
        effects
    }

    /// The object is not remembered any more.
    pub fn forget(&self, reason: StopReasons, means: Means<'_>) -> Effects {
        self.state().forgotten = true;
        let effects = self.stop(None, reason, means);
        Effects { nudge: false, ..effects }
    }

    /// Whether the entry of the schedule is for a timer that is about to be called; None if it is void.
    pub fn is_for_timer(&self, number: u32) -> Option<bool> {
        let state = self.state();
        let seat = state.runs.iter().find(|seat| seat.number == number && seat.scheduled)?;
        Some(seat.run.handler().handler_type == HandlerType::Timer && seat.stops.is_none())
    }

    /// The time of an entry of the schedule has come.
    pub fn fire(&self, number: u32, means: Means<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut state = self.state();
        let Some(position) = state.runs.iter().position(|seat| seat.number == number && seat.scheduled) else {
            return effects;
        };
        state.runs[position].scheduled = false;
        match state.runs[position].run.stop_further(means.now, means.settings) {
            Some(step) => state.stopping(position, step, &mut effects),
            None => state.poll(position, means, &mut effects),
        }
        effects
    }

    /// The call of the handler is over; gives its result.
    pub fn called(
        &self,
        id: &Arc<str>,
        outcome: CallOutcome,
        means: Means<'_>,
        notes: &mut Vec<Note>,
    ) -> Option<Value> {
        let mut state = self.state();
        let seat = state.runs.iter_mut().find(|seat| seat.run.handler().id == *id)?;
        seat.run.called(outcome, means.now, means.settings, notes, (means.random)())
    }

    /// What the call has left behind is stored, or cannot be stored.
    pub fn concluded(&self, id: &Arc<str>, means: Means<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut state = self.state();
        state.newest.release(&self.kind.dictionaries);
        let Some(position) = state.runs.iter().position(|seat| seat.run.handler().id == *id) else { return effects };
        let seat = &mut state.runs[position];
        seat.run.concluded(means.now, means.settings, &mut effects.notes);
        seat.stops = None;
        state.unschedule(position, &mut effects);
        match state.runs[position].run.ending() {
            Some(ending) => state.end_by_itself(position, ending, &mut effects),
            // The schedule finds out when it is due.
            None => state.schedule(position, means.now.tick, &mut effects),
        }
        effects
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

    fn poll(&mut self, position: usize, means: Means<'_>, effects: &mut Effects) {
        let idle_since = Duration::from(self.idle_since);
        let run = &mut self.runs[position].run;
        match run.poll(means.now, idle_since, means.settings, &mut effects.notes, &mut || (means.random)()) {
            TaskStep::WaitUntil(when) => self.schedule(position, when, effects),
            TaskStep::WaitForChange | TaskStep::Calling => {}
            TaskStep::Ended(ending) => self.end_by_itself(position, ending, effects),
            TaskStep::Call(request) => {
                let (sender, stops) = watch::channel(StopReasons::default());
                self.runs[position].stops = Some(Box::new(sender));
                let live = self.newest.borrow();
                effects.call = Some(Calling { request, stops, live });
            }
        }
    }

    fn end_by_itself(&mut self, position: usize, ending: TaskEnding, effects: &mut Effects) {
        if ending == TaskEnding::OnItsOwn {
            let id = Arc::clone(&self.runs[position].run.handler().id);
            self.ended.get_or_insert_default().0.push(id);
        }
        effects.nudge |= !self.forgotten && !self.attended;
        self.end(position, effects);
    }

    /// Goes on with the stopping of a run.
    fn stopping(&mut self, position: usize, step: StopStep, effects: &mut Effects) {
        let StopStep { new_reasons, next, notes } = step;
        effects.notes.extend(notes);
        if let (Some(new_reasons), Some(stops)) = (new_reasons, &self.runs[position].stops) {
            stops.send_replace(new_reasons);
        }
        self.unschedule(position, effects);
        if let Some(when) = next {
            self.schedule(position, when, effects);
        }
        if self.runs[position].run.phase() == TaskPhase::Orphaned {
            effects.nudge |= !self.forgotten && !self.attended;
            effects.ended = true;
        }
    }

    fn schedule(&mut self, position: usize, when: Duration, effects: &mut Effects) {
        let number = self.new_number();
        let seat = &mut self.runs[position];
        (seat.number, seat.scheduled) = (number, true);
        effects.schedule.push((when, number));
    }

    fn unschedule(&mut self, position: usize, effects: &mut Effects) {
        if std::mem::take(&mut self.runs[position].scheduled) {
            effects.voided += 1;
        }
    }

    fn end(&mut self, position: usize, effects: &mut Effects) {
        self.unschedule(position, effects);
        self.runs.swap_remove(position);
        effects.ended = true;
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

/// The list of all companions, to reach each of them.
#[derive(Default)]
pub(super) struct Companions {
    places: Vec<Weak<Companion>>,
    free: Vec<u32>,
}

impl Companions {
    /// Makes a companion that knows its place.
    pub fn add(&mut self, make: impl FnOnce(u32) -> Companion) -> Arc<Companion> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Weak::new());
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let companion = Arc::new(make(place));
        if let Some(kept) = self.places.get_mut(place as usize) {
            *kept = Arc::downgrade(&companion);
        }
        companion
    }

    pub fn remove(&mut self, place: u32) {
        if let Some(kept) = self.places.get_mut(place as usize) {
            *kept = Weak::new();
            self.free.push(place);
        }
    }

    pub fn all(&self) -> Vec<Arc<Companion>> {
        self.places.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one of each per object with a timer. Together with what the queue and the memory keep of an object, the
    /// packed body, and the entry of the schedule, a timer that waits must stay below a KiB.
    #[test]
    fn a_timer_that_waits_is_small() {
        assert!(size_of::<Companion>() <= 144, "{}", size_of::<Companion>());
        assert!(size_of::<Seat>() <= 80, "{}", size_of::<Seat>());
        assert!(size_of::<crate::background::schedule::Entry>() <= 24);
    }
}
