//! The way of requests to the server.
//!
//! Usually it is as short as it can be: the address and the signature are put on a request, and it goes to a connection of
//! the pool. Proxies and plugins are left to kube's own client, whose stack has a queue and a task between a
//! request and its connection, and traces what nobody listens to.
//!
//! A server may go away without a word: its address moves to another machine, and the old connections are silent for
//! ever. The system notices where nobody acknowledges anything any more. Where something in between still does, the
//! requests notice by their time-outs (`client.rs`), and then [`Connection::distrust`] what was connected before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tokio::time::Instant;
use tower::util::{BoxCloneSyncService, MapRequestLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

use super::identity::https_connector;
use super::token_file::TokenFile;
use crate::support::clock::Clock;

/// Requests in flight at the same time, watches aside: it bounds the sockets of the operator.
pub(crate) const REQUESTS_IN_FLIGHT: usize = 12;

/// Of each connection, what is read in one go. By default it grows to half a megabyte where lists are read, and stays so.
const READ_AT_ONCE: usize = 64 * 1024;

/// How long an unused connection is kept. The longer it is idle, the less is known of its other end.
const LONGEST_IDLENESS: Duration = Duration::from_secs(15);

/// TCP keep-alive: after this silence the kernel probes the other end, at this interval, and closes the connection after
/// this many probes without an acknowledgement.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// How long sent data may remain unacknowledged; without this limit, Linux retries for a quarter of an hour.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_AT_MOST: Duration = Duration::from_secs(30);

/// The shortest way to the server.
type Direct = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// A way to the server for as long as the credentials last.
pub struct Connection {
    client: kube::Client,
    direct: Option<Direct>,
    /// Drops the connections that were made before the instant; None where they are not ours.
    distrust: Option<Arc<dyn Fn(Instant) + Send + Sync>>,
}

/// The connections to one server.
struct Pool<C> {
    connector: C,
    clock: Clock,
    current: Mutex<Current<C>>,
}

/// The connections that are used now.
struct Current<C> {
    client: Client<C, Body>,
    /// None of them is older.
    since: Instant,
}

impl<C: Connect + Clone + Send + Sync + 'static> Pool<C> {
    fn new(connector: C, clock: Clock) -> Self {
        let current = Mutex::new(Current { client: connect_by(connector.clone()), since: clock.instant() });
        Self { connector, clock, current }
    }

    fn client(&self) -> Client<C, Body> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).client.clone()
    }

    /// Uses none of the connections any more that were made before the instant. Requests under way go on with theirs.
    fn distrust(&self, before: Instant) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.since <= before {
            *current = Current { client: connect_by(self.connector.clone()), since: self.clock.instant() };
        }
    }
}

fn connect_by<C: Connect + Clone + Send + Sync + 'static>(connector: C) -> Client<C, Body> {
    // The pool makes some more, when a request comes right before the connection of another one is free.
    Builder::new(TokioExecutor::new())
        .http1_max_buf_size(READ_AT_ONCE)
        .pool_max_idle_per_host(REQUESTS_IN_FLIGHT)
        .pool_idle_timeout(LONGEST_IDLENESS)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

impl Connection {
    /// Runs the plugins, if the configuration names any.
    pub(super) fn make(config: kube::Config, token_file: Option<TokenFile>, clock: Clock) -> Result<Self, kube::Error> {
        let token_file = token_file.map(Arc::new);
        let sign = move |request: Request<Body>| match &token_file {
            Some(token_file) => token_file.sign(request),
            None => request,
        };
        let is_plain =
            config.proxy_url.is_none() && config.auth_info.exec.is_none() && config.auth_info.auth_provider.is_none();
        if !is_plain {
            let client = ClientBuilder::try_from(config)?.with_layer(&MapRequestLayer::new(sign)).build();
            return Ok(Self { client, direct: None, distrust: None });
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        // Otherwise, the first request of a connection waits until the server has acknowledged the handshake, which takes it
        // 40 ms; and so does the rest of a request that is larger than a packet.
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEPALIVE_AFTER));
        connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED_AT_MOST));
        let mut connector = TimeoutConnector::new(https_connector(&config, connector)?);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        let pool = Arc::new(Pool::new(connector, clock));
        let sending = Arc::clone(&pool);
        let service = ServiceBuilder::new()
            .layer(MapRequestLayer::new(sign))
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(tower::service_fn(move |request| sending.client().request(request)));
        let direct = Direct::new(service);
        let client = kube::Client::new(direct.clone(), config.default_namespace);
        Ok(Self { client, direct: Some(direct), distrust: Some(Arc::new(move |before| pool.distrust(before))) })
    }

    pub(super) fn with_valid_until(self, valid_until: Option<jiff::Timestamp>) -> Self {
        Self { client: self.client.with_valid_until(valid_until), ..self }
    }

    /// The client for others, with the same connections.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The server has been silent since the instant: what was connected before is not used for new requests.
    pub(crate) fn distrust(&self, before: Instant) {
        if let Some(distrust) = &self.distrust {
            distrust(before);
        }
    }

    /// Sends a request, whose path is that of the API, and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, kube::Error> {
        let Some(direct) = &self.direct else {
            return Ok(self.client.send(request).await?.map(Answer::Wrapped));
        };
        let response =
            direct.clone().oneshot(request).await.map_err(|error| match error.downcast::<kube::Error>() {
                Ok(error) => *error,
                Err(error) => kube::Error::Service(error),
            })?;
        Ok(response.map(Answer::Direct))
    }
}

/// The body of an answer, as it comes.
pub(crate) enum Answer {
    /// From a connection of ours.
    Direct(Incoming),
    /// Through kube's own client.
    Wrapped(Body),
}

impl Answer {
    /// The next bytes; None at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, kube::Error>> {
        loop {
            let frame = match self {
                Self::Direct(body) => body.frame().await?.map_err(kube::Error::HyperError),
                Self::Wrapped(body) => body.frame().await?,
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Trailers, which nobody needs.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// All of it, in one piece.
    pub(crate) async fn collect(self) -> Result<Bytes, kube::Error> {
        let collected = match self {
            Self::Direct(body) => body.collect().await.map_err(kube::Error::HyperError)?,
            Self::Wrapped(body) => body.collect().await?,
        };
        Ok(collected.to_bytes())
    }
}

/// A client that was made elsewhere.
impl From<kube::Client> for Connection {
    fn from(client: kube::Client) -> Self {
        Self { client, direct: None, distrust: None }
    }
}
