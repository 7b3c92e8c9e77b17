//! A request and its answer, as the verbs see them: without the transport.
//!
//! `http/service.rs` makes a [`Request`] out of what comes over the wire or from a client in the same
//! process, and sends the [`Answer`] back.

pub mod routes;
mod verb;
pub mod query;
pub mod representation;
pub mod status;
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

pub use replay::{Answered, Call, Replay};
pub use verb::verb_of;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

/// A request with its whole body.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: User,
    /// What was learnt from outside in earlier runs of its verb.
    pub replay: Arc<Replay>,
}

/// What is sent back.
pub struct Response {
    pub code: u16,
    /// Empty for answers without a body.
    pub content_type: String,
    /// Headers of a few answers; they replace those that all answers have.
    pub headers: Vec<(header::HeaderName, &'static str)>,
    /// What the client should know, though it got what it wanted.
    pub warnings: Vec<String>,
    pub body: ResponseBody,
}

/// The connection breaks off here, since a fault says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was broken off by a fault on demand")]
pub struct Interrupted;

/// The body of an answer.
pub enum ResponseBody {
    Whole(Bytes),
    /// The lines of a watch.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Interrupted>> + Send>>),
}

impl Request {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    /// The media type of the body, without parameters; JSON if nothing is said.
    pub fn media_type(&self) -> &str {
        match self.header(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim() {
            "" => "application/json",
            given => given,
        }
    }

    pub fn representation(&self) -> Result<Representation, StatusError> {
        Representation::negotiate(self.accept(), &self.query)
    }

    /// Where the client has found the cluster.
    pub fn host(&self) -> &str {
        self.header(header::HOST)
    }

    pub fn user_agent(&self) -> &str {
        self.header(header::USER_AGENT)
    }
}

impl Response {
    pub fn json(code: u16, value: &Value) -> Self {
        Self::bytes(code, to_bytes(value).into())
    }

    pub fn bytes(code: u16, body: Bytes) -> Self {
        Self {
            code,
            content_type: "application/json".into(),
            headers: Vec::new(),
            warnings: Vec::new(),
            body: ResponseBody::Whole(body),
        }
    }

    pub fn text(code: u16, body: impl Into<String>) -> Self {
        let content_type = "text/plain; charset=utf-8".into();
        Self { content_type, ..Self::bytes(code, Bytes::from(body.into())) }
    }

    pub fn stream(lines: impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static) -> Self {
        Self { body: ResponseBody::Stream(Box::pin(lines)), ..Self::bytes(200, Bytes::new()) }
    }

    pub fn with_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The same in YAML; streams and other texts stay as they are.
    pub fn into_yaml(mut self) -> Self {
        let ResponseBody::Whole(bytes) = &self.body else { return self };
        let value = serde_json::from_slice::<Value>(bytes).ok().filter(|_| self.content_type == "application/json");
        if let Some(value) = value {
            self.body = ResponseBody::Whole(to_yaml(&value).into());
            self.content_type = "application/yaml".into();
        }
        self
    }

    /// An answer of nothing but its code.
    pub fn empty(code: u16) -> Self {
        Self::bytes(code, Bytes::new()).with_type("")
    }

    pub fn with_header(mut self, name: header::HeaderName, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

impl From<StatusError> for Response {
    fn from(status_error: StatusError) -> Self {
        Self::json(status_error.code, &status_error.to_value()).with_warnings(status_error.warnings)
    }
}
