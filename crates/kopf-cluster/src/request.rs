//! A request and its response, as the verbs see them: without the transport.
//!
//! `http/service.rs` builds a [`Request`] from HTTP and sends the [`Response`] back.

pub(crate) mod routes;
mod verb;
pub(crate) mod query;
pub(crate) mod representation;
pub(crate) mod status;
mod replay;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use crate::codec::json::to_bytes;
use crate::codec::yaml_writer::to_yaml;
use query::Query;
use representation::Representation;
use status::StatusError;

pub(crate) use replay::{Answered, Call, Replay};
pub(crate) use verb::verb_of;

/// The user who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub groups: Vec<String>,
}

/// A request with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: User,
    /// What was learnt from outside in earlier runs of its verb.
    pub replay: Arc<Replay>,
}

/// The response to a request.
pub(crate) struct Response {
    pub code: u16,
    /// Empty for responses without a body.
    pub content_type: String,
    /// Extra headers; they replace the headers that all responses have.
    pub headers: Vec<(header::HeaderName, &'static str)>,
    /// Warnings for the client about a successful request.
    pub warnings: Vec<String>,
    pub body: ResponseBody,
}

/// An injected fault broke the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was broken off by a fault on demand")]
pub struct Interrupted;

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Bytes),
    /// The lines of a watch.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Interrupted>> + Send>>),
}

impl Request {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    /// The media type of the body, without parameters; JSON by default.
    pub(crate) fn media_type(&self) -> &str {
        match self.header(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim() {
            "" => "application/json",
            given => given,
        }
    }

    pub(crate) fn representation(&self) -> Result<Representation, StatusError> {
        Representation::negotiate(self.accept(), &self.query)
    }

    /// The host that the client connected to.
    pub(crate) fn host(&self) -> &str {
        self.header(header::HOST)
    }

    pub(crate) fn user_agent(&self) -> &str {
        self.header(header::USER_AGENT)
    }
}

impl Response {
    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::bytes(code, to_bytes(value).into())
    }

    pub(crate) fn bytes(code: u16, body: Bytes) -> Self {
        Self {
            code,
            content_type: "application/json".into(),
            headers: Vec::new(),
            warnings: Vec::new(),
            body: ResponseBody::Whole(body),
        }
    }

    pub(crate) fn text(code: u16, body: impl Into<String>) -> Self {
        let content_type = "text/plain; charset=utf-8".into();
        Self { content_type, ..Self::bytes(code, Bytes::from(body.into())) }
    }

    pub(crate) fn stream(lines: impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static) -> Self {
        Self { body: ResponseBody::Stream(Box::pin(lines)), ..Self::bytes(200, Bytes::new()) }
    }

    pub(crate) fn with_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The same response in YAML; streams and other content types stay unchanged.
    pub(crate) fn into_yaml(mut self) -> Self {
        let ResponseBody::Whole(bytes) = &self.body else { return self };
        let value = serde_json::from_slice::<Value>(bytes).ok().filter(|_| self.content_type == "application/json");
        if let Some(value) = value {
            self.body = ResponseBody::Whole(to_yaml(&value).into());
            self.content_type = "application/yaml".into();
        }
        self
    }

    /// A response with a status code and nothing else.
    pub(crate) fn empty(code: u16) -> Self {
        Self::bytes(code, Bytes::new()).with_type("")
    }

    pub(crate) fn with_header(mut self, name: header::HeaderName, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

impl From<StatusError> for Response {
    fn from(status_error: StatusError) -> Self {
        Self::json(status_error.code, &status_error.to_value()).with_warnings(status_error.warnings)
    }
}
