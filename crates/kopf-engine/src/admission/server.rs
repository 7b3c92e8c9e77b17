//! The engine's own server of webhooks: where it listens, under which certificate, how the cluster finds it.
//!
//! It listens on loopback where nobody else could use it anyway, that is, where the address is not given, and
//! the certificate is made here for `localhost`. Certificates are renewed, and files are read again, while it runs.

mod exchange;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, lookup_host};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::TARGET;
use super::certificates::{Authority, Identity, RENEWAL};
use crate::{Clock, Log, seconds};
use exchange::{Answering, Exchange};

/// How to listen. The names are those of the options of Python's `WebhookServer`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServerOptions {
    /// Where to listen; None is loopback, or everywhere if others are to reach it (see the module).
    pub addr: Option<String>,
    /// None or 0 is any free port.
    pub port: Option<u16>,
    /// The path under which all webhooks are.
    pub path: Option<String>,
    /// Under which name the cluster reaches it.
    pub host: Option<String>,
    /// What the cluster is to trust, in PEM; or a file of that.
    pub cadata: Option<String>,
    pub cafile: Option<PathBuf>,
    /// Where to write down what the cluster is to trust.
    pub cadump: Option<PathBuf>,
    /// Without TLS. No cluster will talk to it; a tunnel may.
    pub insecure: bool,
    /// The certificate of the server and its key, in PEM; None makes its own.
    pub certfile: Option<PathBuf>,
    pub pkeyfile: Option<PathBuf>,
    /// More names for the own certificate.
    pub extra_sans: Vec<String>,
    pub verify: ClientCertificates,
    /// Who has to have signed the certificates of clients, in PEM; or a file of that.
    pub verify_cadata: Option<String>,
    pub verify_cafile: Option<PathBuf>,
    /// Seconds between the looks at the files; None is a minute.
    pub file_check_interval: Option<f64>,
}

/// Whether clients have to show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// They are not asked for, unless the options say who must have signed them.
    #[default]
    Unasked,
    /// They are checked if they are shown.
    Optional,
    Required,
}

/// Why webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is taken, not ours, or not known.
    #[error("cannot listen for webhooks on {address}: {source}")]
    Listen { address: String, source: io::Error },
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file or text is no PEM, or not of what it should be.
    #[error("cannot read {what}: {source}")]
    Pem { what: String, source: rustls::pki_types::pem::Error },
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("cannot check certificates of clients: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// Only one of the two files was given.
    #[error("certfile and pkeyfile are to be given both, or none of them")]
    HalfIdentity,
}

/// Where the names of the host and of the listening address differ from what was given.
const LOCALHOST: &str = "localhost";

impl ServerOptions {
    /// The name under which it is reached, if it is not given: the address, unless that stands for all of them.
    fn accessible_address(&self) -> String {
        let Some(address) = self.addr.as_deref().filter(|address| !address.is_empty()) else {
            return LOCALHOST.to_owned();
        };
        match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(ip)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
            _ => address.to_owned(),
        }
    }

    fn has_own_certificate(&self) -> bool {
        !self.insecure && self.certfile.is_none()
    }

    fn url(&self, port: u16) -> String {
        let (scheme, default_port) = if self.insecure { ("http", 80) } else { ("https", 443) };
        let host = self.host.clone().unwrap_or_else(|| self.accessible_address());
        let host = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host };
        let port = if port == default_port { String::new() } else { format!(":{port}") };
        let path = self.path.as_deref().unwrap_or_default();
        let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
        format!("{scheme}://{host}{port}{slash}{path}")
    }

    fn certificate_names(&self) -> Vec<String> {
        let address = self.accessible_address();
        let mut names = vec![self.host.clone().unwrap_or_else(|| address.clone()), address];
        if names.iter().any(|name| name == LOCALHOST) {
            names.extend([Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()]);
        }
        names.extend(self.extra_sans.iter().cloned());
        names
    }

    /// One listener for each address that the name stands for, all on one port.
    async fn listen(&self) -> Result<Vec<TcpListener>, ServerError> {
        let port = self.port.unwrap_or_default();
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let everywhere = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        let failed =
            |source| ServerError::Listen { address: format!("{}:{port}", self.addr.as_deref().unwrap_or("*")), source };
        let (addresses, all): (Vec<IpAddr>, bool) = match self.addr.as_deref().filter(|addr| !addr.is_empty()) {
            Some(name) => {
                let name = name.trim_matches(['[', ']']);
                let found = lookup_host((name, port)).await.map_err(failed)?;
                (found.map(|address| address.ip()).collect(), true)
            }
            None if self.host.is_none() && self.has_own_certificate() => (loopback.into(), true),
            // The first one stands for both, where the system has both.
            None => (everywhere.into(), false),
        };
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut error = None;
        for address in addresses {
            let port = match listeners.first().map(TcpListener::local_addr) {
                Some(taken) => taken.map_err(failed)?.port(),
                None => port,
            };
            match TcpListener::bind(SocketAddr::new(address, port)).await {
                Ok(listener) => listeners.push(listener),
                // One of several is enough: IPv6 is often not there.
                Err(other) => error = Some(other),
            }
            if !all && !listeners.is_empty() {
                break;
            }
        }
        match (listeners.is_empty(), error) {
            (true, error) => Err(failed(error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))),
            (false, _) => Ok(listeners),
        }
    }

    fn files(&self) -> Vec<&PathBuf> {
        [&self.certfile, &self.pkeyfile, &self.cafile, &self.verify_cafile].into_iter().flatten().collect()
    }

    /// All the files as they are now, to be compared later.
    fn snapshot(&self) -> Result<Vec<Vec<u8>>, ServerError> {
        self.files().into_iter().map(read).collect()
    }
}

/// The TLS of now, and what the cluster is to trust for it.
struct Tls {
    config: Arc<ServerConfig>,
    /// In PEM; None leaves it to the authorities that the cluster trusts anyway.
    trusted: Option<Vec<u8>>,
}

/// Of what the TLS was made, and when.
struct Snapshot {
    files: Vec<Vec<u8>>,
    made: Instant,
}

/// Listens, and serves until it is dropped. `tell` gets each new address.
pub(super) async fn serve(
    options: ServerOptions,
    clock: &Clock,
    log: &Log,
    answering: Answering,
    tell: impl Fn(Value),
) -> Result<(), ServerError> {
    let authority = match options.has_own_certificate() {
        true => Some(Authority::new(&options.certificate_names(), clock.now())?),
        false => None,
    };
    let mut tls = build(&options, authority.as_ref(), clock)?;
    let listeners = options.listen().await?;
    let port = match listeners.first().map(TcpListener::local_addr) {
        Some(Ok(address)) => address.port(),
        _ => options.port.unwrap_or_default(),
    };
    let url = options.url(port);
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            log.debug(TARGET, format!("Listening for webhooks at {address}"));
        }
    }
    log.debug(TARGET, format!("Accessing the webhooks at {url}"));
    let current = Arc::new(RwLock::new(tls.as_ref().map(|tls| Arc::clone(&tls.config))));
    let exchange = Arc::new(Exchange::new(
        options.path.as_deref().unwrap_or_default(),
        Arc::clone(&current),
        clock.clone(),
        answering,
    ));
    // The connections end with this set.
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(Arc::clone(&exchange).accept(listener));
    }
    let mut snapshot = Snapshot { files: options.snapshot()?, made: clock.instant() };
    loop {
        if let (Some(path), Some(tls)) = (&options.cadump, &tls)
            && let Some(trusted) = &tls.trusted
        {
            std::fs::write(path, trusted).map_err(|source| ServerError::File { path: path.clone(), source })?;
        }
        tell(client_config(&url, tls.as_ref()));
        tls = loop {
            clock.sleep(pause(&options)).await;
            match renewed(&options, authority.as_ref(), clock, &mut snapshot) {
                Ok(None) => {}
                Ok(Some(tls)) => break Some(tls),
                // They may be half-written: those of before are used until the new ones are good.
                Err(error) => log.warn(TARGET, format!("The new certificates are not used: {error}")),
            }
        };
        if authority.is_none() {
            log.debug(TARGET, "Going on with the renewed certificate files.".to_owned());
        }
        *current.write().unwrap_or_else(PoisonError::into_inner) = tls.as_ref().map(|tls| Arc::clone(&tls.config));
    }
}

/// Until the next look at the certificates.
fn pause(options: &ServerOptions) -> Duration {
    let interval = seconds(options.file_check_interval.unwrap_or(60.0)).max(Duration::from_millis(10));
    if options.files().is_empty() { RENEWAL } else { interval.min(RENEWAL) }
}

/// The next TLS, if it is time for it: the own certificate has grown old, or the files have changed.
fn renewed(
    options: &ServerOptions,
    authority: Option<&Authority>,
    clock: &Clock,
    snapshot: &mut Snapshot,
) -> Result<Option<Tls>, ServerError> {
    let newer = Snapshot { files: options.snapshot()?, made: clock.instant() };
    let has_grown_old = authority.is_some() && newer.made.saturating_duration_since(snapshot.made) >= RENEWAL;
    if newer.files == snapshot.files && !has_grown_old {
        return Ok(None);
    }
    let tls = build(options, authority, clock)?;
    *snapshot = newer;
    Ok(tls)
}

fn build(options: &ServerOptions, authority: Option<&Authority>, clock: &Clock) -> Result<Option<Tls>, ServerError> {
    if options.insecure {
        return Ok(None);
    }
    let given = match (&options.cadata, &options.cafile) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    let (identity, trusted) = match (authority, &options.certfile, &options.pkeyfile) {
        // Whatever else is given, only our own authority vouches for our own certificates.
        (Some(authority), _, None) => (authority.issue(clock.now())?, Some(authority.pem.clone().into_bytes())),
        (None, Some(certificate), Some(key)) => {
            let trusted = match given {
                Some(trusted) => trusted,
                None => read(certificate)?,
            };
            (identity(certificate, key)?, Some(trusted))
        }
        _ => return Err(ServerError::HalfIdentity),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match client_authorities(options)? {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match options.verify {
                ClientCertificates::Required => verifier,
                ClientCertificates::Unasked | ClientCertificates::Optional => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(verifier.build()?)
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = identity;
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Tls { config: Arc::new(config), trusted }))
}

fn identity(certificate: &PathBuf, key: &PathBuf) -> Result<Identity, ServerError> {
    let chain = certificates(&read(certificate)?, &certificate.display().to_string())?;
    let unreadable = |source| ServerError::Pem { what: key.display().to_string(), source };
    Ok((chain, PrivateKeyDer::from_pem_slice(&read(key)?).map_err(unreadable)?))
}

/// Who vouches for clients; None if they are not asked.
fn client_authorities(options: &ServerOptions) -> Result<Option<RootCertStore>, ServerError> {
    let content = match (&options.verify_cadata, &options.verify_cafile) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read(path)?,
        (None, None) if options.verify == ClientCertificates::Required => Vec::new(),
        (None, None) => return Ok(None),
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&content, "the authorities of clients")? {
        roots.add(certificate)?;
    }
    Ok(Some(roots))
}

fn certificates(content: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let unreadable = |source| ServerError::Pem { what: what.to_owned(), source };
    CertificateDer::pem_slice_iter(content).collect::<Result<_, _>>().map_err(unreadable)
}

fn read(path: &PathBuf) -> Result<Vec<u8>, ServerError> {
    std::fs::read(path).map_err(|source| ServerError::File { path: path.clone(), source })
}

fn client_config(url: &str, tls: Option<&Tls>) -> Value {
    match tls.and_then(|tls| tls.trusted.as_ref()) {
        Some(trusted) => json!({"url": url, "caBundle": STANDARD.encode(trusted)}),
        None => json!({"url": url}),
    }
}

#[cfg(test)]
mod tests;
