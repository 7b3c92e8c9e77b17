//! How the operator serves webhooks: for [`on::validate`](crate::on::validate), [`on::mutate`](crate::on::mutate) and
//! [`on::convert`](crate::on::convert) handlers. [`Operator::webhooks`](crate::Operator::webhooks) takes a [`Server`].

use std::path::PathBuf;
use std::time::Duration;

use kopf_engine::ServerOptions;

pub use crate::context::review::Operation;
pub use kopf_engine::ClientCertificates;

/// The server of the operator's webhooks, and how the cluster finds it.
///
/// By default, it listens on the loopback, on any free port, with a certificate that it generates.
///
/// ```
/// use kopf::webhook::Server;
/// use kopf::Operator;
///
/// # let _: Operator =
/// Operator::new().webhooks(
///     Server::new()
///         .managed("validation.example.com")
///         .address("0.0.0.0")
///         .port(8443)
///         .host("my-operator.my-namespace.svc")
///         .certificate("tls.crt", "tls.key")
///         .ca_file("ca.crt"),
/// )
/// # ;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a server does nothing until `Operator::webhooks` gets it"]
pub struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) managed: Option<String>,
}

impl Server {
    /// A server with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The operator keeps webhook configurations of this name up to date in the cluster, such as `validation.example.com`.
    /// Without it, the configurations are up to you.
    pub fn managed(mut self, name: impl Into<String>) -> Self {
        self.managed = Some(name.into());
        self
    }

    /// The address to listen on.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.options.addr = Some(address.into());
        self
    }

    /// The port to listen on; any free one by default.
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = Some(port);
        self
    }

    /// The path below which all webhooks are.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.options.path = Some(path.into());
        self
    }

    /// The host name by which the cluster reaches the server; the address by default.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.options.host = Some(host.into());
        self
    }

    /// The certificate of the server and its key, as PEM files; without it, the server makes its own.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.options.certfile = Some(certificate.into());
        self.options.pkeyfile = Some(key.into());
        self
    }

    /// The certificate authority that the cluster has to trust, as a PEM file.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.cafile = Some(path.into());
        self
    }

    /// The certificate authority that the cluster has to trust, in PEM.
    pub fn ca_data(mut self, pem: impl Into<String>) -> Self {
        self.options.cadata = Some(pem.into());
        self
    }

    /// Writes the certificate authority that the cluster has to trust to this file.
    pub fn dump_ca_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.cadump = Some(path.into());
        self
    }

    /// More names in the certificate that the server makes.
    pub fn extra_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.extra_sans.extend(names.into_iter().map(Into::into));
        self
    }

    /// Serves without TLS. No cluster talks to such a server, but a tunnel may.
    pub fn insecure(mut self) -> Self {
        self.options.insecure = true;
        self
    }

    /// Whether the cluster has to show a certificate as a client.
    pub fn client_certificates(mut self, certificates: ClientCertificates) -> Self {
        self.options.verify = certificates;
        self
    }

    /// The authority that signs certificates of clients, as a PEM file.
    pub fn client_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.verify_cafile = Some(path.into());
        self
    }

    /// The authority that signs certificates of clients, in PEM.
    pub fn client_ca_data(mut self, pem: impl Into<String>) -> Self {
        self.options.verify_cadata = Some(pem.into());
        self
    }

    /// The interval at which the server looks for renewed files; a minute by default.
    pub fn file_check_interval(mut self, interval: Duration) -> Self {
        self.options.file_check_interval = Some(interval.as_secs_f64());
        self
    }
}
