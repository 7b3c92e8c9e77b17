//! The certificate of a client, in the form that Python's `ssl` gives it: users know it from there.

use serde_json::{Map, Value, json};
use x509_parser::prelude::*;

/// Empty if it cannot be read.
pub fn describe_certificate(certificate: &[u8]) -> Value {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return json!({}) };
    let mut fields = Map::new();
    fields.insert("subject".into(), name(certificate.subject()));
    fields.insert("issuer".into(), name(certificate.issuer()));
    fields.insert("version".into(), json!(certificate.version().0 + 1));
    let serial: String = certificate.raw_serial().iter().map(|byte| format!("{byte:02X}")).collect();
    fields.insert("serialNumber".into(), json!(serial.strip_prefix("00").unwrap_or(&serial)));
    fields.insert("notBefore".into(), json!(time(&certificate.validity().not_before)));
    fields.insert("notAfter".into(), json!(time(&certificate.validity().not_after)));
    let names = certificate.subject_alternative_name().ok().flatten();
    let names: Vec<Value> =
        names.iter().flat_map(|names| &names.value.general_names).filter_map(alternative_name).collect();
    if !names.is_empty() {
        fields.insert("subjectAltName".into(), Value::Array(names));
    }
    Value::Object(fields)
}

/// A list of lists of pairs: `[[["commonName", "x"]]]`.
fn name(name: &X509Name<'_>) -> Value {
    let parts = name.iter_rdn().map(|part| {
        let pairs = part.iter().filter_map(|attribute| {
            let value = attribute.as_str().ok()?;
            Some(json!([long_name(attribute.attr_type()), value]))
        });
        Value::Array(pairs.collect())
    });
    Value::Array(parts.collect())
}

fn long_name(oid: &x509_parser::der_parser::oid::Oid<'_>) -> String {
    let text = oid.to_id_string();
    let known = match text.as_str() {
        "2.5.4.3" => "commonName",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "countryName",
        "2.5.4.7" => "localityName",
        "2.5.4.8" => "stateOrProvinceName",
        "2.5.4.10" => "organizationName",
        "2.5.4.11" => "organizationalUnitName",
        "1.2.840.113549.1.9.1" => "emailAddress",
        other => other,
    };
    known.to_owned()
}

/// As in `Nov 16 05:24:00 2026 GMT`.
fn time(time: &ASN1Time) -> String {
    let time = time.to_datetime();
    let month = time.month().to_string();
    let (day, hour, minute, second, year) = (time.day(), time.hour(), time.minute(), time.second(), time.year());
    format!("{} {day:>2} {hour:02}:{minute:02}:{second:02} {year} GMT", &month[..3])
}

fn alternative_name(name: &GeneralName<'_>) -> Option<Value> {
    match name {
        GeneralName::DNSName(name) => Some(json!(["DNS", name])),
        GeneralName::RFC822Name(name) => Some(json!(["email", name])),
        GeneralName::URI(name) => Some(json!(["URI", name])),
        GeneralName::IPAddress(bytes) => {
            let address = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
                16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
                _ => None,
            };
            Some(json!(["IP Address", address?]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    #[test]
    fn as_python_shows_it() {
        let mut params = CertificateParams::new(vec!["example.com".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "apiserver");
        params.serial_number = Some(vec![1, 171].into());
        params.not_before = date_time_ymd(2026, 11, 6);
        params.not_after = date_time_ymd(2027, 1, 16);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let subject = json!([[["organizationName", "system:masters"]], [["commonName", "apiserver"]]]);
        assert_eq!(
            describe_certificate(certificate.der()),
            json!({
                "subject": subject,
                "issuer": subject,
                "version": 3,
                "serialNumber": "01AB",
                "notBefore": "Nov  6 00:00:00 2026 GMT",
                "notAfter": "Jan 16 00:00:00 2027 GMT",
                "subjectAltName": [["DNS", "example.com"], ["IP Address", "10.0.0.1"]],
            })
        );
        assert_eq!(describe_certificate(b"garbage"), json!({}));
    }
}
