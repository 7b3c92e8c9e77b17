//! The secrets of a cluster: its certificates and its token.
//!
//! `cluster.rs` creates them for a cluster in memory, `store/persistence/identity.rs` for one with a data
//! directory; `http/server.rs` serves with them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};

/// The certificates of a cluster.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Certificates {
    /// The CA certificate, for clients.
    pub authority_pem: String,
    /// The certificate of the server, in base64.
    pub certificate: String,
    /// Its private key (PKCS 8), in base64.
    pub key: String,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Generates a CA, and a server certificate for this machine.
    pub(crate) fn generate() -> Result<Self, rcgen::Error> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "kopf-cluster-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut server = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        server.distinguished_name.push(DnType::CommonName, "kopf-cluster");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python 3.13 and newer reject certificates without it.
        server.use_authority_key_identifier_extension = true;
        let server_key = KeyPair::generate()?;
        let server_certificate = server.signed_by(&server_key, &issuer)?;
        Ok(Self {
            authority_pem: authority_certificate.pem(),
            certificate: STANDARD.encode(server_certificate.der()),
            key: STANDARD.encode(server_key.serialize_der()),
        })
    }
}

/// Generates a secret token.
pub(crate) fn new_token() -> String {
    let mut bytes = [0_u8; 24];
    let provider = rustls::crypto::ring::default_provider();
    // Without system randomness, TLS would not work either.
    let _ = provider.secure_random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
