//! The webhook configurations that the operator manages: what the API server asks about, and where.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{Filter, Handler, Resource, WebhookType};

/// How long the API server waits for a response: the maximum.
const TIMEOUT_SECONDS: u32 = 30;

/// What a managed configuration consists of.
pub struct WebhookPlan<'a> {
    /// Validating or mutating.
    pub webhook_type: WebhookType,
    /// All handlers of webhooks.
    pub handlers: &'a [Arc<Handler>],
    /// The resources with webhooks, and the indexes of the handlers of each.
    pub resources: &'a [(Arc<Resource>, Vec<usize>)],
    /// The name of the configuration object.
    pub name: &'a str,
    /// Where the API server reaches the webhooks, as the webhook server reports it.
    pub client_config: &'a Value,
}

/// The webhooks of a configuration: one for each handler, or only for the persistent ones.
pub fn webhooks(plan: &WebhookPlan<'_>, persistent_only: bool) -> Vec<Value> {
    plan.handlers.iter().filter_map(|handler| webhook(plan, handler, persistent_only)).collect()
}

fn webhook(plan: &WebhookPlan<'_>, handler: &Handler, persistent_only: bool) -> Option<Value> {
    let options = handler.webhook.as_ref()?;
    if options.webhook_type != plan.webhook_type || (persistent_only && !options.persistent) {
        return None;
    }
    let operations = options.operations.clone().filter(|operations| !operations.is_empty());
    let operations = operations.unwrap_or_else(|| vec!["*".to_owned()]);
    let rules: Vec<Value> = plan
        .resources
        .iter()
        .filter(|(_, handlers)| handlers.contains(&handler.index))
        .map(|(resource, _)| {
            let name = match &options.subresource {
                None => resource.plural.clone(),
                Some(subresource) => format!("{}/{subresource}", resource.plural),
            };
            json!({
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [name],
                "operations": operations,
                "scope": "*",
            })
        })
        .collect();
    Some(json!({
        "name": webhook_name(&handler.id, plan.name),
        "sideEffects": if options.side_effects { "NoneOnDryRun" } else { "None" },
        "failurePolicy": if options.ignore_failures { "Ignore" } else { "Fail" },
        "matchPolicy": "Equivalent",
        "rules": rules,
        "objectSelector": label_selector(handler.labels.as_ref()),
        "clientConfig": webhook_url(plan.client_config, &handler.id),
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1", "v1beta1"],
    }))
}

/// The filters that the API server can check itself.
fn label_selector(labels: Option<&BTreeMap<String, Filter>>) -> Value {
    let expression = |(key, filter): (&String, &Filter)| match filter {
        Filter::Present => Some(json!({"key": key, "operator": "Exists"})),
        Filter::Absent => Some(json!({"key": key, "operator": "DoesNotExist"})),
        Filter::Equals(Value::String(value)) => Some(json!({"key": key, "operator": "In", "values": [value]})),
        Filter::Equals(value) => Some(json!({"key": key, "operator": "In", "values": [value.to_string()]})),
        Filter::Callback => None,
    };
    let expressions: Vec<Value> = labels.into_iter().flatten().filter_map(expression).collect();
    if expressions.is_empty() { Value::Null } else { json!({"matchExpressions": expressions}) }
}

/// The name of a webhook: valid for Kubernetes, and as close to the id of the handler as possible.
fn webhook_name(id: &str, suffix: &str) -> String {
    let mut name = String::with_capacity(id.len() + suffix.len() + 1);
    for character in id.chars() {
        match character {
            '/' => name.push('.'),
            '_' => name.push('-'),
            '.' | '-' => name.push(character),
            _ if character.is_ascii_alphanumeric() => name.push(character.to_ascii_lowercase()),
            _ => {
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes).bytes().for_each(|byte| name.push_str(&format!("{byte:02x}")));
            }
        }
    }
    if suffix.is_empty() { name } else { format!("{name}.{suffix}") }
}

/// The client configuration of one webhook: its id is the last part of the path.
pub fn webhook_url(client_config: &Value, id: &str) -> Value {
    let mut config = client_config.clone();
    let id = quoted(id);
    if let Some(url) = config.get("url").and_then(Value::as_str) {
        config["url"] = Value::from(format!("{}/{id}", url.trim_end_matches('/')));
    }
    if let Some(service) = config.get_mut("service").and_then(Value::as_object_mut) {
        let path = service.get("path").and_then(Value::as_str).unwrap_or_default();
        let path = format!("{}/{id}", path.trim_end_matches('/'));
        service.insert("path".to_owned(), Value::from(path));
    }
    without_nulls(config)
}

fn without_nulls(config: Value) -> Value {
    match config {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Percent-encodes a path; slashes stay.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerType;
    use proptest::prelude::*;

    fn handler(declaration: Value) -> Arc<Handler> {
        let mut full = json!({"index": 7, "id": "fn", "kind": "webhook", "webhook": {"type": "validating"}});
        full.as_object_mut().unwrap().extend(declaration.as_object().unwrap().clone());
        Arc::new(serde_json::from_value(full).unwrap())
    }

    fn built(handlers: &[Arc<Handler>], persistent_only: bool) -> Vec<Value> {
        let resource = Resource {
            group: "kopf.dev".into(),
            version: "v1".into(),
            plural: "kopfexamples".into(),
            ..Resource::default()
        };
        webhooks(
            &WebhookPlan {
                webhook_type: WebhookType::Validating,
                handlers,
                resources: &[(Arc::new(resource), vec![7])],
                name: "auto.kopf.dev",
                client_config: &json!({"url": "https://localhost:9443/", "caBundle": "QUJD"}),
            },
            persistent_only,
        )
    }

    #[test]
    fn a_plain_handler() {
        assert_eq!(
            built(&[handler(json!({}))], false),
            [json!({
                "name": "fn.auto.kopf.dev",
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "rules": [{
                    "apiGroups": ["kopf.dev"],
                    "apiVersions": ["v1"],
                    "resources": ["kopfexamples"],
                    "operations": ["*"],
                    "scope": "*",
                }],
                "objectSelector": null,
                "clientConfig": {"url": "https://localhost:9443/fn", "caBundle": "QUJD"},
                "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1", "v1beta1"],
            })]
        );
    }

    #[test]
    fn options_and_labels() {
        let options = json!({
            "type": "validating", "operations": ["UPDATE", "CREATE"], "subresource": "status",
            "side_effects": true, "ignore_failures": true,
        });
        let labels = json!({
            "a": {"present": true}, "b": {"absent": true}, "c": {"equals": "x"}, "d": {"callback": true},
        });
        let webhook = &built(&[handler(json!({"webhook": options, "labels": labels}))], false)[0];
        assert_eq!(webhook["sideEffects"], "NoneOnDryRun");
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["rules"][0]["resources"], json!(["kopfexamples/status"]));
        assert_eq!(webhook["rules"][0]["operations"], json!(["UPDATE", "CREATE"]));
        assert_eq!(
            webhook["objectSelector"],
            json!({"matchExpressions": [
                {"key": "a", "operator": "Exists"},
                {"key": "b", "operator": "DoesNotExist"},
                {"key": "c", "operator": "In", "values": ["x"]},
            ]})
        );
    }

    #[test]
    fn only_the_type_and_the_persistent_ones() {
        let handlers = [
            handler(json!({"id": "stays", "webhook": {"type": "validating", "persistent": true}})),
            handler(json!({"id": "goes"})),
            handler(json!({"id": "other", "webhook": {"type": "mutating", "persistent": true}})),
        ];
        let names = |persistent_only| -> Vec<Value> {
            built(&handlers, persistent_only).iter().map(|webhook| webhook["name"].clone()).collect()
        };
        assert_eq!(names(false), ["stays.auto.kopf.dev", "goes.auto.kopf.dev"]);
        assert_eq!(names(true), ["stays.auto.kopf.dev"]);
    }

    #[test]
    fn names_and_addresses() {
        let table = [
            ("fn", "fn.x", "/fn"),
            ("check_it/spec.field", "check-it.spec.field.x", "/check_it/spec.field"),
            ("outer.<locals>.fn", "outer.3clocals3e.fn.x", "/outer.%3Clocals%3E.fn"),
            ("Größe", "grc3b6c39fe.x", "/Gr%C3%B6%C3%9Fe"),
        ];
        for (id, name, path) in table {
            assert_eq!(webhook_name(id, "x"), name);
            let config = json!({"service": {"name": "svc", "path": "/base", "port": null}, "url": null});
            assert_eq!(webhook_url(&config, id), json!({"service": {"name": "svc", "path": format!("/base{path}")}}));
        }
        assert_eq!(webhook_name("fn", ""), "fn");
    }

    proptest! {
        #[test]
        fn names_are_acceptable(id in "\\PC{1,20}") {
            let name = webhook_name(&id, "auto.kopf.dev");
            let acceptable =
                |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || ".-".contains(character);
            prop_assert!(name.chars().all(acceptable), "{name}");
        }

        #[test]
        fn addresses_are_ascii_and_end_with_the_id(id in "\\PC{1,20}") {
            let url = webhook_url(&json!({"url": "https://x"}), &id);
            let url = url["url"].as_str().unwrap();
            prop_assert!(url.is_ascii() && url.starts_with("https://x/"));
        }

        #[test]
        fn one_webhook_per_handler(count in 0_usize..5) {
            let handlers: Vec<_> = (0..count).map(|_| handler(json!({}))).collect();
            prop_assert_eq!(built(&handlers, false).len(), count);
            prop_assert!(handlers.iter().all(|handler| handler.handler_type == HandlerType::Webhook));
        }
    }
}
