//! How a handler fails: temporarily, permanently, or with an arbitrary error.
//!
//! Handlers return it by `?`, and the front converts it for the engine. It does not implement `std::error::Error`, so
//! that every such error converts into it (as with `anyhow`).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kopf_reaction::CallError;

/// What handlers, extractors and helpers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a handler failed, and what happens next.
///
/// Any other error becomes one by `?`; the options `errors` and `backoff` of the handler decide whether to retry.
///
/// ```
/// use std::time::Duration;
/// use kopf::Error;
///
/// fn size(text: &str) -> kopf::Result<u32> {
///     if text.is_empty() {
///         return Err(Error::temporary("the size is not known yet").after(Duration::from_secs(10)));
///     }
///     let size: u32 = text.parse()?;
///     if size > 10 {
///         return Err(Error::permanent(format!("{size} is too many")));
///     }
///     Ok(size)
/// }
/// assert_eq!(size("11").unwrap_err().to_string(), "11 is too many");
/// ```
pub struct Error {
    meaning: Meaning,
    source: Box<dyn StdError + Send + Sync>,
    /// Where an arbitrary error became this one; captured only if `RUST_BACKTRACE` asks for it.
    backtrace: Option<Backtrace>,
}

/// What should happen after the failure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// Call the handler again after the delay; at once if there is none.
    Temporary(Option<Duration>),
    /// Do not call the handler again for this change.
    Permanent,
    /// Deny the change, with an HTTP code for the user.
    Denied(u16),
    /// The options of the handler decide.
    Arbitrary,
    /// Sub-handlers are not finished: call the parent again after these seconds.
    ChildrenRetry(Option<f64>),
}

/// The delay of temporary errors that do not name one.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

impl Error {
    /// Call the handler again: in a minute, unless [`after`](Self::after) says otherwise.
    pub fn temporary(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Temporary(Some(DEFAULT_DELAY)), source: error.into(), backtrace: None }
    }

    /// Do not call the handler again for this change.
    pub fn permanent(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Permanent, source: error.into(), backtrace: None }
    }

    /// Deny the change, with an HTTP code: for validating and mutating handlers.
    pub fn denied(code: u16, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Denied(code), source: error.into(), backtrace: None }
    }

    /// Call the handler again after this delay, whatever the error was.
    pub fn after(mut self, delay: Duration) -> Self {
        self.meaning = Meaning::Temporary(Some(delay));
        self
    }

    /// Call the handler again as soon as possible, whatever the error was.
    pub fn at_once(mut self) -> Self {
        self.meaning = Meaning::Temporary(None);
        self
    }

    /// Whether the error asks for another call of the handler.
    pub fn is_temporary(&self) -> bool {
        matches!(self.meaning, Meaning::Temporary(_) | Meaning::ChildrenRetry(_))
    }

    /// Whether the error forbids another call of the handler.
    pub fn is_permanent(&self) -> bool {
        matches!(self.meaning, Meaning::Permanent | Meaning::Denied(_))
    }

    /// The error inside, if it is of this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    pub(crate) fn arbitrary(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Arbitrary, source: message.into(), backtrace: None }
    }

    pub(crate) fn children_retry(delay_seconds: Option<f64>) -> Self {
        let meaning = Meaning::ChildrenRetry(delay_seconds);
        Self { meaning, source: "some sub-handlers are not finished yet".into(), backtrace: None }
    }

    pub(crate) fn to_call_error(&self) -> CallError {
        let (message, display) = (self.to_string(), self.to_string());
        match self.meaning {
            Meaning::Temporary(delay) => {
                CallError::Temporary { message, display, delay: delay.map(|delay| delay.as_secs_f64()) }
            }
            Meaning::Permanent => CallError::Permanent { message, display },
            Meaning::Denied(code) => CallError::Denied { message, display, code: Some(code) },
            Meaning::Arbitrary => CallError::Arbitrary { message, display },
            Meaning::ChildrenRetry(delay) => CallError::ChildrenRetry { delay },
        }
    }

    pub(crate) fn captured_backtrace(&self) -> Option<&Backtrace> {
        self.backtrace.as_ref().filter(|backtrace| backtrace.status() == BacktraceStatus::Captured)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self { meaning: Meaning::Arbitrary, source: error.into(), backtrace: Some(Backtrace::capture()) }
    }
}

/// The message with its causes, each once: many errors repeat their cause in their text.
impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let reason = error.to_string();
            if !text.contains(&reason) {
                text = format!("{text}: {reason}");
            }
            cause = error.source();
        }
        formatter.write_str(&text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Error").field("meaning", &self.meaning).field("source", &self.source).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &str) -> (String, String) {
        (message.to_owned(), message.to_owned())
    }

    #[test]
    fn errors_become_call_errors() {
        let check = |error: Error, expected: CallError| assert_eq!(error.to_call_error(), expected);
        let (message, display) = text("boo");
        check(Error::permanent("boo"), CallError::Permanent { message, display });
        let (message, display) = text("boo");
        check(Error::denied(400, "boo"), CallError::Denied { message, display, code: Some(400) });
        let (message, display) = text("boo");
        check(Error::temporary("boo"), CallError::Temporary { message, display, delay: Some(60.0) });
        let (message, display) = text("boo");
        check(
            Error::temporary("boo").after(Duration::from_millis(1500)),
            CallError::Temporary { message, display, delay: Some(1.5) },
        );
        let (message, display) = text("boo");
        check(Error::from("boo").at_once(), CallError::Temporary { message, display, delay: None });
        let (message, display) = text("boo");
        check(Error::from("boo".to_owned()), CallError::Arbitrary { message, display });
        check(Error::children_retry(Some(3.0)), CallError::ChildrenRetry { delay: Some(3.0) });
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn the_text_names_each_cause_once() {
        let check = |texts: &[&'static str], expected: &str| {
            let mut error = None;
            for text in texts.iter().rev() {
                error = Some(Box::new(Layer { text, source: error }));
            }
            assert_eq!(Error::from(*error.unwrap()).to_string(), expected);
        };
        check(&["no pods"], "no pods");
        check(&["no pods", "403"], "no pods: 403");
        check(&["no pods: 403", "403"], "no pods: 403");
    }

    #[test]
    fn any_standard_error_converts() {
        fn parse(text: &str) -> Result<u32> {
            Ok(text.parse()?)
        }
        let error = parse("x").unwrap_err();
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some(), "{error:?}");
        assert!(!error.is_permanent() && !error.is_temporary());
    }
}
