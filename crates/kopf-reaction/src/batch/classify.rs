//! Classifies the outcome of a call: whether it is final, when to retry, what to log.
//!
//! Batches and background tasks call it. The wording of the notes is part of the contract with users.

use jiff::Timestamp;

use crate::text::duration_str;
use crate::{Backoff, CallError, CallOutcome, ErrorsMode, Handler, HandlerState, Note, Outcome};

/// The defaults for handlers that do not declare them.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDefaults {
    pub errors: ErrorsMode,
    pub backoff: Backoff,
}

/// The outcome without a call, if the handler has no time or attempts left.
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

/// Decides what a call means for its handler; `random` in 0..1 is for the jitter.
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
            // Kopf 1.45 stores this text for such retries.
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
mod tests;
