//! The TLS of a connection, with the certificate by which the server knows the operator.
//!
//! rustls reads the certificate of a client before it uses it, and can read only version 3 of X.509. But `openssl x509 -req`
//! makes certificates of version 1, which servers accept. A client only sends its certificate and need not read
//! it: if rustls cannot read a certificate, the engine sends it unread.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use kube::client::{ConfigExt as _, RustlsTlsError};
use kube::config::AuthInfo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use secrecy::ExposeSecret as _;

/// The connector for HTTPS as the configuration wants it. Called once for every login.
pub(super) fn https_connector<H: Clone>(config: &kube::Config, connector: H) -> Result<HttpsConnector<H>, kube::Error> {
    match config.rustls_https_connector_with_connector(connector.clone()) {
        Err(refused) if is_unreadable(&refused) => match unread_identity(&config.auth_info) {
            Some((chain, key)) => with_unread_identity(config, connector, chain, key),
            None => Err(refused),
        },
        made => made,
    }
}

/// Whether the certificate could not be read. A key that does not belong to the certificate is another error.
fn is_unreadable(error: &kube::Error) -> bool {
    matches!(error, kube::Error::RustlsTls(RustlsTlsError::InvalidPrivateKey(rustls::Error::InvalidCertificate(_))))
}

/// The certificate with its chain, and the key, if both are there and are PEM.
fn unread_identity(user: &AuthInfo) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let certificate = pem(user.client_certificate_data.as_deref(), user.client_certificate.as_deref())?;
    let key_data = user.client_key_data.as_ref().map(|data| data.expose_secret());
    let key = pem(key_data, user.client_key.as_deref())?;
    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>().ok()?;
    Some((chain, PrivateKeyDer::from_pem_slice(&key).ok()?))
}

/// What a kubeconfig has as base64, or in a file; the former wins.
fn pem(data: Option<&str>, path: Option<&str>) -> Option<Vec<u8>> {
    match (data, path) {
        (Some(data), _) => BASE64.decode(data).ok(),
        (None, Some(path)) => std::fs::read(path).ok(),
        (None, None) => None,
    }
}

fn with_unread_identity<H>(
    config: &kube::Config,
    connector: H,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<HttpsConnector<H>, kube::Error> {
    let mut anonymous = config.clone();
    let user = &mut anonymous.auth_info;
    (user.client_certificate, user.client_certificate_data) = (None, None);
    (user.client_key, user.client_key_data) = (None, None);
    let mut tls = anonymous.rustls_client_config()?;
    let key = tls.crypto_provider().key_provider.load_private_key(key).map_err(RustlsTlsError::InvalidPrivateKey);
    let identity = CertifiedKey::new(chain, key.map_err(kube::Error::RustlsTls)?);
    tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName);
        builder =
            builder.with_server_name_resolver(FixedServerNameResolver::new(name.map_err(kube::Error::RustlsTls)?));
    }
    Ok(builder.enable_http1().wrap_connector(connector))
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::HttpConnector;
    use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

    use super::*;

    /// As `openssl x509 -req` makes it: of version 1, valid until 2126.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBGDCBvwIULNVi7mkKQ3veamw1VdOLaYtswyEwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTE4MDU0MjA1WhgPMjEyNjEwMjUwNTQyMDVaMA8xDTAL
BgNVBAMMBHVzZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARu98qxcLnDVFIo
ZA7GUu42dcEuRlvQX0OmQ4q0nvcHGzXF05juJ5m3ou9ph/Q7f6pbvfeqDUlH4P+1
TLJ+ityyMAoGCCqGSM49BAMCA0gAMEUCIEHk3Fmw4NNYlmy9JFHEZ4nl1njElygs
DH9yFZ6+Xcu9AiEAzU0z/FVZekDfkRGpGqcYkNAtKZGiqDu1VjduxDkx+yU=
-----END CERTIFICATE-----
";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQ0ljjktYS0dSaVEn
mxS0DPmA7DCq+z09PzL+jbYNRu+hRANCAARu98qxcLnDVFIoZA7GUu42dcEuRlvQ
X0OmQ4q0nvcHGzXF05juJ5m3ou9ph/Q7f6pbvfeqDUlH4P+1TLJ+ityy
-----END PRIVATE KEY-----
";

    async fn connector_for(certificate: &str, key: &str) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
        let user = AuthInfo {
            client_certificate_data: Some(BASE64.encode(certificate)),
            client_key_data: Some(BASE64.encode(key).into()),
            ..AuthInfo::default()
        };
        let kubeconfig = Kubeconfig::from_yaml(
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
              clusters: [{name: c, cluster: {server: 'https://h', insecure-skip-tls-verify: true}}], users: [{name: u}]}",
        );
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig.unwrap(), &options).await.unwrap();
        config.auth_info = user;
        https_connector(&config, HttpConnector::new())
    }

    #[tokio::test]
    async fn certificates_of_version_1_are_used() {
        connector_for(VERSION_1, KEY).await.unwrap();
    }

    #[tokio::test]
    async fn a_key_of_another_certificate_is_refused() {
        let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
        connector_for(&other.cert.pem(), &other.signing_key.serialize_pem()).await.unwrap();
        let error = connector_for(&other.cert.pem(), KEY).await.expect_err("another key");
        assert!(error.to_string().contains("private key"), "{error}");
    }
}
