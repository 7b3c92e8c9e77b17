//! Requests to the API: bounded in number and time, retried where that is safe.
//!
//! Everything in the engine talks to the cluster through [`Api`]. It takes the client from the vault, reports refused
//! credentials there, and returns the bytes of answers, or [`ApiError`]s.

mod call;
mod attempts;
mod answer;
mod counters;
mod prefetch;
mod refused;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::credentials::{Answer, REQUESTS_IN_FLIGHT, Session, Vault};
use crate::settings::NetworkingSettings;
use crate::support::clock::{Clock, seconds};
use crate::support::log::Log;
use crate::support::pacing::Pacing;

use answer::Safety;
pub use answer::{ApiError, Refusal};
use attempts::retry_after;
use call::Call;
pub(crate) use counters::{RequestCounters, RequestOutcome, Verb};
use prefetch::{PrefetchedPages, USABLE_FOR};
use refused::Refused;
use slots::Slots;

const TARGET: &str = "kopf.engine.client";
const JSON: &str = "application/json";

/// Pages of lists on their way at the same time. They have separate slots: an operator for many resources and namespaces
/// must not hold all first pages in memory at once, nor must the pages wait for the patches of objects on earlier ones.
const LISTS_IN_FLIGHT: usize = 4;

/// The time for one request where the settings set no limit.
const LONGEST_REQUEST: Duration = Duration::from_secs(300);

/// The time for the head of an answer, if the settings do not change the time for a request. A server that is alive
/// has answered by then: kube-apiserver itself gives up a request after 60 seconds. A longer silence most probably
/// means that the server is gone, behind an address that has moved.
const HEAD_TIMEOUT: Duration = Duration::from_secs(65);

/// The same for watches, whose heads come before the first event.
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

    /// Reports the number of open requests to the pacing of the runtime.
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

    /// One page of a list. The caller decides about retries, since it repeats lists itself.
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

    /// Requests a page of a list that a stream probably needs soon: [`list_page`](Self::list_page) finds it then.
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

    /// Drops the prefetched pages: the operator pauses, and other operators change the objects meanwhile.
    pub(crate) fn forget_pages(&self) {
        self.inner.prefetched.clear();
    }

    /// Changes an object; the answer is its latest body.
    ///
    /// If a patch may have been applied, but got no answer, the client does not repeat it: the error is
    /// [`ApiError::Unclear`], and the caller finds out by the next event or patch.
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

    /// Creates an object of which a duplicate does no harm, such as an event.
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

    /// Opens a watch, in one attempt. It takes none of the slots of the other requests.
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

    /// The server is silent since the instant, though something should have come: the connections from before may be
    /// dead, and new requests avoid them.
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

    /// Whether the server answers anything in time.
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

    /// Waits while many requests wait: more work would only take more memory then.
    pub(crate) async fn wait_for_capacity(&self) {
        self.inner.slots.wait_for_capacity().await;
    }

    /// How many requests were made, by verb and outcome.
    pub fn counters(&self) -> &RequestCounters {
        &self.inner.counters
    }
}

/// How many attempts one page of a list gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAttempts {
    /// The caller gets the first error.
    Once,
    /// As any other request, by the backoffs of the settings.
    WithBackoffs,
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

#[cfg(test)]
mod tests;
