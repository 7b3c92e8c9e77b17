//! Conversion of custom resources between versions: which handlers to call in which order, and the response.
//!
//! Each handler converts from one version to another. Where there is no direct handler, the engine calls the shortest
//! chain of handlers, for example through a hub version.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{Handler, ReviewError, WebhookType, webhook_url};

/// A request of the API server to convert objects.
#[derive(Clone, Debug)]
pub struct ConversionReview {
    api_version: Value,
    uid: Value,
    /// The wanted `apiVersion`.
    pub desired: String,
    /// The objects to convert.
    pub objects: Vec<Value>,
}

/// Why objects cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionFailure {
    /// No chain of handlers leads from one version to the other.
    #[error("There are no handlers to convert {kind} from {from} to {to}.")]
    NoPath {
        /// The kind of the object.
        kind: String,
        /// Its version.
        from: String,
        /// The wanted version.
        to: String,
    },
    /// An object has no version, or is of another group than the wanted version.
    #[error("An object of {actual:?} cannot be converted to {desired:?}.")]
    OtherGroup {
        /// The `apiVersion` of the object.
        actual: String,
        /// The wanted `apiVersion`.
        desired: String,
    },
    /// A handler has failed.
    #[error("{handler}: {message}")]
    Handler {
        /// The title of the handler.
        handler: String,
        /// The text of the error.
        message: String,
    },
    /// A handler has returned something that is not an object.
    #[error("{handler} has returned {found}, which is not an object.")]
    NotAnObject {
        /// The title of the handler.
        handler: String,
        /// What it has returned.
        found: String,
    },
}

impl ConversionReview {
    /// Whether a request is about a conversion, not about an admission.
    pub fn is_conversion(review: &Value) -> bool {
        review.get("kind").and_then(Value::as_str) == Some("ConversionReview")
    }

    /// Reads the request.
    pub fn parse(review: &Value) -> Result<Self, ReviewError> {
        let missing = |what: &str| ReviewError::MissingData(format!("{what} missing from the conversion request."));
        let request = review.get("request").and_then(Value::as_object).ok_or_else(|| missing("The request is"))?;
        let desired = request.get("desiredAPIVersion").and_then(Value::as_str);
        let objects = request.get("objects").and_then(Value::as_array);
        Ok(Self {
            api_version: review.get("apiVersion").cloned().unwrap_or_else(|| json!("apiextensions.k8s.io/v1")),
            uid: request.get("uid").cloned().unwrap_or_else(|| json!("")),
            desired: desired.ok_or_else(|| missing("The desired version is"))?.to_owned(),
            objects: objects.ok_or_else(|| missing("The objects are"))?.clone(),
        })
    }

    /// Builds the response: all objects, or the failure.
    pub fn answer(&self, converted: Result<Vec<Value>, ConversionFailure>) -> Value {
        let response = match converted {
            Ok(objects) => {
                json!({"uid": self.uid, "convertedObjects": objects, "result": {"status": "Success"}})
            }
            Err(failure) => {
                json!({"uid": self.uid, "result": {"status": "Failed", "message": failure.to_string()}})
            }
        };
        json!({"apiVersion": self.api_version, "kind": "ConversionReview", "response": response})
    }

    /// What to convert one of the objects from and to.
    pub fn route<'a>(&'a self, object: &'a Value) -> Result<ConversionRoute<'a>, ConversionFailure> {
        let actual = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let ((group, from), (desired_group, to)) = (split(actual), split(&self.desired));
        if group != desired_group || from.is_empty() {
            let (actual, desired) = (actual.to_owned(), self.desired.clone());
            return Err(ConversionFailure::OtherGroup { actual, desired });
        }
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        Ok(ConversionRoute { group, kind, from, to })
    }
}

/// What to convert an object from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionRoute<'a> {
    /// The API group.
    pub group: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// The version of the object.
    pub from: &'a str,
    /// The wanted version.
    pub to: &'a str,
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// The handlers to call one after another; empty if the versions are the same, `None` if no chain exists.
///
/// It is the shortest chain; of several, that with the handlers that were declared first.
pub fn conversion_path(handlers: &[Arc<Handler>], from: &str, to: &str) -> Option<Vec<Arc<Handler>>> {
    let steps: Vec<(&str, &str, &Arc<Handler>)> = handlers
        .iter()
        .filter_map(|handler| {
            let options = handler.webhook.as_ref().filter(|options| options.webhook_type == WebhookType::Converting)?;
            Some((options.from.as_deref()?, options.to.as_deref()?, handler))
        })
        .collect();
    // By which handler each version was reached first.
    let mut reached: BTreeMap<&str, Option<(&str, &Arc<Handler>)>> = BTreeMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(version) = queue.pop_front() {
        if version == to {
            break;
        }
        for (source, target, handler) in steps.iter().filter(|(source, ..)| *source == version) {
            if !reached.contains_key(target) {
                reached.insert(target, Some((source, handler)));
                queue.push_back(target);
            }
        }
    }
    let mut path = Vec::new();
    let mut version = to;
    while let Some((source, handler)) = reached.get(version)? {
        path.push(Arc::clone(handler));
        version = source;
    }
    path.reverse();
    Some(path)
}

/// Finds two handlers for the same conversion, of which the engine would call only one.
///
/// It compares selectors as declared: it does not notice different ones that select the same, nor callbacks.
pub fn find_duplicate_conversion(handlers: &[Arc<Handler>]) -> Option<(Arc<Handler>, Arc<Handler>)> {
    let step = |handler: &Arc<Handler>| {
        let options = handler.webhook.as_ref().filter(|options| options.webhook_type == WebhookType::Converting)?;
        let selector = handler.selector.clone().filter(|selector| !selector.callback)?;
        Some((selector, options.from.clone()?, options.to.clone()?))
    };
    handlers.iter().enumerate().find_map(|(index, later)| {
        let wanted = step(later)?;
        let earlier = handlers[..index].iter().find(|earlier| step(earlier).as_ref() == Some(&wanted))?;
        Some((Arc::clone(earlier), Arc::clone(later)))
    })
}

/// Restores the metadata of a converted object that only the API server may change.
///
/// Conversions may change labels and annotations, but no other metadata.
pub fn restore_metadata(source: &Value, converted: Map<String, Value>, api_version: &str) -> Value {
    let mut object = converted;
    let changed = object.remove("metadata");
    let mut metadata = source.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(changed) = changed.as_ref().and_then(Value::as_object) {
        for stanza in ["labels", "annotations"] {
            match changed.get(stanza).filter(|value| !value.is_null()) {
                Some(value) => metadata.insert(stanza.to_owned(), value.clone()),
                None => metadata.remove(stanza),
            };
        }
    }
    let kind = source.get("kind").cloned().unwrap_or(Value::Null);
    let mut result = Map::from_iter([("apiVersion".to_owned(), json!(api_version)), ("kind".to_owned(), kind)]);
    result.insert("metadata".to_owned(), Value::Object(metadata));
    result.extend(object.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind"));
    Value::Object(result)
}

/// The patch of a CRD: conversion by a webhook at the address, or none.
pub fn conversion_patch(client_config: Option<&Value>, name: &str) -> Value {
    let conversion = match client_config {
        Some(config) => json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": webhook_url(config, &format!("convert/{name}")),
                "conversionReviewVersions": ["v1"],
            },
        }),
        None => json!({"strategy": "None", "webhook": null}),
    };
    json!({"spec": {"conversion": conversion}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HandlerType, WebhookOptions};
    use proptest::prelude::*;

    fn steps(pairs: &[(&str, &str)]) -> Vec<Arc<Handler>> {
        let step = |(index, (from, to)): (usize, &(&str, &str))| {
            let mut handler = Handler::new(index, &format!("{from}-{to}"), HandlerType::Webhook);
            handler.selector = Some(Default::default());
            let mut options = WebhookOptions::new(WebhookType::Converting);
            options.from = Some((*from).to_owned());
            options.to = Some((*to).to_owned());
            handler.webhook = Some(options);
            Arc::new(handler)
        };
        pairs.iter().enumerate().map(step).collect()
    }

    fn check(pairs: &[(&str, &str)], from: &str, to: &str, expected: Option<&[&str]>) {
        let path = conversion_path(&steps(pairs), from, to);
        let ids: Option<Vec<String>> = path.map(|path| path.iter().map(|handler| handler.id.to_string()).collect());
        let expected = expected.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        assert_eq!(ids, expected, "{pairs:?} {from} {to}");
    }

    #[test]
    fn paths() {
        let hub = [("v1", "hub"), ("hub", "v1"), ("v2", "hub"), ("hub", "v2")];
        check(&hub, "v1", "hub", Some(&["v1-hub"]));
        check(&hub, "v1", "v2", Some(&["v1-hub", "hub-v2"]));
        check(&hub, "v1", "v1", Some(&[]));
        check(&hub, "v1", "v3", None);
        check(&[("v1", "v2"), ("v2", "v3"), ("v1", "v3")], "v1", "v3", Some(&["v1-v3"]));
        check(&[("v1", "a"), ("v1", "b"), ("b", "v2"), ("a", "v2")], "v1", "v2", Some(&["v1-a", "a-v2"]));
        check(&[("v1", "v2")], "v2", "v1", None);
        check(&[("v1", "v2"), ("v2", "v1")], "v1", "v3", None);
        check(&[], "v1", "v1", Some(&[]));
    }

    #[test]
    fn steps_that_are_declared_twice() {
        let twice =
            |pairs: &[(&str, &str)]| find_duplicate_conversion(&steps(pairs)).map(|(one, two)| (one.index, two.index));
        assert_eq!(twice(&[("v1", "v2"), ("v2", "v1")]), None);
        assert_eq!(twice(&[("v1", "v2"), ("v2", "v1"), ("v1", "v2")]), Some((0, 2)));
        let mut others = steps(&[("v1", "v2"), ("v1", "v2")]);
        let selector = crate::Selector { any_name: Some("others".to_owned()), ..crate::Selector::default() };
        others[1] = Arc::new(Handler { selector: Some(selector), ..(*others[1]).clone() });
        assert_eq!(find_duplicate_conversion(&others).map(|_| ()), None, "of another kind");
    }

    #[test]
    fn metadata_stays() {
        let source = json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": "x", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"old": 1},
        });
        let converted = json!({
            "apiVersion": "nonsense", "kind": "Nonsense",
            "metadata": {"name": "other", "labels": {"e": "f"}},
            "spec": {"new": 1},
        });
        assert_eq!(
            restore_metadata(&source, converted.as_object().unwrap().clone(), "kopf.dev/v2"),
            json!({
                "apiVersion": "kopf.dev/v2", "kind": "KopfExample",
                "metadata": {"name": "x", "uid": "u", "labels": {"e": "f"}},
                "spec": {"new": 1},
            })
        );
        let without = json!({"spec": {}}).as_object().unwrap().clone();
        assert_eq!(restore_metadata(&source, without, "kopf.dev/v2")["metadata"], source["metadata"]);
    }

    #[test]
    fn reviews() {
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample"});
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "kopf.dev/v2", "objects": [object]},
        });
        assert!(ConversionReview::is_conversion(&review));
        let review = ConversionReview::parse(&review).unwrap();
        let route = ConversionRoute { group: "kopf.dev", kind: "KopfExample", from: "v1", to: "v2" };
        assert_eq!(review.route(&review.objects[0]), Ok(route));
        assert!(review.route(&json!({"apiVersion": "other/v1"})).is_err());
        assert!(review.route(&json!({})).is_err());
        assert_eq!(
            review.answer(Ok(vec![json!(1)]))["response"],
            json!({"uid": "u", "convertedObjects": [1], "result": {"status": "Success"}})
        );
        let failure = ConversionFailure::NoPath { kind: "K".into(), from: "v1".into(), to: "v2".into() };
        assert_eq!(
            review.answer(Err(failure))["response"]["result"],
            json!({"status": "Failed", "message": "There are no handlers to convert K from v1 to v2."})
        );
        for bad in [json!({}), json!({"request": 1}), json!({"request": {"objects": []}}), json!([])] {
            assert!(ConversionReview::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn crds() {
        let config = json!({"url": "https://x:1", "caBundle": "Q"});
        assert_eq!(
            conversion_patch(Some(&config), "kopfexamples.kopf.dev")["spec"]["conversion"]["webhook"],
            json!({
                "clientConfig": {"url": "https://x:1/convert/kopfexamples.kopf.dev", "caBundle": "Q"},
                "conversionReviewVersions": ["v1"],
            })
        );
        assert_eq!(conversion_patch(None, "x"), json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}));
    }

    proptest! {
        /// A path starts where it should, ends where it should, is connected, and visits no version twice.
        #[test]
        fn paths_are_paths(pairs in proptest::collection::vec((0_u8..6, 0_u8..6), 0..20), from in 0_u8..6, to in 0_u8..6) {
            let names: Vec<(String, String)> = pairs.iter().map(|(a, b)| (format!("v{a}"), format!("v{b}"))).collect();
            let borrowed: Vec<(&str, &str)> = names.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let handlers = steps(&borrowed);
            let (from, to) = (format!("v{from}"), format!("v{to}"));
            if let Some(path) = conversion_path(&handlers, &from, &to) {
                let mut version = from.clone();
                let mut visited = vec![version.clone()];
                for handler in path {
                    let options = handler.webhook.clone().unwrap();
                    prop_assert_eq!(options.from, Some(version));
                    version = options.to.unwrap();
                    prop_assert!(!visited.contains(&version));
                    visited.push(version.clone());
                }
                prop_assert_eq!(version, to);
            } else {
                prop_assert!(!borrowed.contains(&(from.as_str(), to.as_str())));
            }
        }
    }
}
