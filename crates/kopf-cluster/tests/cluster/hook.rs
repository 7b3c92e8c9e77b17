//! A webhook for tests: a TLS server with a function from the path and the review to the response.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A running webhook.
pub(crate) struct Hook {
    port: u16,
    authority: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

type Answer = Arc<dyn Fn(&str, &Value) -> Value + Send + Sync>;

impl Hook {
    /// Starts the server. It sends a string unchanged, and everything else as JSON.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned(), "hook.default.svc".to_owned()];
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let (noted, answer): (_, Answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted, answer) = (acceptor.clone(), Arc::clone(&noted), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                        async move {
                            let path = request.uri().path().to_owned();
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let text = match answer(&path, &review) {
                                Value::String(text) => text,
                                other => other.to_string(),
                            };
                            noted.lock().unwrap().push((path, review));
                            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(text))))
                        }
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, authority: STANDARD.encode(certified.cert.pem()), seen }
    }

    /// A `clientConfig` for a path of this webhook.
    pub(crate) fn config(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.authority})
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The reviews since the last call of this function, with their paths.
    pub(crate) fn seen(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// The paths of these reviews.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|(path, _)| path).collect()
    }
}

/// A response to an admission review.
pub(crate) fn reviewed(review: &Value, response: Value) -> Value {
    let mut response = response;
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// A response with a patch.
pub(crate) fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}
