//! The admission of one request: calls the matching webhooks in order, and applies their decisions.
//!
//! `admit.rs` calls it for new objects and new states, `verbs/delete.rs` for deletions, other verbs
//! for writes to subresources. In a cluster without webhooks, no request comes here.

mod matching;
mod request;
mod mutation;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::conversion::Converter;
use super::review::{self, Decision, Role};
use crate::catalog::ResourceType;
use crate::catalog::webhooks::{Webhook, Webhooks};
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Replay, Request, User};
use crate::state::State;
use crate::store::Stored;
use matching::Invocation;

/// The admission of one request.
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
    /// The options of the deletion, if the request deletes.
    delete_options: Option<&'a Value>,
}

/// The objects of a review.
#[derive(Clone, Copy)]
struct Objects<'a> {
    operation: &'static str,
    new: Option<&'a Value>,
    old: Option<&'a Value>,
}

impl<'a> Admission<'a> {
    /// The user of the request.
    pub(crate) fn user(&self) -> &'a User {
        &self.request.user
    }

    /// Whether nothing will be stored.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

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

    /// Whether webhooks may have to be called.
    pub(crate) fn is_needed(&self) -> bool {
        // Configurations of webhooks are exempt, or nobody could repair a wrong one.
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

    /// An object in the storage version, and the same converted back to the version of the request; None if
    /// the resource has no conversion webhook.
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

    /// The value that an earlier run of the verb has decided on, or else decides now. See [`Replay::once`].
    pub(crate) fn once(
        &self,
        key: &str,
        decide: impl FnOnce() -> Result<Value, StatusError>,
    ) -> Result<Value, StatusError> {
        self.request.replay.once(key, decide)
    }

    /// Calls the mutating webhooks for an object that is to be written, and returns the changed object.
    pub(crate) fn mutate(&self, basis: &str, object: Value, old: Option<&Value>) -> Result<Value, StatusError> {
        let before = object.clone();
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let mutated = self.call_mutating(basis, operation, Some(object), old)?.unwrap_or_default();
        let mut mutated = self.checked_identity(&before, old, mutated)?;
        self.restore_managed_fields(&before, &mut mutated);
        self.drop_repeated_owners(&mut mutated);
        Ok(mutated)
    }

    /// Calls the validating webhooks for an object that is ready to be written.
    pub(crate) fn validate(&self, basis: &str, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        self.call_validating(basis, Objects { operation, new: Some(object), old })
    }

    /// Calls all webhooks for the deletion of an object.
    pub(crate) fn delete(&self, basis: &str, old: &Value) -> Result<(), StatusError> {
        self.call_mutating(basis, "DELETE", None, Some(old))?;
        self.call_validating(basis, Objects { operation: "DELETE", new: None, old: Some(old) })
    }

    /// Calls one webhook after the other. Webhooks with `reinvocationPolicy: IfNeeded` are called a second time if
    /// a later one has changed the object.
    fn call_mutating(
        &self,
        basis: &str,
        operation: &'static str,
        mut object: Option<Value>,
        old: Option<&Value>,
    ) -> Result<Option<Value>, StatusError> {
        let mut called: BTreeSet<&str> = BTreeSet::new();
        let mut to_call_again: BTreeSet<&str> = BTreeSet::new();
        for round in 0..2 {
            for webhook in &self.webhooks.mutating {
                if round > 0 && !to_call_again.contains(webhook.id.as_str()) {
                    continue;
                }
                let objects = Objects { operation, new: object.as_ref(), old };
                let Some(invocation) = self.invocation(webhook, objects)? else { continue };
                let key = format!("{basis}/mutating/{round}/{}", webhook.id);
                let operations = match self.consult(webhook, &invocation, Role::Mutating, &key, objects) {
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
                        to_call_again.append(&mut called);
                    }
                    object = Some(patched);
                }
                if webhook.reinvoked_if_needed {
                    called.insert(&webhook.id);
                }
            }
        }
        Ok(object)
    }

    /// Calls all webhooks at the same time.
    fn call_validating(&self, basis: &str, objects: Objects<'_>) -> Result<(), StatusError> {
        let mut first_denial = None;
        let mut is_waiting = false;
        for webhook in &self.webhooks.validating {
            let Some(invocation) = self.invocation(webhook, objects)? else { continue };
            let key = format!("{basis}/validating/{}", webhook.id);
            match self.consult(webhook, &invocation, Role::Validating, &key, objects) {
                None => is_waiting = true,
                Some(Ok(_)) => {}
                Some(Err(status_error)) => {
                    first_denial.get_or_insert(status_error);
                }
            }
        }
        match (is_waiting, first_denial) {
            (true, _) => Err(Replay::wait()),
            (false, Some(status_error)) => Err(status_error),
            (false, None) => Ok(()),
        }
    }

    /// Calls one webhook, and returns the operations of its patch; None if its response is still to be fetched.
    fn consult(
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
            Ok(reviewed) => {
                for warning in reviewed.warnings {
                    replay.warn(warning);
                }
                match reviewed.decision {
                    Decision::Allowed => Ok(Vec::new()),
                    Decision::Patched(operations) => Ok(operations),
                    Decision::Denied(status_error) => Err(*status_error),
                }
            }
            Err(_) if webhook.ignores_failures => Ok(Vec::new()),
            Err(reason) => Err(StatusError::internal(format!("failed calling webhook \"{}\": {reason}", webhook.name))),
        })
    }

    /// An object in another version of its resource.
    fn in_version(&self, resource: &ResourceType, key: &str, object: &Value) -> Result<Value, StatusError> {
        // Subresources of other kinds are the same in all versions.
        match object["kind"] == resource.kind.as_str() || self.subresource.is_empty() {
            true => self.converter().value(resource, key, object, resource.api_version()),
            false => Ok(object.clone()),
        }
    }
}
