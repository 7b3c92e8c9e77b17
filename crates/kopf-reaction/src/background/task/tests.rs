use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{BackgroundOptions, Seconds, Severity};

fn settings() -> TaskSettings {
    TaskSettings {
        default_backoff: 60.0,
        cancellation_polling: Seconds::new(30.0),
        instant_exit: Duration::from_millis(100),
        verbose: true,
    }
}

fn at(seconds: f64) -> Moment {
    let tick = Duration::from_secs_f64(seconds);
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    Moment { wall: start + tick, tick }
}

fn handler(kind: HandlerType, change: impl FnOnce(&mut Handler)) -> Arc<Handler> {
    let mut handler = Handler::new(0, "fn", kind);
    change(&mut handler);
    Arc::new(handler)
}

fn timer(change: impl FnOnce(&mut BackgroundOptions)) -> Arc<Handler> {
    handler(HandlerType::Timer, |handler| change(&mut handler.background))
}

/// A task with its own clock, whose calls take some time.
struct TaskSimulation {
    task: BackgroundTask,
    now: f64,
    idle_since: f64,
    notes: Vec<Note>,
}

impl TaskSimulation {
    fn new(handler: &Arc<Handler>, initial_delay: f64) -> Self {
        let task = BackgroundTask::new(Arc::clone(handler), initial_delay, at(0.0));
        Self { task, now: 0.0, idle_since: 0.0, notes: Vec::new() }
    }

    fn poll(&mut self) -> TaskStep {
        let idle_since = Duration::from_secs_f64(self.idle_since);
        self.task.poll(at(self.now), idle_since, &settings(), &mut self.notes, &mut || 0.5)
    }

    /// Waits for the next call, and gives the time of it; None if it never comes.
    fn wait(&mut self) -> Option<(f64, CallRequest)> {
        for _ in 0..10 {
            match self.poll() {
                TaskStep::WaitUntil(tick) => {
                    assert!(tick.as_secs_f64() > self.now, "it would be busy: {tick:?}");
                    self.now = tick.as_secs_f64();
                }
                TaskStep::Call(request) => return Some((round(self.now), request)),
                TaskStep::WaitForChange | TaskStep::Ended(_) => return None,
                TaskStep::Calling => panic!("called twice at once"),
            }
        }
        panic!("it never comes to a call");
    }

    fn finish(&mut self, takes: f64, result: Result<Option<Value>, CallError>) -> Option<Value> {
        self.now += takes;
        let call = CallOutcome { result, subrefs: Default::default() };
        let result = self.task.called(call, at(self.now), &settings(), &mut self.notes, 0.5);
        self.task.concluded(at(self.now), &settings(), &mut self.notes);
        result
    }

    /// The times of the calls, each of which takes so long.
    fn times(&mut self, takes: &[f64]) -> Vec<f64> {
        let mut times = Vec::new();
        for takes in takes {
            let Some((time, _)) = self.wait() else { break };
            times.push(time);
            self.finish(*takes, Ok(None));
        }
        times
    }

    fn texts(&mut self) -> Vec<String> {
        let notes = std::mem::take(&mut self.notes);
        notes.into_iter().filter(|note| note.severity > Severity::Debug).map(|note| note.text).collect()
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn temporary(delay: Option<f64>) -> Result<Option<Value>, CallError> {
    Err(CallError::Temporary { message: "boo".into(), display: "boo".into(), delay })
}

fn arbitrary() -> Result<Option<Value>, CallError> {
    Err(CallError::Arbitrary { message: "boo".into(), display: "boo".into() })
}

#[test]
fn schedules() {
    let every = |seconds: f64| move |options: &mut BackgroundOptions| options.interval = Some(Seconds::new(seconds));
    let table = [
        // Without an interval it is called once.
        (timer(|_| ()), 0.0, vec![1.0, 1.0], vec![0.0]),
        (timer(every(5.0)), 0.0, vec![1.0, 2.0, 9.0, 0.0], vec![0.0, 6.0, 13.0, 27.0]),
        (timer(every(5.0)), 3.0, vec![1.0, 1.0], vec![3.0, 9.0]),
        // On the grid of each call; a slow one skips what it has missed.
        (
            timer(|options| {
                every(5.0)(options);
                options.sharp = true;
            }),
            1.0,
            vec![1.0, 2.0, 9.0, 0.0],
            vec![1.0, 6.0, 11.0, 21.0],
        ),
        (timer(|options| options.idle = Some(Seconds::new(7.0))), 0.0, vec![1.0, 1.0], vec![7.0]),
        (
            timer(|options| {
                every(5.0)(options);
                options.idle = Some(Seconds::new(7.0));
            }),
            0.0,
            vec![1.0, 1.0],
            vec![7.0, 13.0],
        ),
    ];
    for (handler, initial_delay, takes, expected) in table {
        let mut simulation = TaskSimulation::new(&handler, initial_delay);
        assert_eq!(simulation.times(&takes), expected, "{:?}", handler.background);
    }
}

#[test]
fn changes_restart_the_idle_time() {
    let mut simulation = TaskSimulation::new(&timer(|options| options.idle = Some(Seconds::new(5.0))), 0.0);
    assert!(matches!(simulation.poll(), TaskStep::WaitUntil(until) if until == Duration::from_secs(5)));
    simulation.now = 4.0;
    simulation.idle_since = 4.0;
    assert_eq!(simulation.times(&[1.0]), [9.0]);
    assert!(matches!(simulation.poll(), TaskStep::WaitForChange));
    simulation.now = 20.0;
    simulation.idle_since = 20.0;
    assert_eq!(simulation.times(&[1.0]), [25.0]);
    assert!(matches!(simulation.poll(), TaskStep::WaitForChange));
}

#[test]
fn errors_override_the_interval_until_the_attempts_are_used_up() {
    let handler = handler(HandlerType::Timer, |handler| {
        handler.background.interval = Some(Seconds::new(5.0));
        handler.retries = Some(3);
        handler.backoff = Some(Backoff::constant(2.0));
    });
    let mut simulation = TaskSimulation::new(&handler, 0.0);
    let outcomes = [
        temporary(Some(1.0)),
        arbitrary(),
        temporary(Some(1.0)),
        arbitrary(),
        Ok(Some(json!(1))),
        Err(CallError::Permanent { message: "no".into(), display: "no".into() }),
        temporary(None),
        Ok(None),
    ];
    let mut seen = Vec::new();
    for outcome in outcomes {
        let (time, request) = simulation.wait().expect("a call");
        seen.push((time, request.retry, request.runtime_seconds));
        let succeeds = matches!(&outcome, Ok(Some(_)));
        assert_eq!(simulation.finish(0.0, outcome).is_some(), succeeds);
    }
    let expected = [
        (0.0, 0, 0.0),
        (1.0, 1, 1.0),
        (3.0, 2, 3.0),
        // The third failure was the last one; so the interval counts, and the attempts start again.
        (8.0, 0, 0.0),
        (10.0, 1, 2.0),
        (15.0, 0, 0.0),
        (20.0, 0, 0.0),
        (20.0, 1, 0.0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        simulation.texts(),
        [
            "Timer 'fn' failed temporarily: boo",
            "Timer 'fn' failed with an exception and will try again in 2 seconds: boo",
            "Timer 'fn' failed temporarily but will exceed 3 retries: boo",
            "Timer 'fn' failed with an exception and will try again in 2 seconds: boo",
            "Timer 'fn' succeeded.",
            "Timer 'fn' failed permanently: no",
            "Timer 'fn' failed temporarily: boo",
            "Timer 'fn' succeeded.",
        ]
    );
}

#[test]
fn a_timer_without_attempts_does_not_keep_a_processor_busy() {
    let handler = handler(HandlerType::Timer, |handler| {
        handler.background.interval = Some(Seconds::new(0.0));
        handler.retries = Some(0);
    });
    let mut simulation = TaskSimulation::new(&handler, 0.0);
    assert!(matches!(simulation.poll(), TaskStep::WaitUntil(until) if until == PAUSE_WITHOUT_A_CALL));
    assert_eq!(simulation.texts(), ["Timer 'fn' has exceeded 0 retries."]);
}

#[test]
fn daemons_run_once_unless_they_are_to_be_retried() {
    let table = vec![
        (Ok(None), None),
        (Ok(Some(json!("x"))), None),
        (temporary(Some(5.0)), Some(6.0)),
        (temporary(None), Some(1.0)),
        (arbitrary(), Some(61.0)),
        (Err(CallError::Permanent { message: "no".into(), display: "no".into() }), None),
        (Err(CallError::TimedOut), None),
        // Nobody has asked for it: it is a failure.
        (Err(CallError::Abandoned), Some(61.0)),
    ];
    for (outcome, retried) in table {
        let mut simulation = TaskSimulation::new(&handler(HandlerType::Daemon, |_| ()), 0.0);
        simulation.wait().expect("a call");
        simulation.finish(1.0, outcome.clone());
        match retried {
            Some(expected) => {
                let (time, request) = simulation.wait().expect("a retry");
                assert_eq!((time, request.retry), (expected, 1), "{outcome:?}");
            }
            None => assert!(matches!(simulation.poll(), TaskStep::Ended(TaskEnding::OnItsOwn)), "{outcome:?}"),
        }
    }
}

/// The reasons that a function gets which never exits, by their times.
fn happened(handler: &Arc<Handler>, reason: StopReasons, until: f64) -> Vec<(f64, u8)> {
    let mut simulation = TaskSimulation::new(handler, 0.0);
    simulation.wait().expect("a call");
    let mut happened = Vec::new();
    let mut step = simulation.task.stop(reason, at(0.0), &settings(), &mut simulation.notes);
    while let Some(StopStep { new_reasons, next, .. }) = step {
        if let Some(new_reasons) = new_reasons {
            happened.push((round(simulation.now), new_reasons.bits()));
        }
        let Some(next) = next.filter(|next| next.as_secs_f64() <= until) else { break };
        assert!(next.as_secs_f64() > simulation.now, "it would be busy");
        simulation.now = next.as_secs_f64();
        step = simulation.task.stop_further(at(simulation.now), &settings());
    }
    happened
}

#[test]
fn stopping() {
    let daemon = |backoff: Option<f64>, timeout: Option<f64>| {
        handler(HandlerType::Daemon, |handler| {
            handler.background.cancellation_backoff = backoff.map(Seconds::new);
            handler.background.cancellation_timeout = timeout.map(Seconds::new);
        })
    };
    let (deleted, exiting) = (StopReasons::RESOURCE_DELETED, StopReasons::OPERATOR_EXITING);
    let table = [
        (daemon(None, None), deleted, vec![(0.0, 4)]),
        (daemon(Some(3.0), None), deleted, vec![(0.0, 4), (0.1, 36)]),
        (daemon(None, Some(5.0)), deleted, vec![(0.0, 4), (0.1, 68), (5.1, 196)]),
        (daemon(Some(3.0), Some(5.0)), deleted, vec![(0.0, 4), (0.1, 36), (3.0, 100), (8.0, 228)]),
        (daemon(None, None), exiting, vec![(0.0, 16), (0.1, 144)]),
        (daemon(Some(3.0), None), exiting, vec![(0.0, 16), (0.1, 48), (3.0, 176)]),
        (timer(|_| ()), deleted, vec![(0.0, 4)]),
        (timer(|_| ()), exiting, vec![(0.0, 16), (0.1, 144)]),
    ];
    for (handler, reason, expected) in table {
        assert_eq!(happened(&handler, reason, 1000.0), expected, "{:?} {reason:?}", handler.background);
    }
}

#[test]
fn the_exit_does_not_wait_for_what_is_only_looked_at() {
    let mut simulation = TaskSimulation::new(&handler(HandlerType::Daemon, |_| ()), 0.0);
    simulation.wait().expect("a call");
    simulation.task.stop(StopReasons::RESOURCE_DELETED, at(0.0), &settings(), &mut simulation.notes);
    let step = simulation.task.stop_further(at(5.0), &settings()).expect("a step");
    assert_eq!(step.next, Some(Duration::from_secs(35)));
    assert!(step.notes[0].text.ends_with("is still exiting. The next check is in 30 seconds."));
    let step = simulation.task.stop(StopReasons::OPERATOR_EXITING, at(6.0), &settings(), &mut simulation.notes);
    assert_eq!(step.and_then(|step| step.next), Some(Duration::from_millis(6100)));
    assert_eq!(
        simulation.task.phase(),
        TaskPhase::Stopping(StopReasons::RESOURCE_DELETED.union(StopReasons::OPERATOR_EXITING))
    );
    simulation.task.stop_further(at(7.0), &settings());
    assert_eq!(simulation.task.phase(), TaskPhase::Orphaned);
    simulation.finish(10.0, Ok(None));
    assert!(matches!(simulation.poll(), TaskStep::Ended(TaskEnding::OnRequest)));
}

#[test]
fn the_memory_of_a_waiting_timer_is_small() {
    assert!(size_of::<BackgroundTask>() <= 96, "{}", size_of::<BackgroundTask>());
}

proptest! {
    /// Whatever comes of the calls: they do not overlap, are not early, and the interval is kept from end to start.
    #[test]
    fn a_timer_never_overlaps_and_never_dies(
        interval in 0.5f64..20.0, sharp: bool, takes in proptest::collection::vec((0.0f64..30.0, 0u8..4), 1..20),
    ) {
        let handler = timer(|options| {
            options.interval = Some(Seconds::new(interval));
            options.sharp = sharp;
        });
        let mut simulation = TaskSimulation::new(&handler, 0.0);
        let mut earliest = 0.0;
        for (takes, outcome) in takes {
            let (_, _) = simulation.wait().expect("the next call");
            prop_assert!(simulation.now >= earliest - 1e-6, "{} < {earliest}", simulation.now);
            let started = simulation.now;
            let outcome = match outcome {
                0 => Ok(None),
                1 => temporary(Some(3.0)),
                2 => arbitrary(),
                _ => Err(CallError::Permanent { message: "no".into(), display: "no".into() }),
            };
            let pause = match &outcome {
                Err(CallError::Temporary { .. }) => 3.0,
                Err(CallError::Arbitrary { .. }) => 60.0,
                _ if sharp => 0.0,
                _ => interval,
            };
            simulation.finish(takes, outcome);
            earliest = started + takes + pause;
        }
    }
}
