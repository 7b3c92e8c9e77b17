//! Certificates of webhook servers: an authority that lives as long as the server, and certificates of it
//! that are renewed long before they expire. No private key ever leaves the process.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// How long a certificate holds, and when it is replaced by the next one.
const VALIDITY_DAYS: i64 = 90;
pub(super) const RENEWAL: Duration = Duration::from_secs(60 * 24 * 3600);

/// How long the authority holds. It goes with the process.
const AUTHORITY_DAYS: i64 = 3650;

/// An authority for one server.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    names: Vec<String>,
}

/// A certificate with its key, as TLS needs them.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    /// For servers under these names and addresses.
    pub(super) fn new(names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kopf webhooks");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        set_validity(&mut params, now, AUTHORITY_DAYS);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem, names: names.to_vec() })
    }

    /// A new certificate for the server.
    pub(super) fn issue(&self, now: Timestamp) -> Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let params = server_params(&self.names, now)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((vec![certificate.der().clone()], key))
    }
}

/// A certificate that vouches for itself, and its private key, both in PEM.
pub fn self_signed(names: &[String], now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = server_params(names, now)?.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn server_params(names: &[String], now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    let mut common_name = None;
    for name in names {
        match name.parse::<IpAddr>() {
            // Addresses to listen on everywhere cannot be connected to.
            Ok(address) if address.is_unspecified() => continue,
            Ok(address) => push_once(&mut params.subject_alt_names, SanType::IpAddress(address)),
            Err(_) => {
                common_name.get_or_insert(name);
                push_once(&mut params.subject_alt_names, SanType::DnsName(name.as_str().try_into()?));
            }
        }
    }
    params.distinguished_name = rcgen::DistinguishedName::new();
    let common_name = common_name.or(names.first()).map_or("localhost", String::as_str);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, VALIDITY_DAYS);
    Ok(params)
}

fn push_once(names: &mut Vec<SanType>, name: SanType) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// Valid since long ago, for clusters whose clocks are slow.
fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let until = now.checked_add(jiff::SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MAX);
    let date = until.to_zoned(TimeZone::UTC).date();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs());
}

#[cfg(test)]
impl Authority {
    /// One that vouches for clients.
    pub(super) fn for_clients(now: Timestamp) -> Self {
        Self::new(&["clients".to_owned()], now).unwrap()
    }

    /// A certificate of a client under that name.
    pub(super) fn issue_for_client(&self, name: &str, now: Timestamp) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = server_params(&[name.to_owned()], now).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (vec![certificate.der().clone()], key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::*;

    fn now() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn names_and_addresses() {
        let names = ["localhost", "127.0.0.1", "::1", "0.0.0.0", "localhost"].map(str::to_owned);
        let authority = Authority::new(&names, now()).unwrap();
        let (chain, _) = authority.issue(now()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap().value.general_names.clone();
        let expected = [
            GeneralName::DNSName("localhost"),
            GeneralName::IPAddress(&[127, 0, 0, 1]),
            GeneralName::IPAddress(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ];
        assert_eq!(names, expected);
        assert!(!certificate.is_ca());
        assert_eq!(certificate.issuer().to_string(), "CN=kopf webhooks");
        assert_eq!(certificate.validity().not_after.to_datetime().year(), 2027);
    }

    #[test]
    fn every_certificate_is_another_one_of_the_same_authority() {
        let authority = Authority::new(&["localhost".to_owned()], now()).unwrap();
        let (first, second) = (authority.issue(now()).unwrap(), authority.issue(now()).unwrap());
        assert_ne!(first.0, second.0);
    }

    #[test]
    fn the_self_signed_ones_are_text() {
        let (certificate, key) = self_signed(&["example.com".to_owned()], now()).unwrap();
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }
}
