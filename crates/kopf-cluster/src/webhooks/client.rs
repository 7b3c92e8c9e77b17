//! Calls webhooks over HTTPS. The cluster opens no other outgoing connections.
//!
//! `http/service.rs` and the watches pass a [`Call`] to [`fetch`]. TLS is verified by the `caBundle` of the
//! configuration, or by the root certificates of the machine. A service is resolved as kube-proxy does it:
//! to the endpoints of its slices, or to its external name. Time-outs use the clock of the machine and not
//! that of the cluster, since webhooks live outside of the cluster.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;

use super::review::go_type;
use super::trust::Verifier;
use crate::catalog::webhooks::Address;
use crate::codec::yaml;
use crate::request::Call;
use crate::state::State;
use crate::store::ObjectKey;

/// Longer responses are truncated, which makes them invalid.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// Makes a call, and returns the decoded response, or the error in the exact words of a real server.
pub(crate) async fn fetch(state: &State, call: &Call) -> Result<Value, String> {
    let url = format!("{}?timeout={}s", call.target.url(), call.timeout.as_secs());
    let posted = tokio::time::timeout(call.timeout, post(state, call, &url)).await;
    let (code, content_type, body) = match posted {
        Ok(Ok(answer)) => answer,
        Ok(Err(reason)) => return Err(format!("Post \"{url}\": {reason}")),
        Err(_) => return Err(format!("Post \"{url}\": context deadline exceeded")),
    };
    read(code, &content_type, &body)
}

async fn post(state: &State, call: &Call, url: &str) -> Result<(u16, String, Bytes), String> {
    let uri: http::Uri = url.parse().map_err(|error| format!("{error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let (dial_host, dial_port) = match &call.target.address {
        Address::Url(_) => (host.clone(), uri.port_u16().unwrap_or(443)),
        Address::Service { namespace, name, port, .. } => resolve(state, namespace, name, *port)?,
    };
    let stream = dial(&dial_host, dial_port).await?;
    let server = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(tls(&call.target.authorities)?);
    let stream = connector.connect(server, stream).await.map_err(|error| tls_error(&error))?;
    let mut builder = hyper::client::conn::http1::Builder::new();
    let handshake = builder.title_case_headers(true).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| error.to_string())?;
    // Every call has its own connection, which ends with the call.
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(connection);
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let request = http::Request::post(path)
        .header(http::header::HOST, authority)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json, */*")
        .header(http::header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(crate::codec::json::to_bytes(&call.body))))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|_| "EOF".to_owned())?;
    let code = response.status().as_u16();
    let content_type = response.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
    Ok((code, content_type, body.map_err(|_| "unexpected EOF".to_owned())?.to_bytes()))
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<_> = match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => Vec::new(),
    };
    // As in Go, the caller gets the error of the first address.
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let reason = match error.kind() {
                    std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                    _ => error.to_string(),
                };
                first.get_or_insert(format!("dial tcp {address}: connect: {reason}"));
            }
        }
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

/// The host and the port of a service.
fn resolve(state: &State, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let missing = || format!("service \"{name}\" not found");
    let services = state.built_in("", "v1", "services").ok_or_else(missing)?;
    let service = state.get(&services, &ObjectKey::new(namespace, name)).ok_or_else(missing)?.decode();
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok((spec["externalName"].as_str().unwrap_or_default().to_owned(), port));
    }
    let ports = spec["ports"].as_array().into_iter().flatten();
    let Some(wanted) = ports.into_iter().find(|known| known["port"].as_u64() == Some(u64::from(port))) else {
        return Err(format!("no service port {port} found for service \"{name}\""));
    };
    let endpoint = endpoint_of(state, namespace, name, wanted["name"].as_str().unwrap_or_default());
    endpoint.ok_or_else(|| {
        let address = spec["clusterIP"].as_str().unwrap_or_default();
        format!("dial tcp {address}:{port}: connect: connection refused")
    })
}

/// The first ready endpoint of a service.
fn endpoint_of(state: &State, namespace: &str, service: &str, port: &str) -> Option<(String, u16)> {
    let slices = state.built_in("discovery.k8s.io", "v1", "endpointslices")?;
    let stored = state.store().list(&slices.storage, Some(namespace), None);
    let own = stored.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(service));
    own.map(|slice| slice.decode()).find_map(|slice| {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let found = ports.into_iter().find(|known| known["name"].as_str().unwrap_or_default() == port)?;
        let number = u16::try_from(found["port"].as_u64()?).ok()?;
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.into_iter().find(|endpoint| endpoint["conditions"]["ready"] != false)?;
        Some((ready["addresses"][0].as_str()?.to_owned(), number))
    })
}

fn tls(authorities: &[u8]) -> Result<Arc<rustls::ClientConfig>, String> {
    let mut roots = rustls::RootCertStore::empty();
    let bundle: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(authorities).flatten().collect();
    match authorities.is_empty() {
        false => {
            for certificate in &bundle {
                // An invalid certificate in the bundle is ignored.
                let _ = roots.add(certificate.clone());
            }
            if roots.is_empty() {
                return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
            }
        }
        true => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let usual = usual.build().map_err(|error| error.to_string())?;
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { usual, bundle });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// A TLS error in the words of Go.
fn tls_error(error: &std::io::Error) -> String {
    use rustls::{CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = match inner {
        Some(Error::InvalidCertificate(problem)) => match problem {
            CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "certificate has expired or is not yet valid".to_owned()
            }
            CertificateError::NotValidForNameContext { expected, presented } => {
                let presented: Vec<&str> = presented
                    .iter()
                    .filter_map(|name| name.strip_prefix("DnsName(\"").and_then(|name| name.strip_suffix("\")")))
                    .collect();
                format!("certificate is valid for {}, not {}", presented.join(", "), expected.to_str())
            }
            other => other.to_string(),
        },
        Some(other) => return format!("remote error: tls: {other}"),
        None => return "EOF".to_owned(),
    };
    format!("tls: failed to verify certificate: x509: {reason}")
}

/// Decodes a response.
fn read(code: u16, content_type: &str, body: &[u8]) -> Result<Value, String> {
    if !(200..300).contains(&code) {
        return Err(failure(code, content_type, body));
    }
    if body.is_empty() {
        return Err(format!("0-length response with status code: {code} and content type: {content_type}"));
    }
    let unreadable = |reason: &str| format!("couldn't get version/kind; json parse error: {reason}");
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let value = match is_json {
        true => serde_json::from_slice(body).map_err(|error| match error.is_eof() {
            true => unreadable("unexpected end of JSON input"),
            false => unreadable(&error.to_string()),
        }),
        // The server parses all other bodies as YAML.
        false => yaml::parse(body).map_err(|error| unreadable(&error)),
    }?;
    match value {
        Value::Object(_) => Ok(value),
        other => Err(unreadable(&format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_type(&other)
        ))),
    }
}

/// The error for a response with an error status.
fn failure(code: u16, content_type: &str, body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let status = status.filter(|status| status["kind"] == "Status" && status["status"] == "Failure");
    if let Some(message) = status.as_ref().and_then(|status| status["message"].as_str()) {
        return message.to_owned();
    }
    let said = match content_type.starts_with("text/") {
        true => String::from_utf8_lossy(body).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => return said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        410 => "the server returned 410 Gone",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => return format!("an error on the server (\"{said}\") has prevented the request from succeeding"),
        _ => return format!("the server responded with the status code {code} but did not return more information"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::webhooks::Target;

    #[test]
    fn answers_are_read_as_by_a_real_server() {
        let parse = "couldn't get version/kind; json parse error: ";
        for (code, content_type, body, expected) in [
            (200, "application/json", "{\"a\":1}", Ok("{\"a\":1}".to_owned())),
            (201, "text/plain", "a: 1", Ok("{\"a\":1}".to_owned())),
            (200, "application/json", "{\"a\":", Err(format!("{parse}unexpected end of JSON input"))),
            (
                200,
                "application/json",
                "",
                Err("0-length response with status code: 200 and content type: application/json".to_owned()),
            ),
            (404, "text/plain", "x", Err("the server could not find the requested resource".to_owned())),
            (403, "", "", Err("unknown".to_owned())),
            (403, "text/plain", "go away\n", Err("go away".to_owned())),
            (
                500,
                "text/plain",
                "x",
                Err("an error on the server (\"x\") has prevented the request from succeeding".to_owned()),
            ),
            (
                500,
                "application/json",
                "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"m\"}",
                Err("m".to_owned()),
            ),
            (
                301,
                "",
                "",
                Err("the server responded with the status code 301 but did not return more information".to_owned()),
            ),
        ] {
            let found = read(code, content_type, body.as_bytes()).map(|value| value.to_string());
            assert_eq!(found, expected, "{code} {body}");
        }
        assert!(read(200, "", b"[]").is_err_and(|error| error.contains("cannot unmarshal array")));
    }

    #[test]
    fn errors_name_targets_by_their_urls() {
        for (config, expected) in [
            (serde_json::json!({"url": "https://127.0.0.1:1/x"}), "https://127.0.0.1:1/x"),
            (
                serde_json::json!({"service": {"namespace": "ns", "name": "svc", "path": "/p"}}),
                "https://svc.ns.svc:443/p",
            ),
            (
                serde_json::json!({"service": {"namespace": "ns", "name": "svc", "port": 8443}}),
                "https://svc.ns.svc:8443/",
            ),
        ] {
            assert_eq!(Target::parse(&config).url(), expected);
        }
    }
}
