//! What an answer of the API means: an error by its code, and whether to try again.
//!
//! Called by the request layer only; the error type is what everybody else sees.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// How much of an answer that is not a `Status` is shown: it may be a page of a proxy.
const LONGEST_TEXT: usize = 256;

/// Why a request gave no result. Each variant names the request.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 401, and there are no other credentials to be had.
    #[error("{0}")]
    Unauthorized(Box<Refusal>),
    /// 403: no permission.
    #[error("{0}")]
    Forbidden(Box<Refusal>),
    /// 404: no such object, or no such resource.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// 409: the object has changed meanwhile.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// 410: the version to go on from is too old.
    #[error("{0}")]
    Gone(Box<Refusal>),
    /// 422: the content is not acceptable, or a test of a JSON patch has failed.
    #[error("{0}")]
    Unprocessable(Box<Refusal>),
    /// 429: the server is busy, or not ready yet.
    #[error("{0}")]
    TooManyRequests(Box<Refusal>),
    /// Any other 4xx.
    #[error("{0}")]
    Client(Box<Refusal>),
    /// Any 5xx, and what is no known code at all.
    #[error("{0}")]
    Server(Box<Refusal>),
    /// It may have been done or not: the answer was lost, late, or does not tell.
    #[error("{reason} (the outcome is unclear)")]
    Unclear { reason: String },
    /// No answer in time.
    #[error("{what}: no answer in {} seconds", limit.as_secs_f64())]
    Timeout { what: String, limit: Duration },
    /// The connection could not be made, so that the request was not sent.
    #[error("{what}: cannot connect: {}", root_of(source.as_ref()))]
    Connecting { what: String, source: Box<dyn StdError + Send + Sync> },
    /// The connection was lost after the request may have been sent.
    #[error("{what}: the connection was lost: {}", root_of(source.as_ref()))]
    Connection { what: String, source: Box<dyn StdError + Send + Sync> },
    /// The answer is not what it should be.
    #[error("{what}: the answer cannot be read: {source}")]
    Decoding { what: String, source: serde_json::Error },
    /// The path or the headers are not acceptable for HTTP.
    #[error("{what}: the request cannot be made: {source}")]
    Building { what: String, source: http::Error },
}

/// The innermost reason, which says most: the outer ones only tell through which layers it came.
fn root_of<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    chain(error).last().unwrap_or(error)
}

/// An answer with a code of 400 or above.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusal {
    /// The method and the path.
    pub what: String,
    /// The code of HTTP.
    pub code: u16,
    /// The `reason` of the `Status`, such as `AlreadyExists`.
    pub reason: Option<String>,
    /// The `message` of the `Status`, or the beginning of the text.
    pub message: Option<String>,
    /// The `details` of the `Status`.
    pub details: Option<Value>,
    /// The pause that the server asks for.
    pub retry_after: Option<Duration>,
    /// Where to go on with a listing that took too long.
    pub continue_token: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, self.code)?;
        match (&self.message, &self.reason) {
            (Some(text), _) | (None, Some(text)) => write!(formatter, " {text}"),
            (None, None) => Ok(()),
        }
    }
}

/// The parts of a `Status` that matter.
#[derive(Deserialize)]
struct Status {
    kind: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Value>,
    code: Option<u16>,
    #[serde(default)]
    metadata: ListMetadata,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

impl ApiError {
    /// Nobody has answered.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Connecting { .. } | Self::Connection { .. })
    }

    /// The error of an answer with a bad code.
    pub(super) fn refused(what: String, status: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Self {
        let decoded = serde_json::from_slice::<Status>(body).ok();
        let refusal = match decoded {
            Some(decoded) if decoded.kind.as_deref() == Some("Status") => {
                let asked = decoded.details.as_ref().and_then(|details| details.get("retryAfterSeconds"));
                let asked =
                    asked.and_then(Value::as_f64).filter(|asked| *asked > 0.0).map(crate::support::clock::seconds);
                Refusal {
                    what,
                    code: status.as_u16(),
                    reason: decoded.reason,
                    message: decoded.message,
                    retry_after: retry_after.or(asked),
                    details: decoded.details,
                    continue_token: decoded.metadata.continue_token.filter(|token| !token.is_empty()),
                }
            }
            // JSON of another kind may hold anything, secrets included: it is not shown.
            Some(_) => Refusal { what, code: status.as_u16(), retry_after, ..Refusal::default() },
            None => {
                let message = shortened(&String::from_utf8_lossy(body));
                Refusal { what, code: status.as_u16(), message, retry_after, ..Refusal::default() }
            }
        };
        Self::by_code(refusal)
    }

    /// The error that comes inside of a watch stream, as a `Status` object.
    pub(crate) fn in_stream(what: String, object: &[u8]) -> Self {
        let code = serde_json::from_slice::<Status>(object).ok().and_then(|status| status.code).unwrap_or(500);
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::refused(what, status, object, None)
    }

    fn by_code(refusal: Refusal) -> Self {
        let variant = match refusal.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Gone,
            422 => Self::Unprocessable,
            429 => Self::TooManyRequests,
            400..=499 => Self::Client,
            _ => Self::Server,
        };
        variant(Box::new(refusal))
    }

    /// The error of a request without an answer.
    pub(super) fn connection(what: String, source: kube::Error) -> Self {
        let unsent = matches!(source, kube::Error::Auth(_)) || chain(&source).any(is_about_connecting);
        let source: Box<dyn StdError + Send + Sync> = Box::new(source);
        if unsent { Self::Connecting { what, source } } else { Self::Connection { what, source } }
    }

    /// The error of an answer that broke off.
    pub(super) fn broken(what: String, source: kube::Error) -> Self {
        Self::Connection { what, source: Box::new(source) }
    }

    /// The answer of the server, if there was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unauthorized(refusal)
            | Self::Forbidden(refusal)
            | Self::NotFound(refusal)
            | Self::Conflict(refusal)
            | Self::Gone(refusal)
            | Self::Unprocessable(refusal)
            | Self::TooManyRequests(refusal)
            | Self::Client(refusal)
            | Self::Server(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The pause that the server asks for, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(|refusal| refusal.retry_after)
    }
}

/// Whether a request may be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Safety {
    /// Twice is as good as once.
    Repeatable,
    /// A second one must not follow one that may have been done.
    OnlyOnce,
}

/// What to do after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Try again, not before what the server asks for.
    Repeat { retry_after: Option<Duration> },
    /// The next try would fare no better.
    Final,
    /// It may have been done; nobody but the caller can find out.
    Unclear,
}

/// Decides after a failed try.
pub(super) fn decide_retry(safety: Safety, error: &ApiError) -> RetryDecision {
    let repeat = RetryDecision::Repeat { retry_after: error.retry_after() };
    let lost = match safety {
        Safety::Repeatable => repeat,
        Safety::OnlyOnce => RetryDecision::Unclear,
    };
    match error {
        ApiError::TooManyRequests(_) | ApiError::Unauthorized(_) | ApiError::Connecting { .. } => repeat,
        // A server that says when to come back has not begun with the request.
        ApiError::Server(refusal) if refusal.code == 503 && refusal.retry_after.is_some() => repeat,
        ApiError::Server(_) | ApiError::Timeout { .. } | ApiError::Connection { .. } => lost,
        _ => RetryDecision::Final,
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

fn is_about_connecting(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(hyper_util::client::legacy::Error::is_connect)
}

fn shortened(text: &str) -> Option<String> {
    let text = text.trim();
    if text.chars().count() < LONGEST_TEXT {
        return Some(text.to_owned()).filter(|text| !text.is_empty());
    }
    Some(text.chars().take(LONGEST_TEXT - 3).chain("...".chars()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, body: &str) -> ApiError {
        ApiError::refused("GET /x".into(), StatusCode::from_u16(code).unwrap(), body.as_bytes(), None)
    }

    #[test]
    fn refusals_tell_what_the_server_said() {
        let status = r#"{"kind":"Status","message":"no way","reason":"Nope","details":{"retryAfterSeconds":2}}"#;
        let error = refused(403, status);
        assert!(matches!(error, ApiError::Forbidden(_)));
        assert_eq!(error.to_string(), "GET /x: 403 no way");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
        assert_eq!(error.refusal().unwrap().reason.as_deref(), Some("Nope"));
        let cases = [
            (500, r#"{"kind":"Secret","message":"hidden"}"#.to_owned(), "GET /x: 500".to_owned()),
            (502, " bad gateway \n".to_owned(), "GET /x: 502 bad gateway".to_owned()),
            (502, "x".repeat(1000), format!("GET /x: 502 {}...", "x".repeat(253))),
            (404, String::new(), "GET /x: 404".to_owned()),
        ];
        for (code, body, expected) in cases {
            assert_eq!(refused(code, &body).to_string(), expected);
        }
    }

    #[test]
    fn expired_listings_tell_where_to_go_on() {
        let token = |metadata: &str| {
            let error = refused(410, &format!(r#"{{"kind":"Status","metadata":{metadata},"code":410}}"#));
            error.refusal().unwrap().continue_token.clone()
        };
        assert_eq!(token(r#"{"continue":"abc"}"#).as_deref(), Some("abc"));
        assert_eq!(token(r#"{"continue":""}"#), None);
        assert_eq!(token("{}"), None);
    }

    #[test]
    fn retry_decisions() {
        let repeat = RetryDecision::Repeat { retry_after: None };
        let timeout = || ApiError::Timeout { what: String::new(), limit: Duration::ZERO };
        let lost = || ApiError::Connection { what: String::new(), source: "lost".into() };
        let unsent = || ApiError::Connecting { what: String::new(), source: "refused".into() };
        let busy = r#"{"kind":"Status","details":{"retryAfterSeconds":1}}"#;
        let later = RetryDecision::Repeat { retry_after: Some(Duration::from_secs(1)) };
        // The error, then the decision for what may be repeated and for what may not.
        let cases = [
            (refused(429, ""), repeat, repeat),
            (refused(429, busy), later, later),
            (refused(503, busy), later, later),
            (refused(503, ""), repeat, RetryDecision::Unclear),
            (refused(500, ""), repeat, RetryDecision::Unclear),
            (refused(504, busy), later, RetryDecision::Unclear),
            (timeout(), repeat, RetryDecision::Unclear),
            (lost(), repeat, RetryDecision::Unclear),
            (unsent(), repeat, repeat),
            (refused(401, ""), repeat, repeat),
            (refused(400, ""), RetryDecision::Final, RetryDecision::Final),
            (refused(403, ""), RetryDecision::Final, RetryDecision::Final),
            (refused(404, ""), RetryDecision::Final, RetryDecision::Final),
            (refused(409, ""), RetryDecision::Final, RetryDecision::Final),
            (refused(410, ""), RetryDecision::Final, RetryDecision::Final),
            (refused(422, ""), RetryDecision::Final, RetryDecision::Final),
        ];
        for (error, repeatable, only_once) in cases {
            assert_eq!(decide_retry(Safety::Repeatable, &error), repeatable, "{error}");
            assert_eq!(decide_retry(Safety::OnlyOnce, &error), only_once, "{error}");
        }
    }

    #[test]
    fn errors_in_streams_have_their_own_code() {
        let error = ApiError::in_stream("WATCH /x".into(), br#"{"kind":"Status","code":410,"message":"too old"}"#);
        assert!(matches!(error, ApiError::Gone(_)), "{error}");
        let error = ApiError::in_stream("WATCH /x".into(), b"[]");
        assert!(matches!(error, ApiError::Server(_)), "{error}");
    }
}
