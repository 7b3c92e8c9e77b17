//! One exchange with a client: the handshake, the request, the answer; everything bounded in size and time.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use kopf_reaction::ReviewError;
use rustls::ServerConfig;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Clock;
use crate::admission::{Review, peer};

/// More connections wait until others are closed.
const CONNECTIONS: usize = 256;

/// How long a client may take to agree on TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to send the head of a request, and a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much a head may have.
const HEAD_LIMIT: usize = 64 * 1024;

/// How much a body may have: objects have 1.5 MiB at most, but a conversion is about a whole page of a list.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

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
    connections: Arc<Semaphore>,
}

impl Exchange {
    pub fn new(path: &str, tls: Arc<RwLock<Option<Arc<ServerConfig>>>>, clock: Clock, answering: Answering) -> Self {
        let path = format!("/{}", path.trim_matches('/'));
        let path = path.trim_end_matches('/').to_owned();
        Self { path, tls, clock, answering, connections: Arc::new(Semaphore::new(CONNECTIONS)) }
    }

    /// Accepts connections for ever. They end with it.
    pub async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed, so that an error cannot happen; it would only unbound us.
            let permit = Arc::clone(&self.connections).acquire_owned().await.ok();
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let this = Arc::clone(&self);
                        connections.spawn(async move {
                            let _permit = permit;
                            this.connect(stream).await;
                        });
                    }
                    Err(_) => self.clock.sleep(PAUSE_AFTER_FAILURE).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    async fn connect(self: Arc<Self>, stream: TcpStream) {
        // Small answers should not wait for more to send; if it cannot be set, they do.
        let _ = stream.set_nodelay(true);
        let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(tls) = tls else { return self.converse(stream, Value::Object(Map::new())).await };
        let handshake = self.clock.timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(stream));
        let Ok(Ok(stream)) = handshake.await else { return };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let peer = certificate
            .map_or_else(|| Value::Object(Map::new()), |certificate| peer::describe_certificate(certificate));
        self.converse(stream, peer).await;
    }

    async fn converse(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Value) {
        let mut http = Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_LIMIT);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_LIMIT as u32)
            .keep_alive_interval(HEAD_TIMEOUT)
            .keep_alive_timeout(HANDSHAKE_TIMEOUT);
        let service = service_fn(move |request| {
            let (this, peer) = (Arc::clone(&self), peer.clone());
            async move { Ok::<_, Infallible>(this.answer(request, peer).await) }
        });
        // Clients go away as they like; there is nobody to tell about it.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>, peer: Value) -> Response<Full<Bytes>> {
        match self.review(request, peer).await {
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

    async fn review(&self, request: Request<Incoming>, peer: Value) -> Result<Value, (StatusCode, String)> {
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
        let reading = Limited::new(request.into_body(), BODY_LIMIT).collect();
        let body = match self.clock.timeout(BODY_TIMEOUT, reading).await {
            Err(_) => return Err(refusal(StatusCode::REQUEST_TIMEOUT)),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE));
            }
            Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let content: Value = serde_json::from_slice(&body)
            .map_err(|error| (StatusCode::BAD_REQUEST, format!("The request is not JSON: {error}")))?;
        (self.answering)(Review { content, webhook, headers, peer, timeout }).await.map_err(|error| {
            let status = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, error.to_string())
        })
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

/// The cluster tells how long it waits: `?timeout=10s`.
fn timeout_of(query: Option<&str>) -> Option<Duration> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    let seconds = value.strip_suffix('s')?.parse::<f64>().ok()?;
    (seconds > 0.0).then(|| crate::seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(path: &str) -> Exchange {
        let answering: Answering = Arc::new(|review| Box::pin(async move { Ok(review.content) }));
        Exchange::new(path, Arc::default(), Clock::system(), answering)
    }

    #[test]
    fn paths() {
        let id = |id: &str| Some(Some(id.to_owned()));
        let table = [
            ("", "/", Some(None)),
            ("", "/fn", id("fn")),
            ("", "/fn/spec.field", id("fn/spec.field")),
            ("", "/outer.%3Clocals%3E.fn", id("outer.<locals>.fn")),
            ("", "/%ff", None),
            ("/base/", "/base", Some(None)),
            ("base", "/base/fn", id("fn")),
            ("/base", "/other/fn", None),
            ("/base", "/basement", None),
        ];
        for (base, path, expected) in table {
            assert_eq!(exchange(base).webhook_of(path), expected, "{base} {path}");
        }
    }

    #[test]
    fn content_types() {
        let table = [
            (None, true),
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("application/vnd.x+json"), true),
            (Some("text/plain"), false),
            (Some("application/x-www-form-urlencoded"), false),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            value.map(|value| headers.insert(CONTENT_TYPE, HeaderValue::from_static(value)));
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
    }

    #[test]
    fn timeouts() {
        let table = [
            (Some("timeout=10s"), Some(10)),
            (Some("a=b&timeout=5s"), Some(5)),
            (Some("timeout=x"), None),
            (Some("timeout=-1s"), None),
            (None, None),
        ];
        for (query, expected) in table {
            assert_eq!(timeout_of(query), expected.map(Duration::from_secs), "{query:?}");
        }
    }
}
