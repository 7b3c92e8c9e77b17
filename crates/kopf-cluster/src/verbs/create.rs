//! Creates an object.

use std::sync::Arc;

use serde_json::{Value, json};

use super::written::Written;
use crate::admit::ownership::Writer;
use crate::admit::{self, WriteOrigin};
use crate::builtin::{convert, namespaces};
use crate::catalog::ResourceType;
use crate::publish::render::{Renderer, put_type};
use crate::request::query::WriteOptions;
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::store::{ObjectKey, StoreError, Write};
use crate::webhooks::Admission;

/// How many generated names are attempted before the client gets a conflict.
const NAME_ATTEMPTS: usize = 8;

pub(super) fn create(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let options = WriteOptions::parse(&request.query, "CreateOptions")?;
    let resource = &route.resource;
    if resource.custom().is_some_and(|custom| custom.terminating) {
        let name = admit::decode(request, resource)?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let why = "create not allowed while custom resource definition is terminating";
        return Err(StatusError::forbidden(resource, &name, why));
    }
    let (mut value, repeats) = admit::decode_noting_repeats(request, resource)?;
    admit::check_type(resource, &mut value, &request.body)?;
    let warnings = admit::check_fields(resource, &value, repeats, &options)?;
    let webhooks = state.webhooks();
    let created = create_admitted(
        state,
        resource,
        route.namespace.as_deref(),
        value,
        options.dry_run,
        WriteOrigin {
            writer: Some(&Writer::of(request, &options, None)),
            admission: Some(&Admission::of(state, &webhooks, request, route, options.dry_run)),
        },
    )
    .map_err(|status_error| status_error.with_warnings(&warnings))?;
    let renderer = Renderer { resource, representation, now: state.now() };
    Ok(created.answer(201, &renderer, warnings))
}

/// Creates an object for the system itself, without webhooks.
pub(crate) fn create_object(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    namespace: Option<&str>,
    mut value: Value,
    dry_run: bool,
    writer: Option<&Writer>,
) -> Result<Value, StatusError> {
    put_type(&mut value, resource);
    let created = create_admitted(state, resource, namespace, value, dry_run, WriteOrigin { writer, admission: None })?;
    Ok(created.into_value(resource))
}

/// Creates an object from the body of a request, and returns its stored state.
pub(super) fn create_admitted(
    state: &Arc<State>,
    resource: &Arc<ResourceType>,
    namespace: Option<&str>,
    value: Value,
    dry_run: bool,
    origin: WriteOrigin<'_>,
) -> Result<Written, StatusError> {
    let sent_namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_some_and(|namespace| !sent_namespace.is_empty() && sent_namespace != namespace) {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let sent_name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let Some(namespace) = namespace {
        namespaces::check_open(state, resource, namespace, &sent_name)?;
    }
    let admission = origin.admission;
    let mut attempts = 0;
    let mut value = Some(value);
    loop {
        attempts += 1;
        // Only generated names allow another attempt.
        let sent = if sent_name.is_empty() { value.clone() } else { value.take() }.unwrap_or_default();
        let make = || admit::new_object(state, resource, namespace, sent, origin, attempts);
        let mut object = match admission.filter(|_| resource.conversion().is_some()) {
            Some(admission) => admission.once(&format!("made/{attempts}"), make)?,
            None => make()?,
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let object_key = ObjectKey::new(namespace.unwrap_or_default(), &name);
        if dry_run {
            return match state.get(resource, &object_key) {
                Some(known) => Err(StatusError::already_exists(resource, &name, known.deleting)),
                None => Ok(Written::Shown(object)),
            };
        }
        let converted =
            admission.map(|admission| admission.stored_form(&format!("made/{attempts}"), &object)).transpose()?;
        let shown = converted.flatten().map(|(stored, shown)| {
            object = stored;
            shown
        });
        convert::to_storage(resource, &mut object);
        convert::to_first_storage(resource, &mut object);
        match state.apply(resource, Write::Create { object_key: object_key.clone(), value: object }) {
            Ok(event) => {
                state.after_write().created(state, resource, &event.object);
                return Ok(Written::new(&event.object, shown));
            }
            Err(StoreError::Exists) if sent_name.is_empty() && attempts < NAME_ATTEMPTS => {}
            Err(StoreError::Exists) => {
                let deleting = state.get(resource, &object_key).is_some_and(|known| known.deleting);
                return Err(StatusError::already_exists(resource, &name, deleting));
            }
            Err(error) => return Err(StatusError::internal(error.to_string())),
        }
    }
}

/// The response to a token request for a service account.
pub(super) fn token_request(route: &ObjectRoute, account: &Value, now: String, expires: String, token: &str) -> Value {
    json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": route.name, "namespace": route.namespace, "uid": account["metadata"]["uid"],
            "creationTimestamp": now,
        },
        "spec": {
            "audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600, "boundObjectRef": null,
        },
        "status": {"token": token, "expirationTimestamp": expires},
    })
}
