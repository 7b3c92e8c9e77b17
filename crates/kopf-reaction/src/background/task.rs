//! A background task: one daemon or timer of one object, from its start to its end.
//!
//! It is a machine without I/O. It is small, since there is one for each timer of each object, and most of them wait.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::plan::TaskPhase;
use super::reasons::StopReasons;
use super::settings::{TaskSettings, duration};
use super::stopping::{StopStep, Stopping};
use crate::batch::{ErrorDefaults, classify, exhausted};
use crate::{Backoff, CallError, CallOutcome, CallRequest, ErrorsMode, Handler, HandlerState, HandlerType, Note};

/// The current time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The wall-clock time, for the arguments of functions.
    pub wall: Timestamp,
    /// The monotonic time since an arbitrary start, for the schedule.
    pub tick: Duration,
}

/// One daemon or timer of one object.
#[derive(Clone, Debug)]
pub struct BackgroundTask {
    handler: Arc<Handler>,
    stage: TaskStage,
    /// The current attempts; `None` before the first and after the last one. Most tasks wait without any.
    attempts: Option<Box<Attempts>>,
    /// Only during a call: a waiting task ends at once.
    stopping: Option<Box<Stopping>>,
}

/// How many attempts there were, and since when.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    started: Timestamp,
    retries: u32,
}

/// How far the task is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TaskStage {
    /// It is due at this time.
    Waiting {
        until: Duration,
    },
    /// It is due when the object changes after this time.
    AwaitingChange {
        since: Duration,
    },
    /// The front is calling the function.
    Calling {
        since: Duration,
    },
    /// The call is over, and the engine applies its patch. `retry_at` is `None` after the last attempt.
    Concluding {
        since: Duration,
        retry_at: Option<Duration>,
    },
    Ended(TaskEnding),
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnding {
    /// By itself: it is not started again.
    OnItsOwn,
    /// Because it was stopped: it is started again when the reason is over.
    OnRequest,
}

/// What to do with a task.
#[derive(Clone, Debug)]
pub enum TaskStep {
    /// Poll again at this time.
    WaitUntil(Duration),
    /// Poll again when the object has changed.
    WaitForChange,
    /// Call the function, then [`BackgroundTask::called`], then [`BackgroundTask::concluded`].
    Call(CallRequest),
    /// A call is under way.
    Calling,
    /// The task has ended; remove it.
    Ended(TaskEnding),
}

impl BackgroundTask {
    /// A task whose first call is due after the delay.
    pub fn new(handler: Arc<Handler>, initial_delay_seconds: f64, now: Moment) -> Self {
        let stage = TaskStage::Waiting { until: now.tick + duration(initial_delay_seconds) };
        Self { handler, stage, attempts: None, stopping: None }
    }

    /// The daemon or timer.
    pub fn handler(&self) -> &Arc<Handler> {
        &self.handler
    }

    /// The state of the task, as the cycle of its object sees it.
    pub fn phase(&self) -> TaskPhase {
        match &self.stopping {
            None => TaskPhase::Active,
            Some(stopping) if stopping.is_abandoned() => TaskPhase::Orphaned,
            Some(stopping) => TaskPhase::Stopping(stopping.reasons),
        }
    }

    /// How it has ended; `None` if it has not.
    pub fn ending(&self) -> Option<TaskEnding> {
        if let TaskStage::Ended(ending) = self.stage { Some(ending) } else { None }
    }

    /// What to do now; the object has not changed since `idle_since`.
    pub fn poll(
        &mut self,
        now: Moment,
        idle_since: Duration,
        settings: &TaskSettings,
        notes: &mut Vec<Note>,
        random: &mut dyn FnMut() -> f64,
    ) -> TaskStep {
        loop {
            match self.stage {
                TaskStage::Ended(ending) => return TaskStep::Ended(ending),
                TaskStage::Calling { .. } | TaskStage::Concluding { .. } => return TaskStep::Calling,
                TaskStage::AwaitingChange { since } if idle_since <= since => return TaskStep::WaitForChange,
                TaskStage::AwaitingChange { .. } => self.stage = TaskStage::Waiting { until: now.tick },
                TaskStage::Waiting { until } => {
                    let until = self.idle().map_or(until, |idle| until.max(idle_since + idle));
                    if now.tick < until {
                        return TaskStep::WaitUntil(until);
                    }
                    match self.begin(now, settings, notes) {
                        Ok(request) => return TaskStep::Call(request),
                        Err(error) => {
                            // The time or the attempts are used up: the same as a failure of the function.
                            let call = CallOutcome { result: Err(error), subrefs: Default::default() };
                            self.called(call, now, settings, notes, random());
                            self.concluded(now, settings, notes);
                            if let TaskStage::Waiting { until } = &mut self.stage {
                                *until = (*until).max(now.tick + PAUSE_WITHOUT_A_CALL);
                            }
                        }
                    }
                }
            }
        }
    }

    fn begin(&mut self, now: Moment, settings: &TaskSettings, notes: &mut Vec<Note>) -> Result<CallRequest, CallError> {
        let handler = Arc::clone(&self.handler);
        let state = self.state(now);
        if settings.verbose {
            notes.push(Note::debug(format!("{} is invoked.", handler.title())));
        }
        self.stage = TaskStage::Calling { since: now.tick };
        if let Some(error) = exhausted(&handler, &state, now.wall) {
            return Err(error);
        }
        let runtime_seconds = state.runtime(now.wall).as_secs_f64();
        Ok(CallRequest {
            retry: state.retries,
            started: state.started,
            runtime_seconds,
            timeout_seconds: handler.timeout.as_ref().map(|timeout| timeout.as_f64() - runtime_seconds),
            handler,
        })
    }

    /// Takes the outcome of a call; returns the result of the function.
    pub fn called(
        &mut self,
        mut call: CallOutcome,
        now: Moment,
        settings: &TaskSettings,
        notes: &mut Vec<Note>,
        random: f64,
    ) -> Option<Value> {
        let TaskStage::Calling { since } = self.stage else { return None };
        let handler = Arc::clone(&self.handler);
        if call.result == Err(CallError::Abandoned) && self.stopping.is_none() {
            // The task was not stopped: it is an ordinary failure, which does not end a timer.
            let message = "the call was given up without an answer".to_owned();
            call.result = Err(CallError::Arbitrary { display: message.clone(), message });
        }
        if call.result == Err(CallError::Abandoned) {
            notes.push(Note::warning(format!("{} is cancelled. Will escalate.", handler.title())));
            self.end(settings, notes);
            return None;
        }
        let mut state = self.state(now);
        let defaults =
            ErrorDefaults { errors: ErrorsMode::Temporary, backoff: Backoff::constant(settings.default_backoff) };
        let (outcome, note) = classify(&handler, &state, call, &defaults, now.wall, random);
        notes.push(note);
        state = state.with_outcome(&outcome, now.wall);
        let retry_at = if outcome.is_final {
            self.attempts = None;
            None
        } else {
            self.attempts = Some(Box::new(Attempts { started: state.started, retries: state.retries }));
            Some(now.tick + outcome.delay.map_or(Duration::ZERO, duration))
        };
        self.stage = TaskStage::Concluding { since, retry_at };
        outcome.result.filter(|result| !result.is_null())
    }

    /// The engine has applied the patch of the call, or has failed to.
    pub fn concluded(&mut self, now: Moment, settings: &TaskSettings, notes: &mut Vec<Note>) {
        let TaskStage::Concluding { since, retry_at } = self.stage else { return };
        if self.stopping.is_some() {
            self.end(settings, notes);
            return;
        }
        let options = &self.handler.background;
        let interval = options.interval.as_ref().map(|interval| duration(interval.as_f64()));
        self.stage = match (retry_at, self.handler.handler_type, interval) {
            (Some(until), ..) => TaskStage::Waiting { until },
            (None, HandlerType::Timer, Some(interval)) if options.sharp => {
                TaskStage::Waiting { until: next_on_grid(since, interval, now.tick) }
            }
            (None, HandlerType::Timer, Some(interval)) => TaskStage::Waiting { until: now.tick + interval },
            (None, HandlerType::Timer, None) if options.idle.is_some() => TaskStage::AwaitingChange { since },
            _ => return self.end(settings, notes),
        };
    }

    /// Stops the task. A waiting task ends at once.
    pub fn stop(
        &mut self,
        reason: StopReasons,
        now: Moment,
        settings: &TaskSettings,
        notes: &mut Vec<Note>,
    ) -> Option<StopStep> {
        match self.stage {
            TaskStage::Ended(_) => None,
            TaskStage::Waiting { .. } | TaskStage::AwaitingChange { .. } => {
                self.stopping = Some(Box::new(Stopping::new(now.tick, settings)));
                self.end(settings, notes);
                None
            }
            TaskStage::Calling { .. } | TaskStage::Concluding { .. } => {
                let stopping = self.stopping.get_or_insert_with(|| Box::new(Stopping::new(now.tick, settings)));
                Some(stopping.add(reason, now.tick, settings))
            }
        }
    }

    /// Continues the stopping; `None` if the task is not stopping.
    pub fn stop_further(&mut self, now: Moment, settings: &TaskSettings) -> Option<StopStep> {
        if matches!(self.stage, TaskStage::Ended(_)) {
            return None;
        }
        let stopping = self.stopping.as_mut()?;
        Some(stopping.step(&self.handler, now.tick, settings))
    }

    fn end(&mut self, settings: &TaskSettings, notes: &mut Vec<Note>) {
        let ending = if self.stopping.is_some() { TaskEnding::OnRequest } else { TaskEnding::OnItsOwn };
        if settings.verbose {
            let how = match ending {
                TaskEnding::OnItsOwn => "on its own",
                TaskEnding::OnRequest => "on request",
            };
            let title = self.handler.title();
            notes.push(Note::debug(format!("{title} has exited {how} and will not be retried or restarted.")));
        }
        self.stage = TaskStage::Ended(ending);
    }

    fn idle(&self) -> Option<Duration> {
        let idle = self.handler.background.idle.as_ref().filter(|_| self.handler.handler_type == HandlerType::Timer);
        idle.map(|idle| duration(idle.as_f64()))
    }

    fn state(&mut self, now: Moment) -> HandlerState {
        let attempts = self.attempts.get_or_insert_with(|| Box::new(Attempts { started: now.wall, retries: 0 }));
        let mut state = HandlerState::new(None, attempts.started);
        state.retries = attempts.retries;
        state
    }
}

/// A timer without attempts and without an interval must not keep a processor busy.
const PAUSE_WITHOUT_A_CALL: Duration = Duration::from_secs(1);

/// The next multiple of the interval since `since`, after now.
fn next_on_grid(since: Duration, interval: Duration, now: Duration) -> Duration {
    if interval.is_zero() {
        return now;
    }
    let passed = now.saturating_sub(since).as_secs_f64() % interval.as_secs_f64();
    now + (interval.saturating_sub(Duration::from_secs_f64(passed)))
}

#[cfg(test)]
mod tests;
