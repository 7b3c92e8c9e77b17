//! Deletes an object, or a collection of objects.
//!
//! Objects with finalizers are only marked; the write that removes the last finalizer also removes
//! the object. Every removal goes through [`remove`], which then starts whatever waits for it:
//! the deletion of dependents, and the end of terminating namespaces and CRDs.

mod options;
mod mark;

use std::sync::Arc;

use serde_json::{Value, json};

use super::fields;
use crate::builtin::{convert, kinds};
use crate::catalog::ResourceType;
use crate::publish::render::{ListMeta, Renderer, decode};
use crate::request::query::ListOptions;
use crate::request::routes::ObjectRoute;
use crate::request::status::{StatusError, deleted};
use crate::request::{Replay, Request, Response};
use crate::state::State;
use crate::store::{ObjectKey, StoreError, Stored, Write};
use crate::webhooks::Admission;
use mark::{is_held, mark};
use options::check_preconditions;

pub(crate) use mark::{FOREGROUND, ORPHAN};
pub(crate) use options::{DeleteOptions, Propagation};

/// Whether a write has removed the object.
pub(super) enum Removal {
    /// The object is not deleted, or something still holds it.
    Kept,
    /// The object is gone; this was its last state, with the version of its removal.
    Removed(Value),
    /// Another write came first.
    Raced,
}

pub(super) fn delete(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let options = DeleteOptions::read(request)?;
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let webhooks = state.webhooks();
    let shown_options = options.for_webhooks();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let admission = admission.with_delete_options(&shown_options);
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
    let shown_options = delete_options.for_webhooks();
    let admission = Admission::of(state, &webhooks, request, route, delete_options.dry_run);
    let shown = admission.shown_all(&objects)?;
    let refused = admit_deletions(resource, &shown, &admission.with_delete_options(&shown_options))?;
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

/// Calls the webhooks for all objects before the first one is deleted. Returns the position of the first
/// object that they deny, with the error.
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

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// The object is marked, and removed later; this is its state.
    Marked(Value),
}

/// Deletes an object for the system itself, without webhooks.
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
        // Webhooks are not called again for an object that is marked already.
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
                // Watches see a marked object before it is gone.
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

/// Removes an object if its next state is marked as deleted and nothing holds it any more.
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

/// Removes a marked object if nothing holds it any more. The controllers call it after each change that may
/// release an object.
pub(crate) fn finish_if_released(state: &Arc<State>, resource: &Arc<ResourceType>, object_key: &ObjectKey) {
    while let Some(stored) = state.get(resource, object_key) {
        let object = decode(resource, &stored);
        match remove_if_released(state, resource, object_key, stored.version, &object) {
            Ok(Removal::Raced) => {}
            Ok(Removal::Kept | Removal::Removed(_)) | Err(_) => return,
        }
    }
}

/// Removes an object from the store, and informs the controllers.
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

/// Warnings for clients that may not expect what happens to the dependents.
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
