//! The listener: serves the cluster to other processes, over TLS on a local port.
//!
//! A cluster generates its certificates at the start; they live as long as the process or its data
//! directory. The kubeconfig contains the CA certificate and the token.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::service::ClusterService;
use crate::support::certificates::Certificates;

/// Further connections wait until others are closed.
const MAX_CONNECTIONS: usize = 8192;

/// The time limit for TLS handshakes.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for the head of a request, and for idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);

/// The size limit for the head of a request, as in a real server.
const HEAD_LIMIT: usize = 1024 * 1024;

/// The limit of concurrent streams per HTTP/2 connection, as in a real server.
const MAX_STREAMS: u32 = 250;

/// How often the server pings HTTP/2 connections, and how long it waits for the response.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the cluster cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The certificate cannot be generated.
    #[error("cannot make a certificate: {0}")]
    Certificate(Arc<rcgen::Error>),
    /// TLS rejects the certificate.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The stored certificate cannot be read.
    #[error("cannot read the certificate: {0}")]
    Encoding(#[from] base64::DecodeError),
}

/// A cluster that serves until this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    authority_pem: String,
    token: String,
    /// Accepts connections, and owns them: they end with it.
    accepting: JoinHandle<()>,
    /// Requests a graceful stop; None once sent.
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    pub(crate) async fn start(
        service: ClusterService,
        address: SocketAddr,
        certificates: &Certificates,
        token: String,
    ) -> Result<Self, ServeError> {
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(certificates)?));
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
        let (stop, stopped) = oneshot::channel();
        let accepting = tokio::spawn(accept(listener, acceptor, service, stopped));
        Ok(Self { address, authority_pem: certificates.authority_pem.clone(), token, accepting, stop: Some(stop) })
    }

    /// Stops serving, and waits until all connections are closed.
    pub async fn stop(mut self) {
        self.stop = None;
        // The task fails only if its runtime shuts down.
        let _ = (&mut self.accepting).await;
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// A kubeconfig for all clients, as YAML.
    pub fn kubeconfig(&self) -> String {
        write_kubeconfig(&self.url(), &STANDARD.encode(&self.authority_pem), &self.token)
    }
}

/// Whether a kubeconfig belongs to an embedded cluster, of any version or run, and contains nothing else.
pub fn is_own_kubeconfig(text: &str) -> bool {
    let value = |name: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap_or_default();
    text == write_kubeconfig(value("server: "), value("certificate-authority-data: "), value("token: "))
}

fn write_kubeconfig(server: &str, authority: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: kopf\n\
         clusters:\n\
         - name: kopf\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {authority}\n\
         users:\n\
         - name: admin\n\
         \x20 user:\n\
         \x20   token: {token}\n\
         contexts:\n\
         - name: kopf\n\
         \x20 context:\n\
         \x20   cluster: kopf\n\
         \x20   user: admin\n\
         \x20   namespace: default\n"
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The protocol settings, which bound all resources that clients can take.
fn http() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_LIMIT + 64 * 1024);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HEAD_LIMIT as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    http
}

/// Accepts connections until it is stopped. It owns their tasks, so that they end with it.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    service: ClusterService,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    let http = http();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Small responses should not wait for more data; without the option, they do.
                    let _ = stream.set_nodelay(true);
                    let (acceptor, service, http) = (acceptor.clone(), service.clone(), http.clone());
                    connections.spawn(async move {
                        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
                        let Ok(Ok(stream)) = handshake.await else { return };
                        let served = TowerToHyperService::new(service);
                        let asked = Notify::new();
                        let noticed = service_fn(|request| {
                            asked.notify_one();
                            served.call(request)
                        });
                        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), noticed));
                        tokio::select! {
                            // Clients disconnect whenever they like; that is no error.
                            _ = connection.as_mut() => return,
                            // Before the first request, hyper would wait forever for the HTTP version.
                            first = tokio::time::timeout(HEAD_TIMEOUT, asked.notified()) => if first.is_err() { return },
                        }
                        let _ = connection.await;
                    });
                }
                // The process is probably out of file handles: let other connections finish first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = &mut stopped => return connections.shutdown().await,
        }
    }
}

/// The TLS configuration of the listener.
fn tls_config(certificates: &Certificates) -> Result<rustls::ServerConfig, ServeError> {
    let certificate = CertificateDer::from(STANDARD.decode(&certificates.certificate)?);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(STANDARD.decode(&certificates.key)?));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
