//! The address of a webhook, parsed from its `clientConfig`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The address of a webhook.
#[derive(Debug)]
pub struct Target {
    pub address: Address,
    /// PEM; empty for the system's root certificates.
    pub authorities: Vec<u8>,
}

#[derive(Debug)]
pub enum Address {
    Url(String),
    Service { namespace: String, name: String, port: u16, path: String },
}

impl Target {
    /// From a `clientConfig`.
    pub fn parse(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        let address = match config["url"].as_str() {
            Some(url) => Address::Url(url.to_owned()),
            None => Address::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                path: text(&service["path"]),
            },
        };
        Self { address, authorities: STANDARD.decode(text(&config["caBundle"])).unwrap_or_default() }
    }

    /// The URL, as errors show it.
    pub fn url(&self) -> String {
        match &self.address {
            Address::Url(url) => url.clone(),
            Address::Service { namespace, name, port, path } => {
                format!("https://{name}.{namespace}.svc:{port}/{}", path.trim_start_matches('/'))
            }
        }
    }
}

/// The webhook that converts the objects of a CRD.
#[derive(Debug)]
pub struct ConversionWebhook {
    pub target: Arc<Target>,
}

impl ConversionWebhook {
    /// Parses the `conversion` of a CRD; None if its versions differ in their names only.
    pub fn parse(conversion: &Value) -> Option<Self> {
        let is_webhook = conversion["strategy"] == "Webhook";
        is_webhook.then(|| Self { target: Arc::new(Target::parse(&conversion["webhook"]["clientConfig"])) })
    }
}
