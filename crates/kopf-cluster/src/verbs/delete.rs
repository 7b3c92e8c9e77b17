//! Deleting an object or many: preconditions, grace, finalizers, propagation.
//!
//! Objects with finalizers are only marked; whoever removes the last finalizer removes the object.
//! Every way to the end of an object leads through [`remove`], which also wakes up what waits for
//! it: dependents, terminating namespaces, terminating CRDs.

use std::sync::Arc;

use jiff::ToSpan;
use serde_json::{Value, json};

use super::fields;
use crate::admit;
use crate::builtin::{convert, kinds};
use crate::catalog::{CRDS, ResourceType};
use crate::codec::{protobuf, yaml};
use crate::go::FieldError;
use crate::go::text::type_name;
use crate::publish::render::{ListMeta, Renderer, decode};
use crate::request::query::{ListOptions, check_dry_run};
use crate::request::routes::ObjectRoute;
use crate::request::status::{StatusError, deleted};
use crate::request::{Replay, Request, Response};
use crate::state::State;
use crate::store::{ObjectKey, StoreError, Stored, Write};
use crate::support::clock::timestamp;
use crate::webhooks::Admission;

/// How a deletion is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have.
    pub version: Option<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are left alone.
    Orphan,
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
}

/// Whether a change was the end of an object.
pub(super) enum Removal {
    /// It is not being deleted, or something still holds it.
    Kept,
    /// It is gone; this was its last state, with the version of its end.
    Removed(Value),
    /// Somebody else was faster.
    Raced,
}

/// What keeps an object until its dependents are gone, or let go.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

pub(super) fn delete(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let options = DeleteOptions::read(request)?;
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let webhooks = state.webhooks();
    let told = options.told();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let admission = admission.with_delete_options(&told);
    let warnings = warnings_of_deletion(resource, options.propagation);
    let deleted_now = delete_admitted(state, resource, &object_key, &options, Some(&admission))
        .map_err(|status_error| status_error.with_warnings(&warnings))?;
    let answer = match deleted_now {
        Deleted::Gone(object) if !kinds::shows_deleted(resource) => {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            Response::json(200, &deleted(resource, name, uid))
        }
        Deleted::Gone(object) | Deleted::Marked(object) => {
            let renderer = Renderer { resource, representation, now: state.now() };
            Response::bytes(200, renderer.value(object).into())
        }
    };
    Ok(answer.with_warnings(warnings))
}

pub(super) fn delete_collection(
    state: &Arc<State>,
    request: &Request,
    route: &ObjectRoute,
) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let resource = &route.resource;
    let delete_options = DeleteOptions::read(request)?;
    let list_options = ListOptions::parse(&request.query, false)?;
    fields::check(resource, &list_options.selectors)?;
    let (mut objects, version): (Vec<Arc<Stored>>, u64) = {
        let store = state.store();
        (store.list(&resource.storage, route.namespace.as_deref(), None), store.version())
    };
    objects.retain(|stored| fields::selects(&list_options.selectors, stored));
    let webhooks = state.webhooks();
    let told = delete_options.told();
    let admission = Admission::of(state, &webhooks, request, route, delete_options.dry_run);
    let shown = admission.shown_all(&objects)?;
    let refused = admit_deletions(resource, &shown, &admission.with_delete_options(&told))?;
    let admitted = refused.as_ref().map_or(objects.len(), |(position, _)| *position);
    for stored in &objects[..admitted] {
        match delete_object(state, resource, &stored.object_key, &delete_options) {
            Ok(_) => {}
            Err(status_error) if status_error.reason == "NotFound" => {}
            Err(status_error) => return Err(status_error),
        }
    }
    if let Some((_, status_error)) = refused {
        return Err(status_error);
    }
    let renderer = Renderer { resource, representation, now: state.now() };
    let answer = Response::bytes(200, renderer.list(&shown, &ListMeta { version, ..ListMeta::default() }));
    Ok(answer.with_warnings(warnings_of_deletion(resource, delete_options.propagation)))
}

/// Asks the webhooks about all objects before the first one is deleted; tells the first one that
/// they refuse.
fn admit_deletions(
    resource: &ResourceType,
    objects: &[Arc<Stored>],
    admission: &Admission<'_>,
) -> Result<Option<(usize, StatusError)>, StatusError> {
    if !admission.is_needed() {
        return Ok(None);
    }
    let decided: Vec<_> = objects
        .iter()
        .map(|stored| admission.delete(&basis_of(&stored.object_key, stored.version), &decode(resource, stored)))
        .collect();
    if decided.contains(&Err(Replay::wait())) {
        return Err(Replay::wait());
    }
    Ok(decided.into_iter().enumerate().find_map(|(position, decided)| Some((position, decided.err()?))))
}

fn basis_of(object_key: &ObjectKey, version: u64) -> String {
    format!("delete/{}/{}/{version}", object_key.namespace, object_key.name)
}

/// What a deletion has come to.
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// The object goes away later; this is its state.
    Marked(Value),
}

/// Deletes an object for the system itself, which asks no webhooks.
pub(crate) fn delete_object(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    options: &DeleteOptions,
) -> Result<Deleted, StatusError> {
    delete_admitted(state, resource, object_key, options, None)
}

/// Deletes an object, or marks it as deleted if something holds it.
fn delete_admitted(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    options: &DeleteOptions,
    admission: Option<&Admission<'_>>,
) -> Result<Deleted, StatusError> {
    loop {
        let stored =
            state.get(resource, object_key).ok_or_else(|| StatusError::not_found(resource, &object_key.name))?;
        let old = decode(resource, &stored);
        check_preconditions(resource, &object_key.name, &old, options)?;
        let marked = mark(state, resource, &old, options);
        let held = is_held(resource, &marked);
        // Nobody is asked again about what is being deleted already.
        let shown = match admission {
            Some(admission) => admission.shown(&stored)?,
            None => Arc::clone(&stored),
        };
        if let Some(admission) = admission.filter(|admission| admission.is_needed() && (!held || marked != old)) {
            admission.delete(&basis_of(object_key, stored.version), &decode(resource, &shown))?;
        }
        if options.dry_run {
            return Ok(if held { Deleted::Marked(marked) } else { Deleted::Gone(marked) });
        }
        if !held {
            let mut version = stored.version;
            if marked != old {
                // What is marked at all is seen so before it is gone.
                let write = Write::Update { object_key: object_key.clone(), value: marked.clone(), expected: version };
                match state.apply(resource, write) {
                    Ok(event) => version = event.object.version,
                    Err(StoreError::Conflict { .. }) => continue,
                    Err(StoreError::Missing) => return Err(StatusError::not_found(resource, &object_key.name)),
                    Err(error) => return Err(StatusError::internal(error.to_string())),
                }
            }
            match remove(state, resource, object_key, version, &marked)? {
                Removal::Raced => continue,
                Removal::Removed(last) => return Ok(Deleted::Gone(last)),
                Removal::Kept => return Ok(Deleted::Gone(marked)),
            }
        }
        if marked == old {
            return Ok(Deleted::Marked(old));
        }
        let mut value = marked;
        convert::to_storage(resource, &mut value);
        match state.apply(resource, Write::Update { object_key: object_key.clone(), value, expected: stored.version }) {
            Ok(event) => {
                let object = decode(resource, &event.object);
                state.after_write().marked(state, resource, &object);
                let mut answer = decode(resource, &shown);
                answer["metadata"] = object["metadata"].clone();
                return Ok(Deleted::Marked(if resource.conversion().is_some() { answer } else { object }));
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::Missing) => return Err(StatusError::not_found(resource, &object_key.name)),
            Err(error) => return Err(StatusError::internal(error.to_string())),
        }
    }
}

/// Removes an object if its next state says that it is deleted and nothing holds it any more.
pub(super) fn remove_if_released(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    version: u64,
    next: &Value,
) -> Result<Removal, StatusError> {
    match next["metadata"].get("deletionTimestamp").is_some() && !is_held(resource, next) {
        true => remove(state, resource, object_key, version, next),
        false => Ok(Removal::Kept),
    }
}

/// Looks at a marked object again: whether something that held it has let it go.
pub(crate) fn finish_if_released(state: &Arc<State>, resource: &Arc<ResourceType>, object_key: &ObjectKey) {
    while let Some(stored) = state.get(resource, object_key) {
        let object = decode(resource, &stored);
        match remove_if_released(state, resource, object_key, stored.version, &object) {
            Ok(Removal::Raced) => {}
            Ok(Removal::Kept | Removal::Removed(_)) | Err(_) => return,
        }
    }
}

/// The end of an object.
fn remove(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    version: u64,
    last: &Value,
) -> Result<Removal, StatusError> {
    let mut value = last.clone();
    convert::to_storage(resource, &mut value);
    match state.apply(resource, Write::Delete { object_key: object_key.clone(), value, expected: version }) {
        Ok(event) => {
            state.after_write().removed(state, resource, last);
            let mut last = last.clone();
            last["metadata"]["resourceVersion"] = json!(event.object.version.to_string());
            Ok(Removal::Removed(last))
        }
        Err(StoreError::Conflict { .. }) => Ok(Removal::Raced),
        Err(StoreError::Missing) => Err(StatusError::not_found(resource, &object_key.name)),
        Err(error) => Err(StatusError::internal(error.to_string())),
    }
}

/// Whether an object must stay for now, though it is deleted.
fn is_held(resource: &ResourceType, object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let in_grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    finalizers || in_grace || kinds::is_held(resource, object)
}

/// The object with the marks of a deletion.
fn mark(state: &State, resource: &ResourceType, old: &Value, options: &DeleteOptions) -> Value {
    let mut object = old.clone();
    add_finalizers(resource, &mut object, options);
    kinds::prepare_deletion(resource, &mut object, state.now());
    let grace = kinds::grace_period(resource, old, options.grace_period_seconds);
    let already = old["metadata"].get("deletionTimestamp").is_some();
    let shorter = old["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|current| grace < current);
    if already && !shorter {
        return object;
    }
    let time = state.now().checked_add(grace.seconds()).unwrap_or_else(|_| state.now());
    // Pods are marked even if they go at once.
    let held = is_held(resource, &object) || grace > 0 || resource.is("", "pods");
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = json!(timestamp(time));
    // Namespaces and CRDs are the exceptions: they know no grace.
    let graceless = resource.is("", "namespaces") || resource.is(CRDS.0, CRDS.1);
    if !graceless {
        metadata["deletionGracePeriodSeconds"] = json!(grace);
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|_| held && !already && !graceless) {
        metadata["generation"] = json!(generation + 1);
    }
    if !held {
        // What goes at once goes as it is.
        return old.clone();
    }
    object
}

/// Dependents that must go first, or must be let go, hold the object by finalizers.
fn add_finalizers(resource: &ResourceType, object: &mut Value, options: &DeleteOptions) {
    let propagation = options.propagation.or_else(|| default_propagation(resource));
    let wanted = match propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Background) | None => None,
    };
    if propagation.is_none() && wanted.is_none() {
        return;
    }
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
    finalizers.extend(wanted.map(|wanted| json!(wanted)));
    match finalizers.is_empty() {
        false => object["metadata"]["finalizers"] = Value::Array(finalizers),
        true => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove("finalizers");
            }
        }
    }
}

fn check_preconditions(
    resource: &ResourceType,
    name: &str,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let current = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    if resource.is("", "namespaces") {
        for (title, field, wanted) in
            [("UID", "uid", &options.uid), ("ResourceVersion", "resourceVersion", &options.version)]
        {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != current(field)) {
                let found = current(field);
                let why =
                    format!("Precondition failed: {title} in precondition: {wanted}, {title} in object meta: {found}");
                return Err(StatusError::conflict(resource, name, &why));
            }
        }
    }
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current("uid")) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            current("uid")
        );
        return Err(StatusError::precondition(resource, name, &why));
    }
    if let Some(version) = options.version.as_deref().filter(|version| *version != current("resourceVersion")) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            current("resourceVersion")
        );
        return Err(StatusError::precondition(resource, name, &why));
    }
    Ok(())
}

impl DeleteOptions {
    /// As webhooks are told about them.
    fn told(&self) -> Value {
        let mut told = json!({});
        if let Some(seconds) = self.grace_period_seconds {
            told["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(uid) = &self.uid {
            told["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.version {
            told["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(propagation) = self.propagation {
            told["propagationPolicy"] = json!(format!("{propagation:?}"));
        }
        told
    }

    /// From the body, or from the parameters if there is no body.
    pub(crate) fn read(request: &Request) -> Result<Self, StatusError> {
        let query = &request.query;
        let body: Value = match request.body.is_empty() {
            true => json!({}),
            false => match request.media_type() {
                "application/yaml" => yaml::parse(&request.body).map_err(StatusError::bad_request)?,
                "application/vnd.kubernetes.protobuf" => {
                    protobuf::decode(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))?
                }
                _ => admit::decode_options(&request.body, "DeleteOptions")?,
            },
        };
        if let Some(other) = body.get("gracePeriodSeconds").filter(|seconds| !seconds.is_i64() && !seconds.is_null()) {
            let found = type_name(other);
            return Err(StatusError::bad_request(format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
        let dry_run: Vec<&str> = match body.get("dryRun").and_then(Value::as_array) {
            Some(values) => values.iter().filter_map(Value::as_str).collect(),
            None => query.all("dryRun"),
        };
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = text("propagationPolicy").or_else(|| query.text("propagationPolicy").map(str::to_owned));
        let precondition = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        Ok(Self {
            dry_run: check_dry_run(&dry_run, "DeleteOptions")?,
            grace_period_seconds: match body.get("gracePeriodSeconds").and_then(Value::as_i64) {
                Some(seconds) => Some(seconds),
                None => query.number("gracePeriodSeconds")?,
            },
            propagation: match (policy.as_deref(), orphan) {
                (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
                (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
                (Some("Foreground"), _) => Some(Propagation::Foreground),
                (Some(""), _) | (None, None) => None,
                (Some(other), _) => return Err(unknown_policy(other)),
            },
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
        })
    }
}

fn unknown_policy(policy: &str) -> StatusError {
    let supported: Vec<String> = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned).to_vec();
    let error = FieldError::not_supported("propagationPolicy", json!(policy), &supported);
    StatusError::invalid_options("DeleteOptions", &[error])
}

/// What happens to dependents if nothing is said.
fn default_propagation(resource: &ResourceType) -> Option<Propagation> {
    let orphans = resource.is("batch", "jobs") || resource.is("", "replicationcontrollers");
    orphans.then_some(Propagation::Orphan)
}

/// What is said to those who delete something and may not know what happens to its dependents.
fn warnings_of_deletion(resource: &ResourceType, asked: Option<Propagation>) -> Vec<String> {
    match asked.is_none() && resource.is("batch", "jobs") {
        true => vec![
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        ],
        false => Vec::new(),
    }
}
