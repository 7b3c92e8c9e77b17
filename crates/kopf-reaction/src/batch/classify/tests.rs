use std::collections::BTreeSet;

use super::*;
use crate::{HandlerType, Seconds, Severity};

fn now() -> Timestamp {
    "2026-11-15T12:00:10Z".parse().unwrap()
}

fn arbitrary() -> CallError {
    CallError::Arbitrary { message: "boo".into(), display: "boo".into() }
}

fn temporary(delay: f64) -> CallError {
    CallError::Temporary { message: "boo".into(), display: "boo".into(), delay: Some(delay) }
}

/// The handler has run for 10 seconds, with 2 attempts behind it.
fn check(change: impl Fn(&mut Handler), error: CallError, expected: (bool, Option<f64>, Severity, &str)) {
    let mut handler = Handler::new(0, "fn", HandlerType::Change);
    change(&mut handler);
    let mut state = HandlerState::new(Some("create"), "2026-11-15T12:00:00Z".parse().unwrap());
    state.retries = 2;
    let defaults = ErrorDefaults { errors: ErrorsMode::Temporary, backoff: Backoff::constant(60.0) };
    let call = CallOutcome { result: Err(error), subrefs: BTreeSet::new() };
    let (outcome, note) = classify(&handler, &state, call, &defaults, now(), 0.5);
    assert_eq!((outcome.is_final, outcome.delay, note.severity, note.text.as_str()), expected);
}

#[test]
fn errors() {
    use Severity::Error;
    let nothing = |_: &mut Handler| {};
    let three_retries = |handler: &mut Handler| handler.retries = Some(3);
    let short = |handler: &mut Handler| handler.timeout = Some(Seconds::new(15.0));
    check(nothing, temporary(5.0), (false, Some(5.0), Error, "Handler 'fn' failed temporarily: boo"));
    check(
        three_retries,
        temporary(5.0),
        (true, None, Error, "Handler 'fn' failed temporarily but will exceed 3 retries: boo"),
    );
    check(
        short,
        temporary(5.0),
        (true, None, Error, "Handler 'fn' failed temporarily but will time out after 15 seconds: boo"),
    );
    check(short, temporary(4.0), (false, Some(4.0), Error, "Handler 'fn' failed temporarily: boo"));
    check(
        nothing,
        CallError::Permanent { message: "boo".into(), display: "boo".into() },
        (true, None, Error, "Handler 'fn' failed permanently: boo"),
    );
    check(nothing, CallError::TimedOut, (true, None, Error, "Handler 'fn' has timed out after 0:00:10."));
    check(
        nothing,
        arbitrary(),
        (false, Some(60.0), Error, "Handler 'fn' failed with an exception and will try again in 60 seconds: boo"),
    );
    check(
        three_retries,
        arbitrary(),
        (
            true,
            None,
            Error,
            "Handler 'fn' failed with an exception and will stop now (it would exceed 3 retries on the next attempt): boo",
        ),
    );
    check(
        short,
        arbitrary(),
        (
            true,
            None,
            Error,
            "Handler 'fn' failed with an exception and will stop now (it would time out in 15 seconds on the next attempt): boo",
        ),
    );
    check(
        |handler| handler.errors = Some(ErrorsMode::Permanent),
        arbitrary(),
        (true, None, Error, "Handler 'fn' failed with an exception and will stop now: boo"),
    );
    check(
        |handler| handler.errors = Some(ErrorsMode::Ignored),
        arbitrary(),
        (true, None, Error, "Handler 'fn' failed with an exception and will ignore it: boo"),
    );
    check(
        |handler| handler.backoff = Some(Backoff::Exponential { initial: 1.0, factor: 2.0, max: None, jitter: None }),
        arbitrary(),
        (false, Some(4.0), Error, "Handler 'fn' failed with an exception and will try again in 4 seconds: boo"),
    );
}
