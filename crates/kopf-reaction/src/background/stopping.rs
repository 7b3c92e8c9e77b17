//! How a task stops while its function is being called: by a flag, then by cancellation; then the engine abandons it.

use std::time::Duration;

use super::reasons::StopReasons;
use super::settings::{TaskSettings, duration};
use crate::{Handler, HandlerType, Note, Seconds};

/// A task that stops while its function is being called.
#[derive(Clone, Debug)]
pub(crate) struct Stopping {
    pub reasons: StopReasons,
    stage: StopStage,
    /// The operator exits or pauses, so that nobody will poll the task later.
    last_call: bool,
}

/// How far the stopping is. Each stage has its time limit; then the next one follows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StopStage {
    /// The stop flag is set: functions that check it exit at once.
    Flagged { since: Duration, until: Duration },
    /// The function has time to exit by the flag.
    Signalled { until: Duration },
    /// The function has time to exit after the cancellation.
    Cancelled { until: Duration },
    /// Without a time limit, the engine checks from time to time.
    Polled { until: Duration },
    /// The engine does not wait any more.
    Abandoned,
}

/// What to do about a stopping task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StopStep {
    /// All reasons, if there is a new one that the function has to know.
    pub new_reasons: Option<StopReasons>,
    /// When to step again; `None` if that is not needed.
    pub next: Option<Duration>,
    /// For the log.
    pub notes: Vec<Note>,
}

impl Stopping {
    pub(super) fn new(now: Duration, settings: &TaskSettings) -> Self {
        let stage = StopStage::Flagged { since: now, until: now + settings.instant_exit };
        Self { reasons: StopReasons::default(), stage, last_call: false }
    }

    /// Adds a reason.
    pub(super) fn add(&mut self, reason: StopReasons, now: Duration, settings: &TaskSettings) -> StopStep {
        let before = self.reasons;
        self.reasons = before.union(reason);
        self.last_call |=
            reason.contains(StopReasons::OPERATOR_EXITING) || reason.contains(StopReasons::OPERATOR_PAUSING);
        if self.last_call && matches!(self.stage, StopStage::Polled { .. }) {
            self.stage = StopStage::Flagged { since: now, until: now + settings.instant_exit };
        }
        let new_reasons = (self.reasons != before).then_some(self.reasons);
        StopStep { new_reasons, next: self.deadline(), ..StopStep::default() }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.stage == StopStage::Abandoned
    }

    /// Enters the next stages whose time has come.
    pub(super) fn step(&mut self, handler: &Handler, now: Duration, settings: &TaskSettings) -> StopStep {
        let before = self.reasons;
        let mut step = StopStep::default();
        while self.deadline().is_some_and(|until| until <= now) {
            self.advance(handler, now, settings, &mut step);
        }
        step.new_reasons = (self.reasons != before).then_some(self.reasons);
        step.next = self.deadline();
        step
    }

    fn deadline(&self) -> Option<Duration> {
        match self.stage {
            StopStage::Flagged { until, .. }
            | StopStage::Signalled { until }
            | StopStage::Cancelled { until }
            | StopStage::Polled { until } => Some(until),
            StopStage::Abandoned => None,
        }
    }

    fn advance(&mut self, handler: &Handler, now: Duration, settings: &TaskSettings, step: &mut StopStep) {
        let is_daemon = handler.handler_type == HandlerType::Daemon;
        let options = Some(&handler.background).filter(|_| is_daemon);
        let seconds = |option: Option<&Seconds>| option.map(|seconds| duration(seconds.as_f64()));
        let backoff = options.and_then(|options| seconds(options.cancellation_backoff.as_ref()));
        let timeout = options.and_then(|options| seconds(options.cancellation_timeout.as_ref()));
        let title = handler.title();
        match (self.stage, backoff, timeout) {
            (StopStage::Flagged { since, .. }, Some(backoff), _) => {
                self.reasons = self.reasons.union(StopReasons::DAEMON_SIGNALLED);
                step.notes.push(Note::debug(format!("{title} is signalled to exit gracefully.")).local());
                self.stage = StopStage::Signalled { until: (since + backoff).max(now) };
            }
            (StopStage::Flagged { .. } | StopStage::Signalled { .. }, _, Some(timeout)) => {
                self.reasons = self.reasons.union(StopReasons::DAEMON_CANCELLED);
                step.notes.push(Note::debug(format!("{title} is signalled to exit by force.")).local());
                self.stage = StopStage::Cancelled { until: now + timeout };
            }
            (StopStage::Flagged { .. } | StopStage::Signalled { .. } | StopStage::Polled { .. }, ..)
                if !self.last_call =>
            {
                let polling = options.and_then(|options| options.cancellation_polling.clone());
                let polling = polling.unwrap_or_else(|| settings.cancellation_polling.clone());
                let text = format!("{title} is still exiting. The next check is in {polling} seconds.");
                step.notes.push(Note::debug(text).local());
                let pause = duration(polling.as_f64()).max(SHORTEST_POLLING);
                self.stage = StopStage::Polled { until: now + pause };
            }
            _ => {
                self.reasons = self.reasons.union(StopReasons::DAEMON_ABANDONED);
                let text = format!("{title} did not exit in time. Leaving it orphaned.");
                step.notes.push(Note::warning(text).local());
                self.stage = StopStage::Abandoned;
            }
        }
    }
}

/// A polling interval of zero seconds must not keep a processor busy.
const SHORTEST_POLLING: Duration = Duration::from_millis(100);
