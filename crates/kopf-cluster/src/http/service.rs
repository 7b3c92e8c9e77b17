//! The entry of the cluster: a tower service from HTTP requests to responses.
//!
//! Clients in the same process call it directly (`kube::Client::new(cluster.service(), …)`), all others through
//! the listener of `http/server.rs`. It authenticates the client, collects the body, finds the route, injects
//! faults, runs the verb and writes the response.

use std::future::Future;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::{control, warnings};
use crate::controllers::workloads;
use crate::publish::{discovery, openapi};
use crate::request::query::Query;
use crate::request::routes::{self, Route, RouteError};
use crate::request::status::StatusError;
use crate::request::{Answered, Interrupted, Request, Response, ResponseBody, User, representation};
use crate::state::State;
use crate::support::capture;
use crate::support::clock::later;
use crate::testing::Effect;
use crate::testing::RequestInfo;
use crate::{verbs, webhooks};

/// The size limit for request bodies, as in a real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The time limit for request bodies.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Responses above this size are compressed if the client accepts it.
const COMPRESSION_THRESHOLD: usize = 128 * 1024;

/// How often a verb is run at most; each run after the first one knows more from outside.
const MAX_RUNS: usize = 256;

/// How many webhooks are called at the same time for one request.
const MAX_CALLS_AT_ONCE: usize = 16;

/// The API as a service. Clones are cheap and share the cluster.
#[derive(Clone, Debug)]
pub struct ClusterService {
    state: Arc<State>,
    access: Access,
}

/// Which clients may send requests.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// All clients: only code in the same process can call.
    Trusted,
    /// Clients with the token of the cluster.
    Token,
}

impl ClusterService {
    pub(crate) fn new(state: Arc<State>, access: Access) -> Self {
        Self { state, access }
    }

    async fn handle<B>(self, request: http::Request<B>) -> Result<http::Response<ClusterBody>, Interrupted>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        workloads::start(&self.state);
        let (parts, body) = request.into_parts();
        let accepts_gzip = accepts_gzip(&parts.headers);
        if !self.lets_in(&parts.headers, parts.uri.path()) {
            return Ok(respond(StatusError::unauthorized().into(), false));
        }
        let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_LIMIT).collect()).await;
        let Ok(collected) = collected else {
            return Ok(respond(StatusError::slow_body().into(), false));
        };
        let body = match collected {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Ok(respond(StatusError::too_large(BODY_LIMIT).into(), false));
            }
            // The client may be gone, or may have sent something malformed.
            Err(error) => return Ok(respond(StatusError::bare(error.to_string()).into(), false)),
        };
        let request = Request {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: parts.headers,
            body,
            user: User { name: "admin".into(), groups: vec!["system:masters".into(), "system:authenticated".into()] },
            replay: Arc::default(),
        };
        if let Some(answer) = control::answer(&self.state, &request) {
            return Ok(respond(answer, accepts_gzip));
        }
        let route = routes::find(&self.state.catalog(), &request.path);
        let info = RequestInfo::new(&request, &route);
        self.state.counts.count(&info);
        let fault = self.state.faults.request(&info);
        if !fault.delay.is_zero() {
            self.state.clock().sleep_until(later(self.state.now(), fault.delay)).await;
        }
        match fault.effect {
            Some(Effect::Disconnect) => return Err(Interrupted),
            Some(Effect::Error { code, reason, message, retry_after }) => {
                return Ok(respond_error(&StatusError::on_demand(code, reason, message, retry_after), retry_after));
            }
            _ => {}
        }
        let answer = self.run(&request, &route).await;
        let answer = if representation::wants_yaml(request.accept()) { answer.into_yaml() } else { answer };
        let mut response = respond(answer, accepts_gzip);
        if fault.effect == Some(Effect::CutAnswer) {
            response.body_mut().cut();
        }
        Ok(response)
    }

    /// Runs the verb of a request until it needs no more answers from outside.
    async fn run(&self, request: &Request, route: &Result<Route, RouteError>) -> Response {
        for _ in 0..MAX_RUNS {
            request.replay.begin();
            // A panic in a verb must not close the connections of other clients.
            let answered = std::panic::catch_unwind(AssertUnwindSafe(|| answer(&self.state, request, route.clone())));
            let pending = request.replay.take_pending();
            if pending.is_empty() {
                let answer =
                    answered.unwrap_or_else(|_| Err(StatusError::internal("the handler of the request panicked")));
                let mut answer = answer.unwrap_or_else(Response::from);
                answer.warnings.extend(request.replay.take_warnings());
                if let Ok(Route::Objects(route)) = route
                    && let Some(warning) = route.resource.custom().and_then(|custom| custom.deprecation.clone())
                {
                    answer.warnings.insert(0, warning);
                }
                return answer;
            }
            let asked = pending.into_iter().map(|(key, call)| async move {
                let outcome = webhooks::fetch(&self.state, &call).await;
                (key, Answered { uid: call.uid, outcome })
            });
            let mut answers = futures::stream::iter(asked).buffer_unordered(MAX_CALLS_AT_ONCE);
            while let Some((key, answered)) = answers.next().await {
                request.replay.learn(key, answered);
            }
        }
        StatusError::internal("webhooks were asked too often without an end").into()
    }

    fn lets_in(&self, headers: &HeaderMap, path: &str) -> bool {
        let public = matches!(path.split('/').nth(1), Some("healthz" | "livez" | "readyz" | "version"));
        match (&self.access, &self.state.options.token) {
            (Access::Trusted, _) | (Access::Token, None) => true,
            (Access::Token, Some(token)) => {
                let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                let given = given.and_then(|value| value.split_once(' '));
                let bearer = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                match bearer {
                    Some((_, given)) => same_secret(given.trim(), token),
                    None => public,
                }
            }
        }
    }
}

/// Compares in constant time.
fn same_secret(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Routes a request, and returns the response.
fn answer(state: &Arc<State>, request: &Request, route: Result<Route, RouteError>) -> Result<Response, StatusError> {
    let catalog = state.catalog();
    let route = match route {
        Ok(route) => route,
        Err(RouteError::NoSuchPath) => return Ok(no_such_path()),
        Err(RouteError::NoSuchResource) => return Err(StatusError::no_such_resource()),
    };
    if let Route::Objects(route) = &route {
        return verbs::answer(state, request, route);
    }
    // The list of groups accepts any method.
    if !matches!(request.method, Method::GET | Method::HEAD) && !matches!(route, Route::Groups) {
        return Err(StatusError::method_not_allowed());
    }
    let accept = request.accept();
    if matches!(route, Route::CoreVersions | Route::Groups | Route::Group(_) | Route::Resources { .. }) {
        discovery::check_accepted(accept)?;
    }
    Ok(match route {
        Route::Root => discovery::root(&catalog),
        Route::Version => Response::json(200, &capture::discovery("version")),
        Route::Health { endpoint, check } => {
            health(&endpoint, check.as_deref(), request.query.get("verbose").is_some())
        }
        Route::Metrics => Response::text(200, ""),
        Route::CoreVersions => discovery::core_versions(accept, request.host()),
        Route::Groups => discovery::groups(&catalog, accept),
        Route::Group(name) => discovery::group(&catalog, &name).unwrap_or_else(no_such_path),
        Route::Resources { group, version } => discovery::resources(&catalog, &group, &version),
        Route::OpenApiV2 => openapi::version_2(&catalog, accept),
        Route::OpenApiV3Index => openapi::version_3_index(&catalog),
        Route::OpenApiV3(path) => openapi::version_3(&catalog, &path, accept).unwrap_or_else(|| Response::empty(404)),
        Route::Objects(_) => no_such_path(),
    })
}

fn no_such_path() -> Response {
    Response::text(404, "404 page not found\n").with_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn health(endpoint: &str, check: Option<&str>, verbose: bool) -> Response {
    match (check, verbose) {
        (None, true) => sniffless(format!("[+]ping ok\n[+]log ok\n[+]etcd ok\n{endpoint} check passed\n")),
        (None, false) => sniffless("ok"),
        (Some("ping" | "log" | "etcd"), _) => Response::text(200, "ok"),
        (Some(_), _) => no_such_path(),
    }
}

/// A text response whose type browsers must not guess.
fn sniffless(text: impl Into<String>) -> Response {
    Response::text(200, text).with_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| coding.split(';').next().is_some_and(|coding| coding.trim() == "gzip"))
}

fn respond(answer: Response, accepts_gzip: bool) -> http::Response<ClusterBody> {
    let mut headers = HeaderMap::new();
    let mut put = |name: header::HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.append(name, value);
        }
    };
    if answer.headers.iter().all(|(name, _)| *name != header::CACHE_CONTROL) {
        put(header::CACHE_CONTROL, "no-cache, private");
    }
    if !answer.content_type.is_empty() {
        put(header::CONTENT_TYPE, &answer.content_type);
    }
    for (name, value) in &answer.headers {
        put(name.clone(), value);
    }
    for warning in warnings::limited(&answer.warnings) {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        put(header::WARNING, &format!("299 - \"{escaped}\""));
    }
    let body = match answer.body {
        ResponseBody::Stream(stream) => ClusterBody::Stream(stream),
        ResponseBody::Whole(bytes) if accepts_gzip && bytes.len() > COMPRESSION_THRESHOLD => {
            put(header::CONTENT_ENCODING, "gzip");
            put(header::VARY, "Accept-Encoding");
            ClusterBody::Whole(Some(compress(&bytes)))
        }
        ResponseBody::Whole(bytes) => ClusterBody::Whole(Some(bytes)),
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(answer.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// The response of an injected error.
fn respond_error(status: &Value, retry_after: Option<u32>) -> http::Response<ClusterBody> {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    let mut response = respond(Response::json(code, status), false);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn compress(bytes: &Bytes) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing into memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

impl<B> tower_service::Service<http::Request<B>> for ClusterService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<ClusterBody>;
    /// Only injected faults cause errors.
    type Error = Interrupted;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Interrupted>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Interrupted>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(service.handle(request))
    }
}

/// The body of a response.
pub enum ClusterBody {
    /// The whole body; None once taken.
    Whole(Option<Bytes>),
    /// The lines of a watch.
    Stream(Pin<Box<dyn futures::Stream<Item = Result<Bytes, Interrupted>> + Send>>),
    /// Only the first half, though the whole length was announced; None once taken.
    Cut { half: Option<Bytes>, announced: u64 },
}

impl ClusterBody {
    /// Truncates the body in the middle.
    fn cut(&mut self) {
        if let Self::Whole(Some(bytes)) = self {
            *self = Self::Cut { half: Some(bytes.slice(..bytes.len() / 2)), announced: bytes.len() as u64 };
        }
    }
}

impl Body for ClusterBody {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|next| next.map(|lines| lines.map(Frame::data)))
            }
            Self::Cut { half, .. } => Poll::Ready(Some(half.take().map(Frame::data).ok_or(Interrupted))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
            Self::Cut { announced, .. } => SizeHint::with_exact(*announced),
        }
    }
}
