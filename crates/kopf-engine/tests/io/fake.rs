//! A scripted API: every request is recorded and answered by a function of the test.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;
use kopf_engine::{Api, Clock, Log, NetworkingSettings, Record, Severity, Sink, Vault};
use kube::client::Body;
use serde_json::{Value, json};

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Seen {
    pub(crate) fn url(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// A parameter of the query, not decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// How a request is answered.
pub(crate) enum Answer {
    /// A code and a JSON body.
    Json(u16, Value),
    /// A `Status` with the code and a `Retry-After`.
    Later(u16, &'static str),
    /// 200, and then step by step.
    Stream(Vec<Step>),
    /// 200 and a JSON body, after a pause.
    Late(Duration, Value),
    /// Nothing ever comes.
    Silence,
    /// The connection breaks instead of an answer.
    Broken,
}

/// A step of a stream. After the last one the stream stays open in silence.
#[derive(Clone)]
pub(crate) enum Step {
    Line(Value),
    /// Bytes as they are, without a line end.
    Raw(&'static str),
    Wait(Duration),
    /// The normal end.
    End,
    /// The connection breaks.
    Break,
}

/// An answer with an error of the code.
pub(crate) fn status(code: u16) -> Answer {
    Answer::Json(code, json!({"kind": "Status", "code": code, "message": format!("code {code}")}))
}

type Responder = Box<dyn FnMut(&Seen) -> Answer + Send>;

/// The API, the log, and everything made of them.
pub(crate) struct Fake {
    requests: Arc<Mutex<Vec<Seen>>>,
    logs: Arc<Mutex<Vec<(Severity, String)>>>,
    pub client: kube::Client,
    pub clock: Clock,
    pub log: Log,
}

impl Fake {
    pub(crate) fn new(respond: impl FnMut(&Seen) -> Answer + Send + 'static) -> Self {
        let requests: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let respond: Arc<Mutex<Responder>> = Arc::new(Mutex::new(Box::new(respond)));
        let recorded = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (respond, recorded) = (Arc::clone(&respond), Arc::clone(&recorded));
            async move {
                let (parts, body) = request.into_parts();
                let body = String::from_utf8(body.collect_bytes().await?.to_vec())?;
                let seen = Seen {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    headers: parts.headers,
                    body,
                };
                recorded.lock().unwrap().push(seen.clone());
                let answer = (respond.lock().unwrap())(&seen);
                to_response(answer).await
            }
        });
        let logs: Arc<Mutex<Vec<(Severity, String)>>> = Arc::default();
        Self {
            requests,
            client: kube::Client::new(service, "default"),
            clock: Clock::simulated(Timestamp::UNIX_EPOCH, 1),
            log: Log::new(Arc::new(Memory(Arc::clone(&logs)))),
            logs,
        }
    }

    pub(crate) fn api(&self) -> Api {
        self.api_with(&NetworkingSettings::default())
    }

    pub(crate) fn api_with(&self, settings: &NetworkingSettings) -> Api {
        let vault = Vault::with_client(self.client.clone(), self.clock.clone(), self.log.clone());
        Api::new(vault, settings, self.clock.clone(), self.log.clone())
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.requests().iter().map(Seen::url).collect()
    }

    /// All that was logged at warning or above.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.logged(Severity::Warning)
    }

    pub(crate) fn logged(&self, level: Severity) -> Vec<String> {
        let logs = self.logs.lock().unwrap();
        logs.iter().filter(|(logged, _)| *logged >= level).map(|(_, text)| text.clone()).collect()
    }
}

struct Memory(Arc<Mutex<Vec<(Severity, String)>>>);

impl Sink for Memory {
    fn enabled(&self, _: Severity, _: &'static str) -> bool {
        true
    }

    fn emit(&self, record: Record) {
        self.0.lock().unwrap().push((record.severity, record.message));
    }
}

type FakeError = Box<dyn std::error::Error + Send + Sync>;
type FakeBody = UnsyncBoxBody<Bytes, std::io::Error>;

async fn to_response(answer: Answer) -> Result<Response<FakeBody>, FakeError> {
    let full = |text: String| {
        let body = http_body_util::Full::new(Bytes::from(text));
        body.map_err(|never: Infallible| match never {}).boxed_unsync()
    };
    match answer {
        Answer::Json(code, body) => Ok(Response::builder().status(code).body(full(body.to_string()))?),
        Answer::Later(code, seconds) => {
            let body = json!({"kind": "Status", "code": code}).to_string();
            Ok(Response::builder().status(code).header("Retry-After", seconds).body(full(body))?)
        }
        Answer::Stream(steps) => Ok(Response::new(to_body(steps))),
        Answer::Late(pause, body) => {
            tokio::time::sleep(pause).await;
            Ok(Response::new(full(body.to_string())))
        }
        Answer::Silence => pending().await,
        Answer::Broken => Err("the connection was reset".into()),
    }
}

fn to_body(steps: Vec<Step>) -> FakeBody {
    let steps = VecDeque::from(steps);
    let frames = stream::unfold(steps, |mut steps| async move {
        loop {
            match steps.pop_front() {
                None => pending().await,
                Some(Step::Line(line)) => return Some((Ok(Bytes::from(format!("{line}\n"))), steps)),
                Some(Step::Raw(text)) => return Some((Ok(Bytes::from_static(text.as_bytes())), steps)),
                Some(Step::Wait(pause)) => tokio::time::sleep(pause).await,
                Some(Step::End) => return None,
                Some(Step::Break) => return Some((Err(std::io::Error::other("broken")), VecDeque::from([Step::End]))),
            }
        }
    });
    StreamBody::new(frames.map(|frame| frame.map(Frame::data))).boxed_unsync()
}
