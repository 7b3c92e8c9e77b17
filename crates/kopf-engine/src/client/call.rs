//! One request, and how it is described in messages. The API makes one per call, and sends it once per attempt.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use kube::client::Body;

use super::answer::{ApiError, Safety};
use super::counters::Verb;
use crate::credentials::Session;

const AGENT: &str = concat!("kopf/", env!("CARGO_PKG_VERSION"));

/// One request, the same for every attempt.
pub(super) struct Call<'a> {
    pub(super) verb: Verb,
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) accept: &'a str,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: Bytes,
    pub(super) safety: Safety,
}

impl<'a> Call<'a> {
    pub(super) fn read(verb: Verb, path: &'a str, accept: &'a str) -> Self {
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

    pub(super) fn to_request(&self) -> Result<Request<Body>, ApiError> {
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

    pub(super) fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// With the address: where the server is not reached, it is the first thing to look at.
    pub(super) fn what_at(&self, session: &Session) -> String {
        format!("{} {}{}", self.method, session.server.as_deref().unwrap_or_default(), self.path)
    }
}
