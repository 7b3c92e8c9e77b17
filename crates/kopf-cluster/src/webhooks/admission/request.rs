//! Builds the `AdmissionReview` that a webhook receives.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::matching::Invocation;
use super::{Admission, Objects};
use crate::catalog::ResourceType;
use crate::catalog::webhooks::Webhook;
use crate::request::Call;

impl Admission<'_> {
    /// The call to a webhook, with the objects in the version that the webhook wants.
    pub(super) fn call(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        objects: Objects<'_>,
        new: Value,
        old: Value,
    ) -> Call {
        let uid = self.state.randomness().uid();
        let mut request = self.request_of(&uid, invocation, objects);
        request["object"] = new;
        request["oldObject"] = old;
        let body = json!({"kind": "AdmissionReview",
            "apiVersion": format!("admission.k8s.io/{}", webhook.review_version), "request": request});
        Call { target: Arc::clone(&webhook.target), timeout: webhook.timeout, uid, body }
    }

    /// The `request` of a review, without the objects.
    pub(super) fn request_of(&self, uid: &str, invocation: &Invocation, objects: Objects<'_>) -> Value {
        let kind_of = |resource: &ResourceType| match resource.subresource(self.subresource) {
            Some(part) => json!({"group": part.group, "version": part.version, "kind": part.kind}),
            None => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
        };
        let resource_of = |resource: &ResourceType| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let mut request = Map::new();
        let mut put = |name: &str, value: Value| request.insert(name.to_owned(), value);
        put("uid", json!(uid));
        put("kind", kind_of(&invocation.resource));
        put("resource", resource_of(&invocation.resource));
        if !self.subresource.is_empty() {
            put("subResource", json!(self.subresource));
        }
        put("requestKind", kind_of(self.resource));
        put("requestResource", resource_of(self.resource));
        if !self.subresource.is_empty() {
            put("requestSubResource", json!(self.subresource));
        }
        let is_namespace = self.resource.is("", "namespaces");
        let of_new = objects.new.and_then(|object| object["metadata"]["name"].as_str());
        let name = self.name.or(of_new.filter(|_| objects.operation != "DELETE"));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            put("name", json!(name));
        }
        if let Some(namespace) = self.namespace.or(name.filter(|_| is_namespace)) {
            put("namespace", json!(namespace));
        }
        put("operation", json!(objects.operation));
        let user = &self.request.user;
        put("userInfo", json!({"username": user.name, "groups": user.groups}));
        put("object", Value::Null);
        put("oldObject", Value::Null);
        put("dryRun", json!(self.dry_run));
        put("options", self.options(objects.operation));
        Value::Object(request)
    }

    fn options(&self, operation: &str) -> Value {
        let kind = match operation {
            "CREATE" => "CreateOptions",
            "UPDATE" => "UpdateOptions",
            _ => "DeleteOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if operation == "DELETE" {
            let given = self.delete_options.and_then(Value::as_object).into_iter().flatten();
            for (name, value) in given.filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
                options[name] = value.clone();
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if operation != "DELETE" {
            for name in ["fieldManager", "fieldValidation"] {
                if let Some(given) = self.request.query.text(name) {
                    options[name] = json!(given);
                }
            }
        }
        options
    }
}
