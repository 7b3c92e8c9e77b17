//! How to reach the cluster, and as whom: the result of a login, and the client made from it.
//!
//! The login activity of a front returns [`ConnectionInfo`]s; the [`Vault`] keeps the clients made from them, and
//! every request of the engine takes its client from there.

mod connection;
mod identity;
mod token_file;
mod vault;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::Timestamp;
use kube::config::{
    AuthInfo, Cluster, Context, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo,
    NamedCluster, NamedContext,
};
use serde::{Deserialize, Serialize};

use crate::support::clock::Clock;
pub use connection::Connection;
pub(crate) use connection::{Answer, REQUESTS_IN_FLIGHT};
use token_file::TokenFile;
pub use vault::{Login, LoginError, Session, Vault};

/// One endpoint and one identity to use there, as a login handler gives it.
///
/// All parts are optional in the JSON, but either a `server` or `kubeconfig` is needed.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConnectionInfo {
    /// Take everything from the kubeconfig of the environment, or else from the pod; this runs
    /// the plugins that the kubeconfig names. Of other parts, only `priority`,
    /// `expected_server` and those of proxies count then.
    pub kubeconfig: bool,
    /// With `kubeconfig`, the only address that it may lead to; any by default.
    pub expected_server: Option<String>,
    /// The address of the API, such as `https://localhost:6443`.
    pub server: String,
    pub ca_path: Option<String>,
    /// PEM text, or base64 of it.
    pub ca_data: Option<String>,
    /// Do not verify the certificate of the server.
    pub insecure: Option<bool>,
    pub username: Option<String>,
    pub password: Option<String>,
    /// The scheme of the `Authorization` header; `Bearer` if there is only a token.
    pub scheme: Option<String>,
    pub token: Option<String>,
    /// A file with the token, which is read again every minute and on every login. It goes before `token`.
    pub token_path: Option<String>,
    pub certificate_path: Option<String>,
    /// PEM text, or base64 of it.
    pub certificate_data: Option<String>,
    pub private_key_path: Option<String>,
    /// PEM text, or base64 of it.
    pub private_key_data: Option<String>,
    /// The namespace for events of cluster-scoped objects.
    pub default_namespace: Option<String>,
    pub proxy_url: Option<String>,
    /// Whether to use the proxy variables of the environment.
    pub trust_env: bool,
    /// When the credentials end, in ISO 8601; a time without an offset is in UTC.
    pub expiration: Option<String>,
    /// The highest one is used first.
    pub priority: i64,
}

/// Why no client could be made from a connection info.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// There is neither a server nor a kubeconfig to take it from.
    #[error("the connection info has no server")]
    NoServer,
    /// Two sources for the same thing.
    #[error("both the path and the data of the {0} are set; need only one")]
    BothPathAndData(&'static str),
    /// The time of the expiration cannot be read.
    #[error("the expiration {text:?} is not a time: {source}")]
    Expiration { text: String, source: jiff::Error },
    /// The file with the token is not there, or is not a text.
    #[error("the token cannot be read from {}: {source}", path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    /// The scheme or the token cannot be put into a header.
    #[error("the credentials cannot be sent in a header: {0}")]
    Header(#[source] http::header::InvalidHeaderValue),
    /// The server, the proxy or the certificates cannot be read.
    #[error("the connection to {server} cannot be configured: {source}")]
    Config { server: String, source: Box<KubeconfigError> },
    /// There is no usable kubeconfig, and we do not run in a pod.
    #[error("the cluster cannot be found by the environment: {0}")]
    Environment(#[source] Box<InferConfigError>),
    /// The kubeconfig has changed, or the pod was found instead of it.
    #[error("the environment leads to {server}, and the operator may only use {expected}")]
    OtherServer { server: String, expected: String },
    /// TLS or the plugin of the kubeconfig has failed.
    #[error("the client of {server} cannot be made: {source}")]
    Client { server: String, source: Box<kube::Error> },
    /// The thread that makes the client was ended.
    #[error("making a client was interrupted")]
    Interrupted,
}

impl ConnectionInfo {
    /// The info that takes everything from the environment.
    pub fn from_environment() -> Self {
        Self { kubeconfig: true, trust_env: true, ..Self::default() }
    }

    /// When the credentials end, if they do.
    pub fn expires_at(&self) -> Result<Option<Timestamp>, CredentialsError> {
        let Some(text) = &self.expiration else { return Ok(None) };
        let parsed = text.parse::<Timestamp>().or_else(|_| {
            let naive: jiff::civil::DateTime = text.parse()?;
            naive.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp())
        });
        match parsed {
            Ok(expiration) => Ok(Some(expiration)),
            Err(source) => Err(CredentialsError::Expiration { text: text.clone(), source }),
        }
    }

    /// The configuration of a client, with everything checked that can be without a request.
    pub async fn to_config(&self, connect_timeout: Option<Duration>) -> Result<kube::Config, CredentialsError> {
        let mut config = if self.kubeconfig {
            let config = kube::Config::infer().await;
            let config = config.map_err(|source| CredentialsError::Environment(Box::new(source)))?;
            if let Some(expected) = self.expected_server.as_ref().filter(|text| !leads_to(&config.cluster_url, text)) {
                let (server, expected) = (config.cluster_url.to_string(), expected.clone());
                return Err(CredentialsError::OtherServer { server, expected });
            }
            config
        } else {
            let kubeconfig = self.to_kubeconfig()?;
            let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|source| CredentialsError::Config { server: self.server.clone(), source: Box::new(source) })?;
            if let Some(header) = self.authorization_header()? {
                config.headers.push((AUTHORIZATION, header));
            }
            config
        };
        if self.proxy_url.is_none() && !self.trust_env {
            config.proxy_url = None;
        }
        if connect_timeout.is_some() {
            config.connect_timeout = connect_timeout;
        }
        // Retries are decided in one place, `client.rs`, which knows what is safe to repeat.
        config.default_retry = false;
        Ok(config)
    }

    /// The way to the server, and its address. It may run a plugin, so that it is made outside of the async threads.
    pub async fn connect(
        &self,
        connect_timeout: Option<Duration>,
        clock: &Clock,
    ) -> Result<(Connection, Arc<str>), CredentialsError> {
        let expiration = self.expires_at()?;
        let mut config = self.to_config(connect_timeout).await?;
        let token_file = config.auth_info.token_file.take().filter(|_| config.auth_info.token.is_none());
        let token_file = token_file.map(|path| TokenFile::open(path, clock.clone())).transpose()?;
        let address: Arc<str> = config.cluster_url.to_string().trim_end_matches('/').into();
        let server = address.to_string();
        let clock = clock.clone();
        let made = tokio::task::spawn_blocking(move || Connection::make(config, token_file, clock));
        let connection = made
            .await
            .map_err(|_| CredentialsError::Interrupted)?
            .map_err(|source| CredentialsError::Client { server, source: Box::new(source) })?;
        let valid_until = expiration.or(*connection.client().valid_until());
        Ok((connection.with_valid_until(valid_until), address))
    }

    /// The same facts in the words of a kubeconfig, so that kube's own loader reads them.
    fn to_kubeconfig(&self) -> Result<Kubeconfig, CredentialsError> {
        if self.server.is_empty() {
            return Err(CredentialsError::NoServer);
        }
        for (what, path, data) in [
            ("CA", &self.ca_path, &self.ca_data),
            ("certificate", &self.certificate_path, &self.certificate_data),
            ("private key", &self.private_key_path, &self.private_key_data),
        ] {
            if path.is_some() && data.is_some() {
                return Err(CredentialsError::BothPathAndData(what));
            }
        }
        let cluster = Cluster {
            server: Some(self.server.clone()),
            insecure_skip_tls_verify: self.insecure,
            certificate_authority: self.ca_path.clone(),
            certificate_authority_data: self.ca_data.as_deref().map(as_base64),
            proxy_url: self.proxy_url.clone(),
            ..Cluster::default()
        };
        let mut user = AuthInfo {
            client_certificate: self.certificate_path.clone(),
            client_certificate_data: self.certificate_data.as_deref().map(as_base64),
            client_key: self.private_key_path.clone(),
            client_key_data: self.private_key_data.as_deref().map(|data| as_base64(data).into()),
            ..AuthInfo::default()
        };
        if let (Some(username), Some(password)) = (&self.username, &self.password) {
            user.username = Some(username.clone());
            user.password = Some(password.clone().into());
        } else if self.scheme.is_none() {
            user.token = self.token.clone().filter(|_| self.token_path.is_none()).map(Into::into);
            user.token_file = self.token_path.clone();
        }
        let name = || "kopf".to_owned();
        let context = Context {
            cluster: name(),
            user: Some(name()),
            namespace: self.default_namespace.clone(),
            ..Context::default()
        };
        Ok(Kubeconfig {
            current_context: Some(name()),
            clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
            auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
            contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
            ..Kubeconfig::default()
        })
    }

    /// The header for the schemes that a kubeconfig does not know.
    fn authorization_header(&self) -> Result<Option<HeaderValue>, CredentialsError> {
        let by_password = self.username.is_some() && self.password.is_some();
        let Some(scheme) = self.scheme.as_ref().filter(|_| !by_password) else { return Ok(None) };
        let text = match &self.token {
            Some(token) => format!("{scheme} {token}"),
            None => scheme.clone(),
        };
        let mut header = HeaderValue::from_str(&text).map_err(CredentialsError::Header)?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// Shows where and as whom, but no secret.
impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "***");
        formatter
            .debug_struct("ConnectionInfo")
            .field("kubeconfig", &self.kubeconfig)
            .field("server", &self.server)
            .field("ca_path", &self.ca_path)
            .field("insecure", &self.insecure)
            .field("username", &self.username)
            .field("password", &hidden(&self.password))
            .field("scheme", &self.scheme)
            .field("token", &hidden(&self.token))
            .field("token_path", &self.token_path)
            .field("certificate_path", &self.certificate_path)
            .field("private_key_path", &self.private_key_path)
            .field("private_key_data", &hidden(&self.private_key_data))
            .field("default_namespace", &self.default_namespace)
            .field("expiration", &self.expiration)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// Whether the address is the same as in the text, however its port and its last slash are written.
fn leads_to(url: &http::Uri, text: &str) -> bool {
    let parts = |url: &http::Uri| {
        let scheme = url.scheme_str().unwrap_or("https").to_ascii_lowercase();
        let port = url.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
        (url.host().unwrap_or_default().to_ascii_lowercase(), port, url.path().trim_end_matches('/').to_owned(), scheme)
    };
    text.parse().is_ok_and(|expected| parts(url) == parts(&expected))
}

/// PEM text as base64, as kubeconfigs have it; what is base64 already stays.
fn as_base64(data: &str) -> String {
    if data.trim_start().starts_with("-----BEGIN ") { BASE64.encode(data) } else { data.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(json: &str) -> ConnectionInfo {
        serde_json::from_str(json).expect("a connection info")
    }

    #[test]
    fn secrets_are_never_shown() {
        let text = format!(
            "{:?}",
            info(r#"{"server":"https://h","token":"tttt","password":"pppp","private_key_data":"kkkk"}"#)
        );
        assert!(text.contains("https://h"), "{text}");
        for secret in ["tttt", "pppp", "kkkk"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn expirations() {
        let cases = [
            (None, Ok(None)),
            (Some("2030-01-02T03:04:05Z"), Ok(Some("2030-01-02T03:04:05Z"))),
            (Some("2030-01-02T03:04:05+01:00"), Ok(Some("2030-01-02T02:04:05Z"))),
            (Some("2030-01-02T03:04:05.123456+00:00"), Ok(Some("2030-01-02T03:04:05.123456Z"))),
            (Some("2030-01-02T03:04:05"), Ok(Some("2030-01-02T03:04:05Z"))),
            (Some("tomorrow"), Err(())),
        ];
        for (text, expected) in cases {
            let info = ConnectionInfo { expiration: text.map(str::to_owned), ..ConnectionInfo::default() };
            let actual = info.expires_at().map(|time| time.map(|time| time.to_string())).map_err(|_| ());
            assert_eq!(actual, expected.map(|time: Option<&str>| time.map(str::to_owned)), "{text:?}");
        }
    }

    #[tokio::test]
    async fn configurations() {
        let config = info(r#"{"server":"https://h:1","token":"t","insecure":true,"default_namespace":"n"}"#)
            .to_config(Some(Duration::from_secs(3)))
            .await
            .unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://h:1/");
        assert_eq!(config.default_namespace, "n");
        assert_eq!(config.connect_timeout, Some(Duration::from_secs(3)));
        assert!(config.accept_invalid_certs && config.auth_info.token.is_some() && !config.default_retry);
        assert!(config.headers.is_empty());

        let config = info(r#"{"server":"http://h","scheme":"Digest","token":"t"}"#).to_config(None).await.unwrap();
        assert!(!config.accept_invalid_certs && config.auth_info.token.is_none());
        assert_eq!(config.headers[0].1, "Digest t");

        let config = info(r#"{"server":"http://h","username":"u","password":"p","token":"t"}"#).to_config(None).await;
        let config = config.unwrap();
        assert!(config.auth_info.username.is_some() && config.auth_info.token.is_none());

        let config = info(r#"{"server":"http://h","token":"t","token_path":"p"}"#).to_config(None).await.unwrap();
        assert!(config.auth_info.token.is_none(), "the file is renewed by others, the token is not");
        assert_eq!(config.auth_info.token_file.as_deref(), Some("p"));
    }

    #[test]
    fn addresses_are_compared_by_their_meaning() {
        let cases = [
            ("https://h:6443", "https://h:6443/", true),
            ("https://h", "https://H:443", true),
            ("http://h", "http://h:80/", true),
            ("https://h/prefix/", "https://h/prefix", true),
            ("https://h:6443", "https://h:6444", false),
            ("https://h", "http://h:443", false),
            ("https://h", "https://other", false),
            ("https://h/prefix", "https://h", false),
            ("https://h", "no address", false),
        ];
        for (url, text, expected) in cases {
            assert_eq!(leads_to(&url.parse().unwrap(), text), expected, "{url} {text}");
        }
    }

    #[tokio::test]
    async fn the_error_names_what_is_wrong_in_the_connection_info() {
        let cases = [
            (r#"{}"#, "the connection info has no server"),
            (r#"{"server":"http://h","ca_path":"a","ca_data":"b"}"#, "both the path and the data of the CA are set"),
            (r#"{"server":"http://h","ca_data":"???"}"#, "the connection to http://h cannot be configured"),
            (r#"{"server":"http://h","scheme":"a\nb"}"#, "the credentials cannot be sent in a header"),
            (r#"{"server":"http://h","token_path":"/absent"}"#, "the token cannot be read from /absent: "),
            (r#"{"server":"http://h","expiration":"never"}"#, "the expiration \"never\" is not a time"),
        ];
        for (json, expected) in cases {
            let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
            let error = info(json).connect(None, &clock).await.err().expect("an error").to_string();
            assert!(error.starts_with(expected), "{json}: {error}");
        }
    }

    #[test]
    fn certificates_may_be_text_or_base64() {
        assert_eq!(as_base64("-----BEGIN X"), BASE64.encode("-----BEGIN X"));
        assert_eq!(as_base64("YWJj\n"), "YWJj");
    }
}
