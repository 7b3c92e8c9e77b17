//! One exchange with a client: the handshake, the request, the answer; everything bounded in size and time.
//!
//! Anybody who reaches the port can connect. Connections that wait for their clients give way to new ones
//! (`connection_limit.rs`), and the bodies of all requests together have a limit: a request that does not fit in waits for
//! its share as long as its client waits for the answer, since a refusal would fail the change that it is about. Only then it is
//! refused by 503.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use kopf_reaction::ReviewError;
use rustls::ServerConfig;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Clock;
use crate::admission::{Review, peer};
use crate::support::connection_limit::{ConnectionLimit, ConnectionPermit, RequestOnConnection};

/// When there are more, those that wait for their clients are closed.
const CONNECTIONS: usize = 256;

/// How long a client may take to agree on TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to send the head of its first request.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be idle, or take for the head of the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an idle connection may take to say goodbye.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much a head may have.
const HEAD_LIMIT: usize = 64 * 1024;

/// How much a body may have: objects have 1.5 MiB at most, but a conversion is about a whole page of a list.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// How much the bodies of all requests may have that are being received or answered.
const BODIES_LIMIT: usize = 2 * BODY_LIMIT;

/// How many requests one connection of HTTP/2 may have at once.
const STREAMS: u32 = 100;

/// Out of file handles, most probably: let others finish first.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Who answers the reviews.
pub(super) type Answering = Arc<dyn Fn(Review) -> BoxFuture<'static, Result<Value, ReviewError>> + Send + Sync>;

/// What all connections share.
pub(super) struct Exchange {
    /// Without a slash at the end.
    path: String,
    /// Replaced when certificates are renewed; None is without TLS.
    tls: Arc<RwLock<Option<Arc<ServerConfig>>>>,
    clock: Clock,
    answering: Answering,
    permits: ConnectionLimit,
    /// The bytes that are left for bodies.
    budget: Semaphore,
}

/// The body of a request, and its share of the budget for all of them.
struct Received<'a> {
    content: BytesMut,
    budget: Option<SemaphorePermit<'a>>,
}

impl Exchange {
    pub(super) fn new(
        path: &str,
        tls: Arc<RwLock<Option<Arc<ServerConfig>>>>,
        clock: Clock,
        answering: Answering,
    ) -> Self {
        let path = format!("/{}", path.trim_matches('/'));
        let path = path.trim_end_matches('/').to_owned();
        let permits = ConnectionLimit::new(CONNECTIONS, clock.clone());
        Self { path, tls, clock, answering, permits, budget: Semaphore::new(BODIES_LIMIT) }
    }

    /// Accepts connections for ever. They end with it.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let permit = Arc::new(self.permits.take().await);
                        connections.spawn(Arc::clone(&self).connect(stream, permit));
                    }
                    Err(_) => self.clock.sleep(PAUSE_AFTER_FAILURE).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    async fn connect(self: Arc<Self>, stream: TcpStream, permit: Arc<ConnectionPermit>) {
        // Small answers should not wait for more to send; if it cannot be set, they do.
        let _ = stream.set_nodelay(true);
        let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(tls) = tls else { return self.converse(stream, Value::Object(Map::new()), permit).await };
        let handshake = tokio::select! {
            handshake = TlsAcceptor::from(tls).accept(stream) => handshake,
            () = permit.dismissed(HANDSHAKE_TIMEOUT, HANDSHAKE_TIMEOUT) => return,
        };
        let Ok(stream) = handshake else { return };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let peer = certificate
            .map_or_else(|| Value::Object(Map::new()), |certificate| peer::describe_certificate(certificate));
        self.converse(stream, peer, permit).await;
    }

    async fn converse(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Value,
        permit: Arc<ConnectionPermit>,
    ) {
        let mut http = Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(HEAD_LIMIT);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_LIMIT as u32)
            .keep_alive_interval(IDLE_TIMEOUT)
            .keep_alive_timeout(HANDSHAKE_TIMEOUT);
        let (clock, on_connection) = (self.clock.clone(), Arc::clone(&permit));
        let service = service_fn(move |request| {
            let (this, peer, on_connection) = (Arc::clone(&self), peer.clone(), on_connection.request());
            async move { Ok::<_, Infallible>(this.answer(request, peer, on_connection).await) }
        });
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // Clients may leave at any time; nobody is left to answer.
            _ = connection.as_mut() => return,
            // Before the first request, hyper itself would wait for ever: it reads which version of HTTP it is.
            () = permit.dismissed(FIRST_HEAD_TIMEOUT, IDLE_TIMEOUT) => {}
        }
        if permit.is_known() {
            // The client may be sending its next request: it is answered, or the client learns that it was not taken.
            connection.as_mut().graceful_shutdown();
            while clock.timeout(FAREWELL_TIMEOUT, connection.as_mut()).await.is_err() && permit.is_busy() {}
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Value,
        on_connection: RequestOnConnection,
    ) -> Response<Full<Bytes>> {
        match self.review(request, peer, on_connection).await {
            Ok(answer) => {
                let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err((status, message)) => {
                let mut response = Response::new(Full::new(Bytes::from(message + "\n")));
                *response.status_mut() = status;
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    headers.insert(ALLOW, HeaderValue::from_static("POST"));
                }
                response
            }
        }
    }

    async fn review(
        &self,
        request: Request<Incoming>,
        peer: Value,
        mut on_connection: RequestOnConnection,
    ) -> Result<Value, (StatusCode, String)> {
        let webhook = self.webhook_of(request.uri().path()).ok_or_else(|| refusal(StatusCode::NOT_FOUND))?;
        if request.method() != Method::POST {
            return Err(refusal(StatusCode::METHOD_NOT_ALLOWED));
        }
        if !is_json(request.headers()) {
            return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: usize| length > BODY_LIMIT) {
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE));
        }
        let headers = headers_of(request.headers());
        let timeout = timeout_of(request.uri().query());
        let body = self.receive(request.into_body(), timeout.unwrap_or(BODY_TIMEOUT).min(BODY_TIMEOUT)).await?;
        on_connection.received();
        let content: Value = serde_json::from_slice(&body.content)
            .map_err(|error| (StatusCode::BAD_REQUEST, format!("The request is not JSON: {error}")))?;
        let answer = (self.answering)(Review { content, webhook, headers, peer, timeout }).await;
        // What was parsed has lived as long as the answer was made.
        drop(body.budget);
        answer.map_err(|error| {
            let status = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, error.to_string())
        })
    }

    /// The whole body. Its bytes are counted as they come: what is announced but not sent takes nothing of the budget.
    async fn receive(&self, mut body: Incoming, limit: Duration) -> Result<Received<'_>, (StatusCode, String)> {
        let mut over = pin!(self.clock.timeout(limit, std::future::pending::<()>()));
        let mut received = Received { content: BytesMut::new(), budget: None };
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = &mut over => return Err(refusal(StatusCode::REQUEST_TIMEOUT)),
            };
            let Some(frame) = frame else { return Ok(received) };
            let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if received.content.len() + data.len() > BODY_LIMIT {
                return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE));
            }
            // A frame is a part of what was read at once, so that it never has 4 GiB.
            let share = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let budget = tokio::select! {
                budget = self.budget.acquire_many(share) => budget.ok(),
                _ = &mut over => return Err(refusal(StatusCode::SERVICE_UNAVAILABLE)),
            };
            match (&mut received.budget, budget) {
                (Some(budget), Some(more)) => budget.merge(more),
                (budget, more) => *budget = more,
            }
            received.content.extend_from_slice(&data);
        }
    }

    /// The id of a handler in the path; None inside if there is none, None outside if the path is not ours.
    fn webhook_of(&self, path: &str) -> Option<Option<String>> {
        let rest = path.strip_prefix(&self.path)?;
        let id = match rest {
            "" => "",
            _ => rest.strip_prefix('/')?,
        };
        let id = percent_encoding::percent_decode_str(id).decode_utf8().ok()?;
        Some(Some(id.into_owned()).filter(|id| !id.is_empty()))
    }
}

fn refusal(status: StatusCode) -> (StatusCode, String) {
    (status, status.canonical_reason().unwrap_or_default().to_owned())
}

/// Requests without a type are taken as what they should be.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return true };
    let content_type = content_type.to_str().unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The headers under their usual names: `Content-Type`.
fn headers_of(headers: &HeaderMap) -> Value {
    let mut described = Map::new();
    for (name, value) in headers {
        let name: Vec<String> = name.as_str().split('-').map(capitalised).collect();
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        described.insert(name.join("-"), Value::from(value));
    }
    Value::Object(described)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// How long the cluster waits, by its query: `?timeout=10s`.
fn timeout_of(query: Option<&str>) -> Option<Duration> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    let seconds = value.strip_suffix('s')?.parse::<f64>().ok()?;
    (seconds > 0.0).then(|| crate::seconds(seconds))
}

#[cfg(test)]
mod tests;
