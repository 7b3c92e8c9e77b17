//! Whole lives of daemons and timers: whatever happens to them in whatever order, some things always hold.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_reaction::{
    BackgroundTask, CallError, CallOutcome, Handler, HandlerType, Moment, Seconds, StopReasons, TaskEnding, TaskPhase,
    TaskSettings, TaskStep,
};
use proptest::prelude::*;

/// What happens to a run.
#[derive(Clone, Debug)]
enum Happening {
    /// This many seconds pass, and the schedule looks at it.
    Time(f64),
    /// Its object changes in what matters.
    Change,
    /// The call is over, if there is one.
    Called(Outcome),
    /// Somebody stops it, for this reason.
    Stop(u8),
}

#[derive(Clone, Debug)]
enum Outcome {
    Done,
    Temporary(f64),
    Arbitrary,
    Permanent,
    Abandoned,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Done),
        1 => (0.0f64..100.0).prop_map(Outcome::Temporary),
        1 => Just(Outcome::Arbitrary),
        1 => Just(Outcome::Permanent),
        1 => Just(Outcome::Abandoned),
    ];
    let one = prop_oneof![
        5 => (0.0f64..90.0).prop_map(Happening::Time),
        1 => Just(Happening::Change),
        4 => outcome.prop_map(Happening::Called),
        1 => (0u8..3).prop_map(Happening::Stop),
    ];
    proptest::collection::vec(one, 1..60)
}

fn handlers() -> impl Strategy<Value = Handler> {
    let seconds = |range: std::ops::Range<f64>| proptest::option::of(range.prop_map(Seconds::new));
    let options = (seconds(0.5..60.0), seconds(0.0..60.0), any::<bool>(), seconds(0.0..20.0), seconds(0.0..20.0));
    let limits = (proptest::option::of(1u32..4), seconds(1.0..100.0), any::<bool>());
    (options, limits).prop_map(|((interval, idle, sharp, backoff, timeout), (retries, limit, is_daemon))| {
        let kind = if is_daemon { HandlerType::Daemon } else { HandlerType::Timer };
        let mut handler = Handler::new(0, "fn", kind);
        (handler.retries, handler.timeout) = (retries, limit);
        let background = &mut handler.background;
        if is_daemon {
            (background.cancellation_backoff, background.cancellation_timeout) = (backoff, timeout);
        } else {
            (background.interval, background.idle, background.sharp) = (interval, idle, sharp);
        }
        handler
    })
}

fn outcome(outcome: &Outcome) -> CallOutcome {
    let (message, display) = ("no".to_owned(), "no".to_owned());
    let result = match outcome {
        Outcome::Done => Ok(None),
        Outcome::Temporary(delay) => Err(CallError::Temporary { message, display, delay: Some(*delay) }),
        Outcome::Arbitrary => Err(CallError::Arbitrary { message, display }),
        Outcome::Permanent => Err(CallError::Permanent { message, display }),
        Outcome::Abandoned => Err(CallError::Abandoned),
    };
    CallOutcome { result, subrefs: Default::default() }
}

fn reason(number: u8) -> StopReasons {
    match number {
        0 => StopReasons::RESOURCE_DELETED,
        1 => StopReasons::OPERATOR_PAUSING,
        _ => StopReasons::OPERATOR_EXITING,
    }
}

fn at(seconds: f64) -> Moment {
    let tick = Duration::from_secs_f64(seconds);
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    Moment { wall: start + tick, tick }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_life_makes_sense(handler in handlers(), story in happenings()) {
        let settings = TaskSettings {
            default_backoff: 60.0,
            cancellation_polling: Seconds::new(30.0),
            instant_exit: Duration::from_millis(100),
            verbose: false,
        };
        let handler = Arc::new(handler);
        let (mut now, mut idle_since, mut notes) = (0.0, 0.0, Vec::new());
        let mut run = BackgroundTask::new(Arc::clone(&handler), 0.0, at(now));
        let (mut calling, mut asked_to_stop) = (false, false);
        for happening in &story {
            match happening {
                Happening::Time(seconds) => now += seconds,
                Happening::Change => idle_since = now,
                Happening::Called(what) => {
                    let result = run.called(outcome(what), at(now), &settings, &mut notes, 0.5);
                    prop_assert!(result.is_none() || calling, "a result without a call");
                    run.concluded(at(now), &settings, &mut notes);
                    if calling && asked_to_stop {
                        prop_assert!(run.ending().is_some(), "it goes on after it was stopped");
                    }
                    calling = false;
                }
                Happening::Stop(number) => {
                    let was_over = run.ending().is_some();
                    let step = run.stop(reason(*number), at(now), &settings, &mut notes);
                    prop_assert_eq!(step.is_some(), calling, "only calls are notified to stop");
                    if !calling && !was_over {
                        prop_assert_eq!(run.ending(), Some(TaskEnding::OnRequest), "what waits ends at once");
                    }
                    asked_to_stop = true;
                }
            }
            if let Some(step) = run.stop_further(at(now), &settings) {
                prop_assert!(calling && asked_to_stop);
                let in_future = step.next.is_none_or(|next| next > at(now).tick);
                prop_assert!(in_future, "the stopping would be busy");
            }
            match run.poll(at(now), Duration::from_secs_f64(idle_since), &settings, &mut notes, &mut || 0.5) {
                TaskStep::Call(request) => {
                    prop_assert!(!calling, "two calls at once");
                    prop_assert!(!asked_to_stop, "called after it was stopped");
                    prop_assert!(handler.retries.is_none_or(|limit| request.retry < limit), "too many attempts");
                    calling = true;
                }
                TaskStep::Calling => prop_assert!(calling),
                TaskStep::WaitUntil(when) => prop_assert!(!calling && when > at(now).tick, "the schedule would be busy"),
                TaskStep::WaitForChange => {
                    prop_assert!(!calling && handler.background.idle.is_some());
                    prop_assert!(handler.background.interval.is_none(), "its interval brings it back");
                }
                TaskStep::Ended(ending) => {
                    prop_assert!(!calling);
                    let on_request = ending == TaskEnding::OnRequest;
                    prop_assert!(!on_request || asked_to_stop, "stopped by nobody");
                    let ticks = handler.handler_type == HandlerType::Timer && handler.background.interval.is_some();
                    prop_assert!(on_request || !ticks, "a timer with an interval died by itself");
                }
            }
            prop_assert!(asked_to_stop || run.phase() == TaskPhase::Active);
        }
    }
}
