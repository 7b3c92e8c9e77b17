//! Patches an object or its status: JSON merge patches, JSON patches, strategic merge patches, server-side apply.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::create_admitted;
use super::update::write_admitted;
use crate::admit::ownership::{Writer, apply_configuration};
use crate::admit::{self, Part, WriteOrigin};
use crate::catalog::ResourceType;
use crate::codec::{from_unstructured, json, struct_types, yaml};
use crate::go::text::type_name;
use crate::go::{FieldError, go_plain};
use crate::patching::{JsonPatchError, StrategicPatchError, apply_json_patch, apply_merge, apply_strategic};
use crate::publish::render::{Renderer, put_type};
use crate::request::query::{FieldValidation, WriteOptions};
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::store::ObjectKey;
use crate::webhooks::Admission;

/// A patch that can be applied to an object.
pub(super) enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// A merge patch that knows the keys of lists; only for built-in kinds.
    Strategic(Value),
}

pub(super) fn patch(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let options = WriteOptions::parse(&request.query, "PatchOptions")?;
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let part = if route.subresource.is_some() { Part::Status } else { Part::Main };
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let writer = Writer::of(request, &options, route.subresource.as_deref());
    let webhooks = state.webhooks();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let admission = Some(&admission);
    if request.media_type() == "application/apply-patch+yaml" {
        return apply(state, request, route, &options, &writer, admission);
    }
    let patch = Patch::read(request, resource)?;
    let mut warnings = Vec::new();
    let written = write_admitted(state, resource, &object_key, options.dry_run, admission, |old| {
        let mut patched = patch.apply(resource, old)?;
        if resource.custom().is_none() {
            let text = |field: &str| patched.get(field).and_then(Value::as_str).unwrap_or_default();
            let problem = admit::type_problem(resource, text("apiVersion"), text("kind"));
            if let Some(problem) = problem.or_else(|| patch.type_error(&mut patched, resource)) {
                return Err(StatusError::invalid_patch(patch.shown(&patched), &problem));
            }
            put_type(&mut patched, resource);
        }
        warnings = match options.field_validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn | FieldValidation::Strict => admit::unknown_fields(resource, &patched, None),
        };
        if options.field_validation == FieldValidation::Strict && !warnings.is_empty() {
            let problem = format!("strict decoding error: {}", warnings.join(", "));
            return Err(StatusError::invalid_patch(patch.shown(&patched), &problem));
        }
        admit::new_state(state, resource, part, old, patched, WriteOrigin { writer: Some(&writer), admission })
    })?;
    let renderer = Renderer { resource, representation, now: state.now() };
    Ok(written.answer(200, &renderer, warnings))
}

/// Server-side apply: the only patch that can create an object.
fn apply(
    state: &Arc<State>,
    request: &Request,
    route: &ObjectRoute,
    options: &WriteOptions,
    writer: &Writer,
    admission: Option<&Admission<'_>>,
) -> Result<Response, StatusError> {
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let part = if route.subresource.is_some() { Part::Status } else { Part::Main };
    if options.field_manager.is_none() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(StatusError::invalid_options("PatchOptions", &[error]));
    }
    let mut configuration = yaml::parse(&request.body).map_err(|error| {
        StatusError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
    })?;
    if configuration.is_null() {
        return Err(StatusError::bad_request("invalid object type: /, Kind="));
    }
    configuration = object(configuration, "error decoding YAML: error unmarshaling JSON: while decoding JSON: ")?;
    if !configuration["metadata"].is_object() {
        configuration["metadata"] = json!({});
    }
    if configuration["metadata"].get("name").is_none() {
        configuration["metadata"]["name"] = json!(name);
    }
    admit::check_type(resource, &mut configuration, &request.body)?;
    let warnings = admit::check_fields(resource, &configuration, None, options)?;
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let renderer = Renderer { resource, representation: request.representation()?, now: state.now() };
    if part == Part::Main && state.get(resource, &object_key).is_none() {
        let applied = apply_configuration(state, resource, writer, None, &configuration, options.force)?;
        let namespace = route.namespace.as_deref();
        let created = create_admitted(
            state,
            resource,
            namespace,
            applied,
            options.dry_run,
            WriteOrigin { writer: None, admission },
        )?;
        return Ok(created.answer(201, &renderer, warnings));
    }
    let written = write_admitted(state, resource, &object_key, options.dry_run, admission, |old| {
        let applied = apply_configuration(state, resource, writer, Some(old), &configuration, options.force)?;
        admit::new_state(state, resource, part, old, applied, WriteOrigin { writer: None, admission })
    })?;
    Ok(written.answer(200, &renderer, warnings))
}

impl Patch {
    /// Reads the patch of a request by its media type.
    pub(super) fn read(request: &Request, resource: &ResourceType) -> Result<Self, StatusError> {
        let parse = || {
            json::parse(&request.body)
                .map_err(|problem| StatusError::bad_request(format!("error decoding patch: {problem}")))
        };
        match request.media_type() {
            "application/merge-patch+json" => match parse()? {
                Value::Null => Err(StatusError::bad_request("Invalid JSON Patch")),
                patch => object(patch, "error decoding patch: ").map(Self::Merge),
            },
            "application/json-patch+json" => match parse()? {
                // `null` counts as a list without operations.
                Value::Null => Ok(Self::Json(json!([]))),
                operations => Ok(Self::Json(operations)),
            },
            _ if resource.custom().is_some() => Err(StatusError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            "application/strategic-merge-patch+json" => match json::parse(&request.body) {
                Ok(Value::Null) => Ok(Self::Strategic(json!({}))),
                Ok(patch) => object(patch, "").map(Self::Strategic),
                Err(problem) => Err(StatusError::bad_request(problem)),
            },
            _ => Err(StatusError::unsupported_patch_type()),
        }
    }

    /// The error if a patched object cannot be decoded.
    fn type_error(&self, patched: &mut Value, resource: &ResourceType) -> Option<String> {
        match self {
            Self::Strategic(_) => from_unstructured::restore(resource, patched).err(),
            Self::Merge(_) | Self::Json(_) => struct_types::type_error(resource, patched),
        }
    }

    /// The text that errors show: the patched object, or the patch if the object is not decoded.
    pub(super) fn shown(&self, patched: &Value) -> String {
        match self {
            Self::Strategic(patch) => go_plain(patch),
            Self::Merge(_) | Self::Json(_) => patched.to_string(),
        }
    }

    /// The object with the patch applied.
    pub(super) fn apply(&self, resource: &ResourceType, old: &Value) -> Result<Value, StatusError> {
        let patched = match self {
            Self::Merge(patch) => apply_merge(old, patch),
            Self::Json(operations) => apply_json_patch(old, operations).map_err(json_refusal)?,
            Self::Strategic(patch) => {
                let schema = resource.schema().ok_or_else(StatusError::unsupported_patch_type)?;
                apply_strategic(schema, old, patch).map_err(strategic_refusal)?
            }
        };
        match patched {
            Value::Object(_) => Ok(patched),
            other => {
                let error = FieldError::invalid("patch", json!(other.to_string()), "the result is not an object");
                Err(StatusError::invalid(resource, "", &[error]))
            }
        }
    }
}

fn json_refusal(error: JsonPatchError) -> StatusError {
    match error {
        JsonPatchError::Malformed(_) => StatusError::bad_request(error.to_string()),
        JsonPatchError::TooLong(_) => {
            StatusError::request_entity_too_large(format!("Request entity too large: {error}"))
        }
        JsonPatchError::Inapplicable(_) => StatusError::unprocessable(),
    }
}

fn strategic_refusal(error: StrategicPatchError) -> StatusError {
    match error.status_code() {
        400 => StatusError::bad_request(error.to_string()),
        422 => StatusError::unprocessable(),
        _ => StatusError::bare(error.to_string()),
    }
}

fn object(patch: Value, prefix: &str) -> Result<Value, StatusError> {
    match patch {
        Value::Object(_) => Ok(patch),
        other => {
            let found = type_name(&other);
            Err(StatusError::bad_request(format!(
                "{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )))
        }
    }
}
