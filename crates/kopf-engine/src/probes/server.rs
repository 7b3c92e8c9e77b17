//! A small HTTP server for a few short pages: bounded connections, bounded time, no secrets.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Clock;
use crate::metrics::CONTENT_TYPE;
use crate::support::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::support::crashes::Crashes;

/// Connections at the same time. When there are more, those that have sent no request yet are closed.
const CONNECTIONS: usize = 32;

/// The time for the head of the request. Clients are on the same machine, or in the same network.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for a whole connection.
const LONGEST_CONNECTION: Duration = Duration::from_secs(30);

/// Where the address does not say otherwise.
const HTTP_PORT: u16 = 80;

/// The pause after the system has refused a connection, e.g. for a lack of descriptors.
const PAUSE_AFTER_ERRORS: Duration = Duration::from_millis(100);

/// Where to listen, and the page of the liveness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub host: String,
    pub port: u16,
    pub path: String,
}

/// The endpoint cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error("the liveness endpoint {0} cannot be understood: it must be like http://localhost:8080/healthz")]
    Misunderstood(String),
    #[error("unsupported scheme of the liveness endpoint: {0}")]
    Scheme(String),
    #[error("the liveness endpoint cannot listen on {address}: {source}")]
    Listening { address: String, source: std::io::Error },
}

impl Endpoint {
    /// Loopback and port 80 by default.
    pub(crate) fn parse(url: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| EndpointError::Scheme(url.to_owned()))?;
        if scheme != "http" {
            return Err(EndpointError::Scheme(url.to_owned()));
        }
        let misunderstood = || EndpointError::Misunderstood(url.to_owned());
        let rest = rest.strip_prefix("//").ok_or_else(misunderstood)?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        // An address is checked by the same rules as any other; what is left out is filled in first.
        let filled = if authority.is_empty() || authority.starts_with(':') {
            format!("localhost{authority}")
        } else {
            authority.to_owned()
        };
        let uri: Uri = format!("http://{filled}{path}").parse().map_err(|_| misunderstood())?;
        let host = uri.host().ok_or_else(misunderstood)?.trim_matches(['[', ']']).to_owned();
        let is_bare = uri.authority().map(|authority| authority.as_str()) == uri.host();
        let port = match uri.port_u16() {
            Some(port) => port,
            None if is_bare => HTTP_PORT,
            None => return Err(misunderstood()),
        };
        let path = if uri.path().is_empty() { "/".to_owned() } else { uri.path().to_owned() };
        Ok(Self { host, port, path })
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    code: u16,
    content_type: &'static str,
    body: String,
}

impl Answer {
    pub(super) fn json(code: u16, value: &Value) -> Self {
        Self { code, content_type: "application/json; charset=utf-8", body: value.to_string() }
    }

    pub(super) fn text(body: String) -> Self {
        Self { code: 200, content_type: CONTENT_TYPE, body }
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = http::HeaderValue::from_static(self.content_type);
        response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
        response
    }
}

/// Listens, and answers each request by its path; returns the address.
pub(crate) async fn serve<F, Fut>(
    endpoint: &Endpoint,
    clock: Clock,
    answer: F,
    crashes: &Crashes,
    tasks: &mut JoinSet<()>,
) -> Result<SocketAddr, EndpointError>
where
    F: Fn(String) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send,
{
    let failed = |source| EndpointError::Listening { address: format!("{}:{}", endpoint.host, endpoint.port), source };
    let listener = TcpListener::bind((endpoint.host.as_str(), endpoint.port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let accepting = async move {
        let permits = ConnectionLimit::new(CONNECTIONS, clock.clone());
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    let permit = Arc::new(permits.take().await);
                    let (answer, clock) = (answer.clone(), clock.clone());
                    connections.spawn(async move {
                        // A client that is too slow, or leaves, gets no answer.
                        tokio::select! {
                            _ = clock.timeout(LONGEST_CONNECTION, converse(stream, answer, Arc::clone(&permit))) => {}
                            () = permit.dismissed(HEAD_TIMEOUT, HEAD_TIMEOUT) => {}
                        }
                    });
                }
                Err(_) => clock.sleep(PAUSE_AFTER_ERRORS).await,
            }
        }
    };
    tasks.spawn(crashes.clone().guard("The server of the probes".to_owned(), accepting));
    Ok(address)
}

async fn converse<F, Fut>(stream: TcpStream, answer: F, permit: Arc<ConnectionPermit>)
where
    F: Fn(String) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, mut on_connection) = (answer.clone(), permit.request());
        on_connection.received();
        async move {
            let _on_connection = on_connection;
            let page = match request.method() {
                &Method::GET | &Method::HEAD => answer(request.uri().path().to_owned()).await,
                _ => Answer::json(405, &serde_json::json!({"error": "only GET is allowed"})),
            };
            Ok::<_, Infallible>(page.into_response())
        }
    });
    // One request per connection: probes are few, and a connection must not hold its permit for nothing.
    let _ = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn endpoints() {
        let endpoint = |host: &str, port: u16, path: &str| Endpoint { host: host.into(), port, path: path.into() };
        for (url, expected) in [
            ("http://0.0.0.0:8080/healthz", endpoint("0.0.0.0", 8080, "/healthz")),
            ("http://:8080/healthz", endpoint("localhost", 8080, "/healthz")),
            ("http://localhost", endpoint("localhost", 80, "/")),
            ("http://[::1]:8080", endpoint("::1", 8080, "/")),
            ("http:///healthz", endpoint("localhost", 80, "/healthz")),
        ] {
            assert_eq!(Endpoint::parse(url).unwrap(), expected, "{url}");
        }
        for url in ["https://localhost/", "localhost:8080", "/healthz", "http://host:port/", "http:/x", "http://a b/"] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// More than there are permits, and the kubelet still gets its answer; later, the silent ones are closed.
    #[tokio::test(start_paused = true)]
    async fn silent_connections_keep_nobody_out() {
        let (crashes, mut tasks) = (Crashes::new(crate::Log::silent()), JoinSet::new());
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 0, path: "/".into() };
        let answer = |_: String| async move { Answer::json(200, &json!({})) };
        let address = serve(&endpoint, Clock::system(), answer, &crashes, &mut tasks).await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let began = tokio::time::Instant::now();
        assert!(ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 200 OK"));
        assert!(began.elapsed() < HEAD_TIMEOUT, "{:?}", began.elapsed());
        for mut stream in silent {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        assert!(began.elapsed() < HEAD_TIMEOUT * 2, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn pages() {
        let (crashes, mut tasks) = (Crashes::new(crate::Log::silent()), JoinSet::new());
        let endpoint = Endpoint { host: "localhost".into(), port: 0, path: "/".into() };
        let answer =
            |path: String| async move { Answer::json(if path == "/" { 200 } else { 404 }, &json!({"path": path})) };
        let address = serve(&endpoint, Clock::system(), answer, &crashes, &mut tasks).await.unwrap();
        let text = ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n{\"path\":\"/\"}"), "{text}");
        assert!(ask(address, "GET /x?y HTTP/1.1\r\nHost: x\r\n\r\n").await.contains("404"));
        assert!(ask(address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await.contains("405"));
        assert!(ask(address, "rubbish\r\n\r\n").await.contains("400"));
        let taken = Endpoint { port: address.port(), ..endpoint };
        let refused = serve(&taken, Clock::system(), answer, &crashes, &mut tasks).await.unwrap_err();
        assert!(refused.to_string().contains("cannot listen on localhost:"), "{refused}");
    }
}
