//! What one call of a handler came to, and what that means for its next attempts.
//!
//! The front tells what happened ([`CallOutcome`]); here it is decided whether that is final, when to try
//! again, and what to say about it ([`classify`]). The wording is part of the contract.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::text::duration_str;
use crate::{Backoff, ErrorsMode, Handler, HandlerState, Note};

/// What a front tells of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// The returned value, or the error.
    pub result: Result<Option<Value>, CallError>,
    /// The sub-handlers that were looked at in the call, of all levels.
    pub subrefs: BTreeSet<String>,
}

/// The ways in which a call can fail.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// To be tried again after the delay (at once if there is none), by the user's own wish.
    Temporary { message: String, display: String, delay: Option<f64> },
    /// Failed for good, by the user's own wish.
    Permanent { message: String, display: String },
    /// Failed for good, with a code for whoever has asked for admission.
    Denied { message: String, display: String, code: Option<u16> },
    /// Failed for good; the text says it all already.
    Exhausted { message: String },
    /// The call was cancelled because its time was over.
    TimedOut,
    /// Given up without an outcome, as the operator stops; as good as if it was never called.
    Abandoned,
    /// Some sub-handlers are not finished yet.
    ChildrenRetry { delay: Option<f64> },
    /// Anything else: what it means depends on the handler's declaration.
    Arbitrary { message: String, display: String },
}

/// What one call means for the handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// No more attempts.
    pub is_final: bool,
    /// The text of the error; None means success.
    pub error: Option<String>,
    /// Seconds until the next try; None means at once.
    pub delay: Option<f64>,
    /// What goes to the status.
    pub result: Option<Value>,
    pub subrefs: BTreeSet<String>,
}

/// The defaults of the operator for handlers that do not say otherwise.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDefaults {
    pub errors: ErrorsMode,
    pub backoff: Backoff,
}

/// Whether a handler has any attempts left; if not, the outcome without calling it.
pub(crate) fn exhausted(handler: &Handler, state: &HandlerState, now: Timestamp) -> Option<CallError> {
    let runtime = state.runtime(now);
    if let Some(timeout) = &handler.timeout
        && runtime.as_secs_f64() >= timeout.as_f64()
    {
        let message = format!("{} has timed out after {}.", handler.title(), duration_str(runtime));
        return Some(CallError::Exhausted { message });
    }
    if let Some(retries) = handler.retries
        && state.retries >= retries
    {
        let message = format!("{} has exceeded {} retries.", handler.title(), state.retries);
        return Some(CallError::Exhausted { message });
    }
    None
}

/// Decides what a call means; `random` in 0..1 is for the jitter.
pub(crate) fn classify(
    handler: &Handler,
    state: &HandlerState,
    call: CallOutcome,
    defaults: &ErrorDefaults,
    now: Timestamp,
    random: f64,
) -> (Outcome, Note) {
    let title = handler.title();
    let runtime = state.runtime(now);
    let final_with = |error: Option<String>| Outcome { is_final: true, error, ..Outcome::default() };
    let retried = |error: String, delay: Option<f64>| Outcome { error: Some(error), delay, ..Outcome::default() };
    let would_time_out =
        |delay: f64| handler.timeout.as_ref().filter(|timeout| runtime.as_secs_f64() + delay >= timeout.as_f64());
    let would_exceed = handler.retries.filter(|retries| state.retries.saturating_add(1) >= *retries);

    let (mut outcome, note) = match call.result {
        Ok(result) => (Outcome { result, ..final_with(None) }, Note::info(format!("{title} succeeded."))),
        Err(CallError::ChildrenRetry { delay }) => {
            let note = Note::debug(format!("{title} has unfinished sub-handlers. Will retry soon."));
            // The text that kopf 1.45 stores for such retries.
            (retried("None".to_owned(), delay), note)
        }
        Err(CallError::Abandoned) => {
            (retried("abandoned".to_owned(), None), Note::warning(format!("{title} is cancelled. Will escalate.")))
        }
        Err(CallError::TimedOut) => {
            let text = format!("{title} has timed out after {}.", duration_str(runtime));
            (final_with(Some(text.clone())), Note::error(text))
        }
        Err(CallError::Exhausted { message }) => (final_with(Some(message.clone())), Note::error(message)),
        Err(CallError::Permanent { message, display } | CallError::Denied { message, display, .. }) => {
            (final_with(Some(message)), Note::error(format!("{title} failed permanently: {display}")))
        }
        Err(CallError::Temporary { message, display, delay }) => {
            if let Some(timeout) = would_time_out(delay.unwrap_or(0.0)) {
                let text = format!("{title} failed temporarily but will time out after {timeout} seconds: {display}");
                (final_with(Some(text.clone())), Note::error(text))
            } else if let Some(retries) = would_exceed {
                let text = format!("{title} failed temporarily but will exceed {retries} retries: {display}");
                (final_with(Some(text.clone())), Note::error(text))
            } else {
                (retried(message, delay), Note::error(format!("{title} failed temporarily: {display}")))
            }
        }
        Err(CallError::Arbitrary { message, display }) => {
            let mode = handler.errors.unwrap_or(defaults.errors);
            let backoff = handler.backoff.as_ref().unwrap_or(&defaults.backoff).delay(state.retries, random);
            let failed = format!("{title} failed with an exception and will");
            let (outcome, text) = match mode {
                ErrorsMode::Ignored => (final_with(None), format!("{failed} ignore it: {display}")),
                ErrorsMode::Permanent => (final_with(Some(message)), format!("{failed} stop now: {display}")),
                ErrorsMode::Temporary => {
                    if let Some(timeout) = would_time_out(backoff.as_f64()) {
                        let text = format!(
                            "{failed} stop now (it would time out in {timeout} seconds on the next attempt): {display}"
                        );
                        (final_with(Some(text.clone())), text)
                    } else if let Some(retries) = would_exceed {
                        let text = format!(
                            "{failed} stop now (it would exceed {retries} retries on the next attempt): {display}"
                        );
                        (final_with(Some(text.clone())), text)
                    } else {
                        let delay = Some(backoff.as_f64());
                        (retried(message, delay), format!("{failed} try again in {backoff} seconds: {display}"))
                    }
                }
            };
            (outcome, Note::error(text).with_traceback())
        }
    };
    outcome.subrefs = call.subrefs;
    (outcome, note)
}

#[cfg(test)]
mod tests {
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
            |handler| {
                handler.backoff = Some(Backoff::Exponential { initial: 1.0, factor: 2.0, max: None, jitter: None })
            },
            arbitrary(),
            (false, Some(4.0), Error, "Handler 'fn' failed with an exception and will try again in 4 seconds: boo"),
        );
    }
}
