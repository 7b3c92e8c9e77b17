//! Replaces an object or its status. All other changes of objects are written by the functions here, too.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::create_admitted;
use super::delete::{Removal, remove_if_released};
use super::written::Written;
use crate::admit::ownership::Writer;
use crate::admit::{self, Part, WriteOrigin};
use crate::builtin::{convert, strategy};
use crate::catalog::ResourceType;
use crate::go::FieldError;
use crate::publish::render::{Renderer, decode};
use crate::request::query::WriteOptions;
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::store::{ObjectKey, StoreError, Write};
use crate::webhooks::Admission;

pub(super) fn update(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let options = WriteOptions::parse(&request.query, "UpdateOptions")?;
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let part = if route.subresource.is_some() { Part::Status } else { Part::Main };
    let (mut value, repeats) = admit::decode_noting_repeats(request, resource)?;
    admit::check_type(resource, &mut value, &request.body)?;
    let warnings = admit::check_fields(resource, &value, repeats, &options)?;
    admit::check_name(name, &value).map_err(|status_error| status_error.with_warnings(&warnings))?;
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let renderer = Renderer { resource, representation, now: state.now() };
    let writer = Writer::of(request, &options, route.subresource.as_deref());
    let webhooks = state.webhooks();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let admission = Some(&admission);
    if part == Part::Main && strategy::creates_on_update(resource) && state.get(resource, &object_key).is_none() {
        value["metadata"]["name"] = json!(name);
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.shift_remove("resourceVersion");
        }
        let namespace = route.namespace.as_deref();
        let created = create_admitted(
            state,
            resource,
            namespace,
            value,
            options.dry_run,
            WriteOrigin { writer: Some(&writer), admission },
        )?;
        return Ok(created.answer(201, &renderer, warnings));
    }
    let written = write_admitted(state, resource, &object_key, options.dry_run, admission, |old| {
        let next = admit::new_state(
            state,
            resource,
            part,
            old,
            value.clone(),
            WriteOrigin { writer: Some(&writer), admission },
        )?;
        require_version(resource, name, &value)?;
        Ok(next)
    })
    .map_err(|status_error| status_error.with_warnings(&warnings))?;
    Ok(written.answer(200, &renderer, warnings))
}

/// Changes an object for the system itself: `decide` makes the new state from the current one, which is
/// written unless another write came first.
///
/// In that case, `decide` is called again with the newer state. If the new state
/// equals the old one, nothing is written, and the version stays.
pub(crate) fn write_if_unchanged(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    dry_run: bool,
    decide: impl FnMut(&Value) -> Result<Value, StatusError>,
) -> Result<Written, StatusError> {
    write_admitted(state, resource, object_key, dry_run, None, decide)
}

/// The same for a request: `decide` gets the object in the version of the request.
pub(super) fn write_admitted(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    object_key: &ObjectKey,
    dry_run: bool,
    admission: Option<&Admission<'_>>,
    mut decide: impl FnMut(&Value) -> Result<Value, StatusError>,
) -> Result<Written, StatusError> {
    loop {
        let stored =
            state.get(resource, object_key).ok_or_else(|| StatusError::not_found(resource, &object_key.name))?;
        let old = match admission {
            Some(admission) => decode(resource, &*admission.shown(&stored)?),
            None => decode(resource, &stored),
        };
        let next = decide(&old)?;
        let is_same = next == old && !(admission.is_some() && convert::must_be_rewritten(resource, &stored));
        if is_same || dry_run {
            return Ok(Written::Shown(next));
        }
        let key = format!("written/{}", stored.version);
        let converted = admission.map(|admission| admission.stored_form(&key, &next)).transpose()?;
        let (mut value, shown) = match converted.flatten() {
            Some((stored, shown)) => (stored, Some(shown)),
            None => (next, None),
        };
        match remove_if_released(state, resource, object_key, stored.version, &value)? {
            Removal::Kept => {}
            Removal::Raced => continue,
            Removal::Removed(_) => return Ok(Written::Shown(shown.unwrap_or(value))),
        }
        convert::to_storage(resource, &mut value);
        match state.apply(resource, Write::Update { object_key: object_key.clone(), value, expected: stored.version }) {
            Ok(event) => {
                state.after_write().updated(state, resource, &event);
                return Ok(Written::new(&event.object, shown));
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::Missing) => return Err(StatusError::not_found(resource, &object_key.name)),
            Err(error) => return Err(StatusError::internal(error.to_string())),
        }
    }
}

/// Some kinds can be replaced only with a resource version in the body.
fn require_version(resource: &ResourceType, name: &str, value: &Value) -> Result<(), StatusError> {
    let given = value["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
    if given || !strategy::needs_version(resource) {
        return Ok(());
    }
    let error = FieldError::invalid("metadata.resourceVersion", json!(0), "must be specified for an update");
    let mut status_error = StatusError::invalid(resource, name, &[error]);
    // In this error, the server names the resource instead of the kind.
    status_error.message = status_error.message.replacen(&resource.qualified_kind(), resource.qualified(), 1);
    status_error.details["kind"] = json!(resource.plural);
    Err(status_error)
}
