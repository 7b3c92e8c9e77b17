//! The attempts of one request: with which credentials, for how long, and when again.
//!
//! Every request but a watch goes through [`Api::request`]. Which errors are retried is decided in `answer.rs`.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::answer::{ApiError, RetryDecision, Safety, decide_retry};
use super::call::Call;
use super::counters::{RequestOutcome, Verb};
use super::{Api, TARGET};
use crate::support::clock::seconds;

impl Api {
    pub(super) async fn request(&self, call: &Call<'_>, backoffs: &[f64]) -> Result<Bytes, ApiError> {
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
                // The caller finds out whether it was applied.
                RetryDecision::Unclear => return Err(ApiError::Unclear { reason: error.to_string() }),
                RetryDecision::Repeat { .. } if matches!(&error, ApiError::Timeout { limit, .. } if *limit < self.inner.request_timeout) =>
                {
                    // Most probably, the connection was dead. If the server is just slow, it gets all its time now.
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

    /// One attempt; a second one only if the vault has other credentials.
    async fn attempt(&self, call: &Call<'_>, head_timeout: Duration) -> Result<Bytes, ApiError> {
        // The answer to a change is short; that of a list may be long.
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

    pub(super) fn count_silence(&self, call: &Call<'_>, error: ApiError) -> ApiError {
        self.inner.counters.count(call.verb, RequestOutcome::NoAnswer);
        error
    }
}

/// Why there is no answer.
enum Lost {
    /// Nothing came within this time.
    Silent(Duration),
    /// The connection could not be made, or has broken.
    Broken(kube::Error),
}

/// The pause that the server asks for, in whole or fractional seconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(seconds)
}
