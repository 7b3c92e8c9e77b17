//! Requests to the API: bounded in number and time, repeated where that is safe.
//!
//! Everything in the engine that talks to the cluster does it through [`Api`]. It takes the client
//! from the vault, reports refused credentials there, and turns answers into bytes or [`ApiError`]s.

mod answer;
mod counters;
mod prefetch;
mod refused;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::credentials::{Answer, REQUESTS_IN_FLIGHT, Session, Vault};
use crate::settings::NetworkingSettings;
use crate::support::clock::{Clock, seconds};
use crate::support::log::Log;
use crate::support::pacing::Pacing;

pub use answer::{ApiError, Refusal};
use answer::{RetryDecision, Safety, decide_retry};
pub(crate) use counters::{RequestCounters, RequestOutcome, Verb};
use prefetch::{PrefetchedPages, USABLE_FOR};
use refused::Refused;
use slots::Slots;

const TARGET: &str = "kopf.engine.client";
const AGENT: &str = concat!("kopf/", env!("CARGO_PKG_VERSION"));
const JSON: &str = "application/json";

/// Pages of lists on their way at the same time. They have slots of their own: a start with many kinds and namespaces
/// must not hold all pages in memory at once, nor must the pages wait for what is being done about earlier ones.
const LISTS_IN_FLIGHT: usize = 4;

/// The time for one request where the settings set no limit.
const LONGEST_REQUEST: Duration = Duration::from_secs(300);

/// The time for the head of an answer, if the settings do not change the time for a request. A server that is alive
/// has answered by then: kube-apiserver itself gives up a request after 60 seconds. A longer silence most probably
/// means that the server is gone, behind an address that has moved.
const HEAD_TIMEOUT: Duration = Duration::from_secs(65);

/// The same for watches, whose heads come before there is anything to tell.
const WATCH_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How a patch describes the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A partial object, merged into the stored one (RFC 7386).
    Merge,
    /// A list of operations (RFC 6902).
    Json,
}

/// A cheap handle to the API of one cluster.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
    pacing: Pacing,
}

struct Inner {
    vault: Vault,
    clock: Clock,
    log: Log,
    request_timeout: Duration,
    head_timeout: Duration,
    error_backoffs: Vec<f64>,
    enforce_retry_after: bool,
    slots: Slots,
    list_slots: Slots,
    prefetched: PrefetchedPages,
    counters: RequestCounters,
    refused: Refused,
}

/// One request, the same for every attempt.
struct Call<'a> {
    verb: Verb,
    method: Method,
    path: &'a str,
    accept: &'a str,
    content_type: Option<&'static str>,
    body: Bytes,
    safety: Safety,
}

impl Api {
    pub fn new(vault: Vault, settings: &NetworkingSettings, clock: Clock, log: Log) -> Self {
        let request_timeout = settings.request_timeout.map_or(LONGEST_REQUEST, seconds);
        Self {
            inner: Arc::new(Inner {
                vault,
                clock,
                log,
                request_timeout,
                // A user who has set a time knows the server better.
                head_timeout: if request_timeout == LONGEST_REQUEST { HEAD_TIMEOUT } else { request_timeout },
                error_backoffs: settings.error_backoffs.clone(),
                enforce_retry_after: settings.enforce_retry_after,
                slots: Slots::new(REQUESTS_IN_FLIGHT),
                list_slots: Slots::new(LISTS_IN_FLIGHT),
                prefetched: PrefetchedPages::default(),
                counters: RequestCounters::default(),
                refused: Refused::default(),
            }),
            pacing: Pacing::default(),
        }
    }

    /// Tells the runtime how many requests are open.
    pub fn paced_by(self, pacing: Pacing) -> Self {
        Self { pacing, ..self }
    }

    /// The body of an answer to GET.
    pub async fn get(&self, path: &str) -> Result<Bytes, ApiError> {
        self.request(&Call::read(Verb::Get, path, JSON), &self.inner.error_backoffs).await
    }

    /// As [`get`](Self::get), in another representation, and optionally with other retries.
    pub async fn get_as(&self, path: &str, accept: &str, backoffs: Option<&[f64]>) -> Result<Bytes, ApiError> {
        self.request(&Call::read(Verb::Get, path, accept), backoffs.unwrap_or(&self.inner.error_backoffs)).await
    }

    /// As [`get`](Self::get), decoded.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let body = self.get(path).await?;
        serde_json::from_slice(&body).map_err(|source| ApiError::Decoding { what: format!("GET {path}"), source })
    }

    /// One page of a list. The caller says how often it is tried, since it repeats lists itself.
    pub async fn list_page(&self, path: &str, attempts: ListAttempts) -> Result<Bytes, ApiError> {
        if let Some(prefetched) = self.inner.prefetched.take(path)
            && let Some(page) = prefetched.finish(self.inner.clock.instant()).await
        {
            return Ok(page);
        }
        let backoffs: &[f64] = match attempts {
            ListAttempts::Once => &[],
            ListAttempts::WithBackoffs => &self.inner.error_backoffs,
        };
        self.request(&Call::read(Verb::List, path, JSON), backoffs).await
    }

    /// Asks for a page of a list which is probably needed soon: [`list_page`](Self::list_page) finds it then.
    pub(crate) fn prefetch_page(&self, path: String) {
        let (api, url) = (self.clone(), path.clone());
        let asking = async move { api.request(&Call::read(Verb::List, &url, JSON), &[]).await.ok() };
        self.inner.prefetched.keep(&path, self.inner.clock.instant(), asking);
        let inner = Arc::downgrade(&self.inner);
        let clock = self.inner.clock.clone();
        tokio::spawn(async move {
            clock.sleep(USABLE_FOR).await;
            inner.upgrade().and_then(|inner| inner.prefetched.take(&path))
        });
    }

    /// Drops the pages that were asked for in advance: the operator pauses, and others change the objects meanwhile.
    pub(crate) fn forget_pages(&self) {
        self.inner.prefetched.clear();
    }

    /// Changes an object; the answer is its latest body.
    ///
    /// A patch that may have been applied, but was not answered, is not repeated: the error is
    /// [`ApiError::Unclear`] then, and the caller finds out by the next event or patch.
    pub async fn patch(&self, path: &str, kind: PatchKind, body: Bytes) -> Result<Bytes, ApiError> {
        let content_type = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
        };
        let call = Call {
            verb: Verb::Patch,
            method: Method::PATCH,
            path,
            accept: JSON,
            content_type: Some(content_type),
            body,
            safety: Safety::OnlyOnce,
        };
        self.request(&call, &self.inner.error_backoffs).await
    }

    /// Creates something of which a second one does no harm, such as an event.
    pub async fn post(&self, path: &str, body: Bytes, backoffs: Option<&[f64]>) -> Result<Bytes, ApiError> {
        let call = Call {
            verb: Verb::Post,
            method: Method::POST,
            path,
            accept: JSON,
            content_type: Some(JSON),
            body,
            safety: Safety::Repeatable,
        };
        self.request(&call, backoffs.unwrap_or(&self.inner.error_backoffs)).await
    }

    /// Opens a watch. It is tried once, and takes none of the slots of the other requests.
    pub async fn watch_stream(&self, path: &str, connect_timeout: Option<Duration>) -> Result<ByteStream, ApiError> {
        let call = Call::read(Verb::Watch, path, JSON);
        let limit = connect_timeout.unwrap_or(self.inner.request_timeout.min(WATCH_HEAD_TIMEOUT));
        loop {
            let session = self.inner.vault.client().await;
            let sent = self.inner.clock.instant();
            let sending = session.connection.send(call.to_request()?);
            let response = match self.inner.clock.timeout(limit, sending).await {
                Err(_) => {
                    session.connection.distrust(sent);
                    Err(self.count_silence(&call, ApiError::Timeout { what: call.what(), limit }))
                }
                Ok(Err(source)) => Err(self.count_silence(&call, ApiError::connection(call.what_at(&session), source))),
                Ok(Ok(response)) => Ok(response),
            }?;
            let status = response.status();
            self.inner.counters.count(call.verb, RequestOutcome::of(status));
            if self.has_other_credentials(&call, &session, status).await {
                continue;
            }
            if status.is_success() {
                return Ok(ByteStream { body: response.into_body(), what: call.what() });
            }
            let retry_after = retry_after(response.headers());
            let reading = self.inner.clock.timeout(limit, response.into_body().collect()).await;
            let body = reading.ok().and_then(Result::ok).unwrap_or_default();
            return Err(ApiError::refused(call.what(), status, &body, retry_after));
        }
    }

    /// The server is silent since the instant, though something should have come: what was connected before may be
    /// dead, and is not used for new requests.
    pub(crate) fn distrust_connections(&self, since: Instant) {
        if let Some(session) = self.inner.vault.current() {
            session.connection.distrust(since);
        }
    }

    /// Decides about the credentials by the answer: whether the request is to be sent again with others.
    async fn has_other_credentials(&self, call: &Call<'_>, session: &Session, status: StatusCode) -> bool {
        if status != StatusCode::UNAUTHORIZED {
            self.inner.vault.confirm(session.generation);
            return false;
        }
        if self.inner.vault.is_fixed() || self.is_about_path(call, session).await {
            return false;
        }
        self.inner.vault.invalidate(session.generation)
    }

    /// Whether the server says anything at all in time.
    pub async fn is_answering(&self, limit: Duration) -> bool {
        let call = Call::read(Verb::Get, "/version", JSON);
        let asking = async {
            let session = self.inner.vault.client().await;
            let response = session.connection.send(call.to_request().ok()?).await.ok()?;
            Some(response.status())
        };
        let answer = self.inner.clock.timeout(limit, asking).await.ok().flatten();
        self.inner.counters.count(call.verb, answer.map_or(RequestOutcome::NoAnswer, RequestOutcome::of));
        answer.is_some()
    }

    /// The namespace for what belongs to no namespace, by the current credentials.
    pub async fn default_namespace(&self) -> String {
        self.inner.vault.client().await.connection.client().default_namespace().to_owned()
    }

    /// Waits as long as many requests wait: then more work would only mean more to be kept in memory.
    pub(crate) async fn wait_for_capacity(&self) {
        self.inner.slots.wait_for_capacity().await;
    }

    /// How many requests were made, by verb and outcome.
    pub fn counters(&self) -> &RequestCounters {
        &self.inner.counters
    }

    async fn request(&self, call: &Call<'_>, backoffs: &[f64]) -> Result<Bytes, ApiError> {
        let count = backoffs.len() + 1;
        let mut backoffs = backoffs.iter().copied().map(seconds);
        let mut attempt = 1;
        let mut head_timeout = self.inner.head_timeout;
        loop {
            let error = match self.attempt(call, head_timeout).await {
                Ok(body) => {
                    if attempt > 1 {
                        let what = call.what();
                        self.inner.log.debug(TARGET, format!("Request attempt #{attempt}/{count} succeeded: {what}"));
                    }
                    return Ok(body);
                }
                Err(error) => error,
            };
            let retry_after = match decide_retry(call.safety, &error) {
                RetryDecision::Final => return Err(error),
                // The caller finds out what has become of it.
                RetryDecision::Unclear => return Err(ApiError::Unclear { reason: error.to_string() }),
                RetryDecision::Repeat { .. } if matches!(&error, ApiError::Timeout { limit, .. } if *limit < self.inner.request_timeout) =>
                {
                    // The connection was a dead one, most probably. If the server is just slow, it gets all its time now.
                    head_timeout = self.inner.request_timeout;
                    let text =
                        format!("Request attempt #{attempt}/{count} failed; will retry on a new connection: {error}");
                    self.inner.log.error(TARGET, text);
                    continue;
                }
                RetryDecision::Repeat { retry_after } => retry_after,
            };
            let Some(backoff) = backoffs.next() else {
                if count > 1 {
                    let text = format!("Request attempt #{attempt}/{count} failed; escalating: {error}");
                    self.inner.log.error(TARGET, text);
                }
                return Err(error);
            };
            let pause = match retry_after {
                Some(asked) if self.inner.enforce_retry_after || asked > backoff => asked,
                _ => backoff,
            };
            let text = format!("Request attempt #{attempt}/{count} failed; will retry: {error}");
            self.inner.log.error(TARGET, text);
            self.inner.clock.sleep(pause).await;
            attempt += 1;
        }
    }

    /// One try; only a login in between makes it a second one.
    async fn attempt(&self, call: &Call<'_>, head_timeout: Duration) -> Result<Bytes, ApiError> {
        // The answer to a change is short; that of a list may go on and on.
        let limit = match call.safety {
            Safety::OnlyOnce => head_timeout,
            Safety::Repeatable => self.inner.request_timeout,
        };
        let clock = &self.inner.clock;
        loop {
            let session = self.inner.vault.client().await;
            let request = call.to_request()?;
            let slots = if call.verb == Verb::List { &self.inner.list_slots } else { &self.inner.slots };
            let slot = slots.take().await;
            let open = self.pacing.open_request();
            let sent = clock.instant();
            let exchange = async {
                let sending = session.connection.send(request);
                let response = match head_timeout < limit {
                    true => clock.timeout(head_timeout, sending).await.map_err(|_| Lost::Silent(head_timeout))?,
                    // One timer is enough: the head cannot come later than the whole answer.
                    false => sending.await,
                };
                let (parts, body) = response.map_err(Lost::Broken)?.into_parts();
                let body = body.collect().await.map_err(Lost::Broken)?;
                Ok((parts.status, parts.headers, body))
            };
            let answer = clock.timeout(limit, exchange).await.unwrap_or(Err(Lost::Silent(limit)));
            // Another task returns the connection to the pool; without this, the next request would open a new one.
            tokio::task::yield_now().await;
            drop((open, slot));
            let (status, headers, body) = match answer {
                Err(Lost::Silent(limit)) => {
                    session.connection.distrust(sent);
                    Err(self.count_silence(call, ApiError::Timeout { what: call.what(), limit }))
                }
                Err(Lost::Broken(source)) => {
                    Err(self.count_silence(call, ApiError::connection(call.what_at(&session), source)))
                }
                Ok(answer) => Ok(answer),
            }?;
            self.inner.counters.count(call.verb, RequestOutcome::of(status));
            if self.has_other_credentials(call, &session, status).await {
                continue;
            }
            if status.is_success() {
                return Ok(body);
            }
            return Err(ApiError::refused(call.what(), status, &body, retry_after(&headers)));
        }
    }

    fn count_silence(&self, call: &Call<'_>, error: ApiError) -> ApiError {
        self.inner.counters.count(call.verb, RequestOutcome::NoAnswer);
        error
    }
}

/// Why there is no answer.
enum Lost {
    /// Nothing came for so long.
    Silent(Duration),
    /// The connection could not be made, or has broken.
    Broken(kube::Error),
}

/// How often one page of a list is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAttempts {
    /// An error is the caller's business at once.
    Once,
    /// As any other request, by the backoffs of the settings.
    WithBackoffs,
}

impl<'a> Call<'a> {
    fn read(verb: Verb, path: &'a str, accept: &'a str) -> Self {
        Self {
            verb,
            method: Method::GET,
            path,
            accept,
            content_type: None,
            body: Bytes::new(),
            safety: Safety::Repeatable,
        }
    }

    fn to_request(&self) -> Result<Request<Body>, ApiError> {
        let mut builder = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, self.accept);
        if let Some(content_type) = self.content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        builder.body(Body::from(self.body.clone())).map_err(|source| ApiError::Building { what: self.what(), source })
    }

    fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// With the address: where the server is not reached, it is the first thing to look at.
    fn what_at(&self, session: &Session) -> String {
        format!("{} {}{}", self.method, session.server.as_deref().unwrap_or_default(), self.path)
    }
}

/// The bytes of a watch, as they come.
pub struct ByteStream {
    body: Answer,
    what: String,
}

impl ByteStream {
    /// The next bytes; None at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        let next = self.body.next().await?;
        Some(next.map_err(|source| ApiError::broken(self.what.clone(), source)))
    }
}

/// A path with the parameters of a query.
pub(crate) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut url = path.to_owned();
    for (index, (name, value)) in parameters.iter().enumerate() {
        url.push(if index == 0 { '?' } else { '&' });
        url.push_str(name);
        url.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                url.push(char::from(byte));
            } else {
                url.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    url
}

/// The pause that the server asks for, in whole or broken seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        assert_eq!(with_query("/a", &[]), "/a");
        assert_eq!(with_query("/a", &[("x", "1"), ("l", "a in (b,é)")]), "/a?x=1&l=a%20in%20%28b%2C%C3%A9%29");
    }

    #[test]
    fn pauses_of_the_server() {
        let asked = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers)
        };
        assert_eq!(asked("3"), Some(Duration::from_secs(3)));
        assert_eq!(asked("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
