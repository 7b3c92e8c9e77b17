//! Whether a 401 is about the credentials or about the path.
//!
//! Usually the credentials have expired, and a new login helps. But an aggregated API with a broken authentication also
//! answers 401, with any credentials. If that dropped them, every request of the operator would wait for one login after
//! another. So the client asks the core API who we are, with the same credentials.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::time::Instant;

use super::{Api, Call, JSON, RequestOutcome, Safety, TARGET, Verb};
use crate::credentials::Session;

/// What every authenticated user may create, and nobody else: the newer one, and one that old servers have. Nothing is stored.
const QUESTIONS: [(&str, &str); 2] = [
    (
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#,
    ),
    (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/version","verb":"get"}}}"#,
    ),
];

/// How long the core API may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer is good for so long: many requests are refused at the same time.
const USABLE_FOR: Duration = Duration::from_secs(1);

/// Paths that were logged.
const PATHS_AT_MOST: usize = 1000;

/// What is known of refusals.
#[derive(Default)]
pub(super) struct Refused {
    /// Also the queue of those who want to know.
    last: tokio::sync::Mutex<Option<Verified>>,
    logged: Mutex<BTreeSet<String>>,
}

/// One answer of the core API.
struct Verified {
    generation: u64,
    when: Instant,
    accepted: bool,
}

impl Api {
    /// Whether the path alone is refused, while the credentials are accepted elsewhere. Logs it once per path.
    pub(super) async fn is_about_path(&self, call: &Call<'_>, session: &Session) -> bool {
        let accepted = self.is_accepted(session).await;
        let path = call.path.split('?').next().unwrap_or_default();
        if accepted && self.inner.refused.is_new(path) {
            let text = format!(
                "{} {path} was refused (401 Unauthorized), but the credentials are accepted elsewhere. \
                 Will retry only what needs this path, without a new login.",
                call.method
            );
            self.inner.log.warn(TARGET, text);
        }
        accepted
    }

    async fn is_accepted(&self, session: &Session) -> bool {
        let mut last = self.inner.refused.last.lock().await;
        let now = self.inner.clock.instant();
        if let Some(known) = &*last
            && known.generation == session.generation
            && now.saturating_duration_since(known.when) < USABLE_FOR
        {
            return known.accepted;
        }
        let accepted = self.ask_who_we_are(session).await;
        *last = Some(Verified { generation: session.generation, when: now, accepted });
        accepted
    }

    async fn ask_who_we_are(&self, session: &Session) -> bool {
        for (path, body) in QUESTIONS {
            let call = Call {
                verb: Verb::Post,
                method: Method::POST,
                path,
                accept: JSON,
                content_type: Some(JSON),
                body: Bytes::from_static(body.as_bytes()),
                safety: Safety::Repeatable,
            };
            let asking = async {
                let response = session.connection.send(call.to_request().ok()?).await.ok()?;
                let status = response.status();
                Some((status, response.into_body().collect().await.ok()?))
            };
            let answer = self.inner.clock.timeout(PATIENCE, asking).await.ok().flatten();
            let outcome = answer.as_ref().map_or(RequestOutcome::NoAnswer, |(status, _)| RequestOutcome::of(*status));
            self.inner.counters.count(call.verb, outcome);
            match answer {
                // An old server, or one that is not like the others.
                Some((StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _)) => {}
                Some((StatusCode::FORBIDDEN, body)) => return !is_about_anonymous(&body),
                Some((status, _)) => return status.is_success(),
                None => return false,
            }
        }
        // Nobody knows, so that it is taken for what it usually is: the credentials.
        false
    }
}

/// Without any credentials, one is forbidden things under this name.
fn is_about_anonymous(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("system:anonymous")
}

impl Refused {
    /// Whether the path was not logged yet.
    fn is_new(&self, path: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= PATHS_AT_MOST {
            logged.clear();
        }
        logged.insert(path.to_owned())
    }
}
