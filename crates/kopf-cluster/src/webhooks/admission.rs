//! The admission of one request: which webhooks are asked, in which order, and what comes of it.
//!
//! `admit.rs` lets new objects and new states pass here, `verbs/delete.rs` deletions, other verbs
//! what they write to parts of objects. Requests in a cluster without webhooks never come here.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::conversion::Converter;
use super::review::{self, Decision, Role};
use crate::builtin::complete;
use crate::catalog::ResourceType;
use crate::catalog::webhooks::{ConditionInput, Subject, Webhook, Webhooks, all_hold};
use crate::codec::struct_types;
use crate::patching::{JsonPatchError, apply_json_patch};
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Call, Replay, Request, User};
use crate::state::State;
use crate::store::{ObjectKey, Stored};

/// One request on its way through the webhooks.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    state: &'a State,
    webhooks: &'a Webhooks,
    request: &'a Request,
    resource: &'a Arc<ResourceType>,
    /// Empty for the object itself.
    subresource: &'a str,
    namespace: Option<&'a str>,
    /// None for collections.
    name: Option<&'a str>,
    dry_run: bool,
    /// What was said about the deletion, if it is one.
    delete_options: Option<&'a Value>,
}

/// Under which resource a webhook is asked about a request.
struct Invocation {
    resource: Arc<ResourceType>,
}

/// The objects that a review is about.
#[derive(Clone, Copy)]
struct Objects<'a> {
    operation: &'static str,
    new: Option<&'a Value>,
    old: Option<&'a Value>,
}

impl<'a> Admission<'a> {
    /// Who asks.
    pub(crate) fn user(&self) -> &'a User {
        &self.request.user
    }

    /// Whether nothing will come of it.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The admission of a request.
    pub(crate) fn of(
        state: &'a State,
        webhooks: &'a Webhooks,
        request: &'a Request,
        route: &'a ObjectRoute,
        dry_run: bool,
    ) -> Self {
        Self {
            state,
            webhooks,
            request,
            resource: &route.resource,
            subresource: route.subresource.as_deref().unwrap_or_default(),
            namespace: route.namespace.as_deref(),
            name: route.name.as_deref(),
            dry_run,
            delete_options: None,
        }
    }

    /// Whether anybody may have to be asked.
    pub(crate) fn is_needed(&self) -> bool {
        // What configures admission is never subject to it, or nobody could mend it.
        !self.webhooks.is_empty() && self.resource.group != "admissionregistration.k8s.io"
    }

    /// A stored object in the version of the request.
    pub(crate) fn shown(&self, stored: &Arc<Stored>) -> Result<Arc<Stored>, StatusError> {
        let mut shown = self.shown_all(std::slice::from_ref(stored))?;
        Ok(shown.pop().unwrap_or_else(|| Arc::clone(stored)))
    }

    pub(crate) fn shown_all(&self, stored: &[Arc<Stored>]) -> Result<Vec<Arc<Stored>>, StatusError> {
        self.converter().stored(self.resource, stored)
    }

    /// An object in the storage version, and as it is shown when it is read again; None if it is
    /// stored as it is.
    pub(crate) fn stored_form(&self, key: &str, object: &Value) -> Result<Option<(Value, Value)>, StatusError> {
        let Some(custom) = self.resource.custom().filter(|custom| custom.conversion.is_some()) else { return Ok(None) };
        let converter = self.converter();
        let storage = format!("{}/{}", self.resource.group, custom.storage_version);
        let stored = converter.value(self.resource, &format!("{key}/to"), object, &storage)?;
        let shown = converter.value(self.resource, &format!("{key}/from"), &stored, self.resource.api_version())?;
        Ok(Some((stored, shown)))
    }

    fn converter(&self) -> Converter<'a> {
        Converter { state: self.state, replay: &self.request.replay }
    }

    pub(crate) fn with_delete_options(mut self, options: &'a Value) -> Self {
        self.delete_options = Some(options);
        self
    }

    /// What an earlier run of the request has made up, or what is made up now.
    pub(crate) fn once(
        &self,
        key: &str,
        decide: impl FnOnce() -> Result<Value, StatusError>,
    ) -> Result<Value, StatusError> {
        self.request.replay.once(key, decide)
    }

    /// Lets the mutating webhooks change an object that is to be written.
    pub(crate) fn mutate(&self, basis: &str, object: Value, old: Option<&Value>) -> Result<Value, StatusError> {
        let before = object.clone();
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let mutated = self.ask_mutating(basis, operation, Some(object), old)?.unwrap_or_default();
        let mut mutated = self.checked_identity(&before, old, mutated)?;
        self.restore_managed_fields(&before, &mut mutated);
        self.drop_repeated_owners(&mut mutated);
        Ok(mutated)
    }

    /// Asks the validating webhooks about an object that is ready to be written.
    pub(crate) fn validate(&self, basis: &str, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        self.ask_validating(basis, Objects { operation, new: Some(object), old })
    }

    /// Asks all webhooks about the deletion of an object.
    pub(crate) fn delete(&self, basis: &str, old: &Value) -> Result<(), StatusError> {
        self.ask_mutating(basis, "DELETE", None, Some(old))?;
        self.ask_validating(basis, Objects { operation: "DELETE", new: None, old: Some(old) })
    }

    /// One webhook after the other; those who want it are asked again if others came after them.
    fn ask_mutating(
        &self,
        basis: &str,
        operation: &'static str,
        mut object: Option<Value>,
        old: Option<&Value>,
    ) -> Result<Option<Value>, StatusError> {
        let mut asked: BTreeSet<&str> = BTreeSet::new();
        let mut to_ask_again: BTreeSet<&str> = BTreeSet::new();
        for round in 0..2 {
            for webhook in &self.webhooks.mutating {
                if round > 0 && !to_ask_again.contains(webhook.id.as_str()) {
                    continue;
                }
                let objects = Objects { operation, new: object.as_ref(), old };
                let Some(invocation) = self.invocation(webhook, objects)? else { continue };
                let key = format!("{basis}/mutating/{round}/{}", webhook.id);
                let operations = match self.ask(webhook, &invocation, Role::Mutating, &key, objects) {
                    None => return Err(Replay::wait()),
                    Some(decided) => decided?,
                };
                if !operations.is_empty() {
                    let Some(current) = object.take() else {
                        return Err(StatusError::internal(format!(
                            "admission webhook \"{}\" attempted to modify the object, which is not supported for this \
                             operation",
                            webhook.name
                        )));
                    };
                    let patched = self.patched(&invocation, &key, &current, operations)?;
                    if patched != current {
                        to_ask_again.append(&mut asked);
                    }
                    object = Some(patched);
                }
                if webhook.reinvoked_if_needed {
                    asked.insert(&webhook.id);
                }
            }
        }
        Ok(object)
    }

    /// All webhooks at once.
    fn ask_validating(&self, basis: &str, objects: Objects<'_>) -> Result<(), StatusError> {
        let mut first_refusal = None;
        let mut is_waiting = false;
        for webhook in &self.webhooks.validating {
            let Some(invocation) = self.invocation(webhook, objects)? else { continue };
            let key = format!("{basis}/validating/{}", webhook.id);
            match self.ask(webhook, &invocation, Role::Validating, &key, objects) {
                None => is_waiting = true,
                Some(Ok(_)) => {}
                Some(Err(status_error)) => {
                    first_refusal.get_or_insert(status_error);
                }
            }
        }
        match (is_waiting, first_refusal) {
            (true, _) => Err(Replay::wait()),
            (false, Some(status_error)) => Err(status_error),
            (false, None) => Ok(()),
        }
    }

    /// Asks one webhook; None if its answer is not there yet. Gives the operations of its patch.
    fn ask(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        role: Role,
        key: &str,
        objects: Objects<'_>,
    ) -> Option<Result<Vec<Value>, StatusError>> {
        if self.dry_run && !webhook.may_run_dry {
            let message = format!("admission webhook \"{}\" does not support dry run", webhook.name);
            return Some(Err(StatusError::bad_request(message)));
        }
        let replay = &self.request.replay;
        let shown = |object: Option<&Value>, which: &str| match object {
            Some(object) => self.in_version(&invocation.resource, &format!("{key}/{which}"), object),
            None => Ok(Value::Null),
        };
        let (new, old) = match (shown(objects.new, "new"), shown(objects.old, "old")) {
            (Ok(new), Ok(old)) => (new, old),
            (Err(status_error), _) | (_, Err(status_error)) if status_error == Replay::wait() => return None,
            (Err(status_error), _) | (_, Err(status_error)) => return Some(Err(status_error)),
        };
        let answered = replay.ask(key, || self.call(webhook, invocation, objects, new, old))?;
        Some(match review::read(&webhook.name, &webhook.review_version, role, &answered) {
            Ok(verdict) => {
                for warning in verdict.warnings {
                    replay.warn(warning);
                }
                match verdict.decision {
                    Decision::Allowed => Ok(Vec::new()),
                    Decision::Patched(operations) => Ok(operations),
                    Decision::Denied(status_error) => Err(*status_error),
                }
            }
            Err(_) if webhook.ignores_failures => Ok(Vec::new()),
            Err(reason) => Err(StatusError::internal(format!("failed calling webhook \"{}\": {reason}", webhook.name))),
        })
    }

    fn call(&self, webhook: &Webhook, invocation: &Invocation, objects: Objects<'_>, new: Value, old: Value) -> Call {
        let uid = self.state.randomness().uid();
        let mut request = self.request_of(&uid, invocation, objects);
        request["object"] = new;
        request["oldObject"] = old;
        let body = json!({"kind": "AdmissionReview",
            "apiVersion": format!("admission.k8s.io/{}", webhook.review_version), "request": request});
        Call { target: Arc::clone(&webhook.target), timeout: webhook.timeout, uid, body }
    }

    /// The request of a review, without the objects.
    fn request_of(&self, uid: &str, invocation: &Invocation, objects: Objects<'_>) -> Value {
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

    /// Whether a webhook is asked about a request, and how.
    fn invocation(&self, webhook: &Webhook, objects: Objects<'_>) -> Result<Option<Invocation>, StatusError> {
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

    /// The resource itself if a rule is for it, or another version of it.
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

    /// Namespaces are selected by their own labels, objects in them by those of the namespace.
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

    /// An object as the patch of a webhook leaves it.
    fn patched(
        &self,
        invocation: &Invocation,
        key: &str,
        current: &Value,
        operations: Vec<Value>,
    ) -> Result<Value, StatusError> {
        let shown = self.in_version(&invocation.resource, &format!("{key}/new"), current)?;
        let patched = apply_json_patch(&shown, &Value::Array(operations)).map_err(|error| match error {
            JsonPatchError::Inapplicable(reason) => StatusError::internal(reason),
            other => StatusError::internal(other.to_string()),
        })?;
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&patched, "apiVersion"), text(&patched, "kind"));
        let is_custom = self.resource.custom().is_some() && self.subresource != "scale";
        let is_retyped = api_version != text(&shown, "apiVersion") || (kind != text(&shown, "kind") && !is_custom);
        if is_retyped && is_custom {
            let group = if api_version.contains('/') { "" } else { "/" };
            return Err(StatusError::bare(format!(
                "{group}{api_version}, Kind={kind} is unstructured and is not suitable for converting to \"{}\"",
                self.resource.api_version()
            )));
        }
        if is_retyped {
            return Err(StatusError::internal(review::not_registered(&api_version, &kind)));
        }
        let mut patched = patched;
        let is_whole = self.subresource.is_empty() || self.subresource == "status";
        if is_whole {
            if !is_custom && let Some(problem) = struct_types::type_error(&invocation.resource, &patched) {
                return Err(StatusError::internal(problem));
            }
            complete(&invocation.resource, &mut patched);
        }
        self.in_version(self.resource, &format!("{key}/back"), &patched)
    }

    /// An object in another version of its resource.
    fn in_version(&self, resource: &ResourceType, key: &str, object: &Value) -> Result<Value, StatusError> {
        // Parts of other kinds are the same in all versions.
        match object["kind"] == resource.kind.as_str() || self.subresource.is_empty() {
            true => self.converter().value(resource, key, object, resource.api_version()),
            false => Ok(object.clone()),
        }
    }

    /// Webhooks may not make another object of it.
    fn checked_identity(&self, before: &Value, old: Option<&Value>, mutated: Value) -> Result<Value, StatusError> {
        let text = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        if text(&mutated, "namespace") != text(before, "namespace") {
            return Err(StatusError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let Some(old) = old.filter(|_| self.subresource.is_empty() || self.subresource == "status") else {
            return Ok(mutated);
        };
        let mut errors = Vec::new();
        for field in ["name", "uid"] {
            let new = text(&mutated, field);
            if new != text(before, field) && new != text(old, field) {
                errors.push(crate::go::FieldError::invalid(
                    format!("metadata.{field}"),
                    json!(new),
                    "field is immutable",
                ));
            }
        }
        match errors.is_empty() {
            true => Ok(mutated),
            false => {
                // The metadata is checked twice by a real server, which shows in the causes.
                let twice: Vec<_> = errors.iter().chain(&errors).cloned().collect();
                let mut status_error = StatusError::invalid(self.resource, &text(&mutated, "name"), &twice);
                status_error.message = StatusError::invalid(self.resource, &text(&mutated, "name"), &errors).message;
                Err(status_error)
            }
        }
    }

    /// Bookkeeping that makes no sense is put back as it was.
    fn restore_managed_fields(&self, before: &Value, mutated: &mut Value) {
        let entries = mutated["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_known = |entry: &Value| matches!(entry["operation"].as_str(), Some("Apply" | "Update"));
        if entries.into_iter().all(is_known) {
            if let Some(metadata) = mutated["metadata"].as_object_mut()
                && metadata.get("managedFields") == Some(&json!([]))
            {
                metadata.shift_remove("managedFields");
            }
            return;
        }
        mutated["metadata"]["managedFields"] = before["metadata"]["managedFields"].clone();
        self.request.replay.warn(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: operation must be `Apply` or `Update`",
        );
    }

    fn drop_repeated_owners(&self, mutated: &mut Value) {
        let Some(owners) = mutated.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
            return;
        };
        let mut kept: Vec<Value> = Vec::new();
        let mut repeated: Vec<String> = Vec::new();
        for owner in owners.drain(..) {
            match kept.contains(&owner) {
                true => repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned()),
                false => kept.push(owner),
            }
        }
        *owners = kept;
        if !repeated.is_empty() {
            self.request.replay.warn(format!(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server \
                 dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your \
                 requests; duplicate UID(s) observed: {}",
                repeated.join(", ")
            ));
        }
    }
}

/// Either state of the object may be selected.
fn matches_object(webhook: &Webhook, objects: Objects<'_>) -> bool {
    let selector = &webhook.object_selector;
    let selects = |object: Option<&Value>| object.is_some_and(|object| selector.matches(|key| label(object, key)));
    selector.is_empty() || selects(objects.new) || selects(objects.old)
}

fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["labels"].get(key).and_then(Value::as_str)
}
