//! How a handler fails: for now, for good, or by any error of its own.
//!
//! Handlers return it by `?`, the front turns it into what the engine understands. It is no
//! `std::error::Error` itself, so that every such error converts into it (as with `anyhow`).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kopf_reaction::CallError;

/// What handlers, extractors and helpers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a handler has failed, and what should happen next.
///
/// Any other error becomes one by `?`, and is retried as the handler's `errors` and `backoff` say.
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
    /// To be tried again after the delay; at once if there is none.
    Temporary(Option<Duration>),
    /// Never to be tried again for this change.
    Permanent,
    /// The change is refused, with a code for whoever wants to make it.
    Denied(u16),
    /// As the declaration of the handler says.
    Arbitrary,
    /// Sub-handlers are not finished; the parent comes again after so many seconds.
    ChildrenRetry(Option<f64>),
}

/// The delay of temporary errors that do not name one.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

impl Error {
    /// The handler is to be called again: in a minute, unless [`after`](Self::after) says otherwise.
    pub fn temporary(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Temporary(Some(DEFAULT_DELAY)), source: error.into(), backtrace: None }
    }

    /// The handler has failed for good: it is not called again for this change.
    pub fn permanent(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Permanent, source: error.into(), backtrace: None }
    }

    /// The change is refused: for validating and mutating handlers. The code is one of HTTP.
    pub fn denied(code: u16, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { meaning: Meaning::Denied(code), source: error.into(), backtrace: None }
    }

    /// The handler is to be called again after this delay, whatever the error was.
    pub fn after(mut self, delay: Duration) -> Self {
        self.meaning = Meaning::Temporary(Some(delay));
        self
    }

    /// The handler is to be called again as soon as possible, whatever the error was.
    pub fn at_once(mut self) -> Self {
        self.meaning = Meaning::Temporary(None);
        self
    }

    /// Whether the handler is called again by the error's own wish.
    pub fn is_temporary(&self) -> bool {
        matches!(self.meaning, Meaning::Temporary(_) | Meaning::ChildrenRetry(_))
    }

    /// Whether the handler is not called again.
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

/// The message with its causes, each once: many errors repeat their cause in their own text.
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
    fn meanings() {
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
    fn the_text_tells_the_causes_once() {
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
    fn any_error_converts() {
        fn parse(text: &str) -> Result<u32> {
            Ok(text.parse()?)
        }
        let error = parse("x").unwrap_err();
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some(), "{error:?}");
        assert!(!error.is_permanent() && !error.is_temporary());
    }
}
