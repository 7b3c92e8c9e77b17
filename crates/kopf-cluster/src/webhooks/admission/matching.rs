//! Whether a webhook is called for a request: rules, selectors, match conditions.

use std::sync::Arc;

use serde_json::Value;

use super::{Admission, Objects};
use crate::catalog::ResourceType;
use crate::catalog::webhooks::{ConditionInput, Subject, Webhook, all_hold};
use crate::request::status::StatusError;
use crate::store::ObjectKey;

/// The resource, in the version in which a webhook sees the objects.
pub(super) struct Invocation {
    pub resource: Arc<ResourceType>,
}

impl Admission<'_> {
    /// Whether the rules, selectors and conditions of a webhook match the request; None if not.
    pub(super) fn invocation(
        &self,
        webhook: &Webhook,
        objects: Objects<'_>,
    ) -> Result<Option<Invocation>, StatusError> {
        let namespace_matches = self.matches_namespace(webhook, objects);
        if namespace_matches == Ok(false) || !matches_object(webhook, objects) {
            return Ok(None);
        }
        let Some(invocation) = self.matching_version(webhook, objects.operation) else { return Ok(None) };
        namespace_matches?;
        if webhook.conditions.is_empty() {
            return Ok(Some(invocation));
        }
        let request = self.request_of("", &invocation, objects);
        let seen = ConditionInput { object: objects.new, old_object: objects.old, request: &request };
        match all_hold(&webhook.conditions, seen) {
            Ok(true) => Ok(Some(invocation)),
            Ok(false) => Ok(None),
            Err(_) if webhook.ignores_failures => Ok(None),
            Err(reason) => {
                let name = request["name"].as_str().unwrap_or_default();
                Err(StatusError::forbidden(self.resource, name, &reason))
            }
        }
    }

    /// The requested resource if a rule matches it, or else another version of it that a rule matches.
    fn matching_version(&self, webhook: &Webhook, operation: &str) -> Option<Invocation> {
        let is_for = |resource: &ResourceType| {
            let subject = Subject {
                operation,
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                subresource: self.subresource,
                in_namespace: self.namespace.is_some(),
            };
            webhook.rules.iter().any(|rule| rule.matches(&subject))
        };
        if is_for(self.resource) {
            return Some(Invocation { resource: Arc::clone(self.resource) });
        }
        if !webhook.matches_equivalent {
            return None;
        }
        let catalog = self.state.catalog();
        let mut others = catalog.other_versions(self.resource).into_iter();
        let has_part =
            |other: &ResourceType| self.subresource.is_empty() || other.subresource(self.subresource).is_some();
        others.find(|other| has_part(other) && is_for(other)).map(|resource| Invocation { resource })
    }

    /// The selector matches the labels of a namespace: of the object itself, or of the namespace of the object.
    fn matches_namespace(&self, webhook: &Webhook, objects: Objects<'_>) -> Result<bool, StatusError> {
        let selector = &webhook.namespace_selector;
        if selector.is_empty() {
            return Ok(true);
        }
        if self.resource.is("", "namespaces") && objects.operation != "DELETE" && self.subresource.is_empty() {
            return Ok(objects.new.is_some_and(|object| selector.matches(|key| label(object, key))));
        }
        let own = self.name.filter(|_| self.resource.is("", "namespaces"));
        let Some(name) = self.namespace.or(own) else { return Ok(true) };
        let Some(namespaces) = self.state.built_in("", "v1", "namespaces") else { return Ok(true) };
        let stored = self.state.get(&namespaces, &ObjectKey::new("", name));
        let stored = stored.ok_or_else(|| StatusError::not_found(&namespaces, name))?;
        Ok(selector.matches(|key| stored.label(key)))
    }
}

/// The selector matches the new state or the old one.
fn matches_object(webhook: &Webhook, objects: Objects<'_>) -> bool {
    let selector = &webhook.object_selector;
    let selects = |object: Option<&Value>| object.is_some_and(|object| selector.matches(|key| label(object, key)));
    selector.is_empty() || selects(objects.new) || selects(objects.old)
}

fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["labels"].get(key).and_then(Value::as_str)
}
