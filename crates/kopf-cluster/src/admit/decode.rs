//! Reading what clients send: JSON or YAML, the right kind, the right types, known fields.

use serde_json::{Map, Value};

use crate::catalog::{Catalog, ResourceType};
use crate::codec::{json, protobuf, struct_types, yaml};
use crate::go::internal_package;
use crate::go::text::type_name;
use crate::request::Request;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::request::status::StatusError;
use crate::schema::duplicate_fields;

/// The media types of objects.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads the body of a request.
pub(crate) fn decode(request: &Request, resource: &ResourceType) -> Result<Value, StatusError> {
    decode_noting_repeats(request, resource).map(|(value, _)| value)
}

/// The same; also gives back the JSON itself, if it has repeated fields.
pub(crate) fn decode_noting_repeats<'a>(
    request: &'a Request,
    resource: &ResourceType,
) -> Result<(Value, Option<&'a [u8]>), StatusError> {
    let mut repeats = None;
    let value = match request.media_type() {
        "application/json" => json::parse_noting_repeats(&request.body).map_err(no_type).map(|(value, has_repeats)| {
            repeats = has_repeats.then_some(&*request.body);
            value
        }),
        "application/yaml" | "application/x-yaml" => yaml::parse(&request.body),
        "application/vnd.kubernetes.protobuf" if resource.custom().is_none() => {
            protobuf::decode(&request.body).map_err(|error| error.to_string())
        }
        _ => return Err(StatusError::unsupported_media_type(OBJECT_TYPES)),
    };
    let problem = match value {
        Ok(value @ Value::Object(_)) => return Ok((value, repeats)),
        // Nothing at all is taken for an object without anything.
        Ok(Value::Null) => return Ok((Value::Object(Map::new()), None)),
        Ok(other) => no_type(format!("json: cannot unmarshal {} into {TYPE_IN_GO}", type_name(&other))),
        Err(problem) => problem,
    };
    Err(StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {problem} ({})",
        resource.kind,
        json::summary(&request.body)
    )))
}

/// What the server reads first of every object, as its messages show it.
const TYPE_IN_GO: &str = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                          \"json:\\\"kind,omitempty\\\"\" }";

/// The server looks for the type first, so that it fails there.
fn no_type(problem: String) -> String {
    format!("couldn't get version/kind; json parse error: {problem}")
}

/// Rejects options that are not an object, or of another kind.
pub(crate) fn decode_options(body: &[u8], kind: &str) -> Result<Value, StatusError> {
    let value = json::parse(body).map_err(|problem| StatusError::bad_request(no_type(problem)))?;
    match (&value, value["kind"].as_str()) {
        (Value::Null, _) => Ok(Value::Object(Map::new())),
        (Value::Object(_), Some(other)) if !other.is_empty() && other != kind => {
            let version = value["apiVersion"].as_str().unwrap_or("v1");
            Err(StatusError::bad_request(format!(
                "no kind \"{other}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )))
        }
        (Value::Object(_), _) => Ok(value),
        (other, _) => {
            let found = type_name(other);
            Err(StatusError::bad_request(no_type(format!("json: cannot unmarshal {found} into {TYPE_IN_GO}"))))
        }
    }
}

/// Rejects objects of other kinds; adds the kind if it is missing.
pub(crate) fn check_type(resource: &ResourceType, value: &mut Value, raw: &[u8]) -> Result<(), StatusError> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let is_typed = kind == resource.kind && api_version == resource.api_version();
    if resource.custom().is_some() {
        if kind.is_empty() {
            let shown = String::from_utf8_lossy(raw);
            return Err(StatusError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}' \
                 ({shown})",
                resource.kind
            )));
        }
        if api_version != resource.api_version() {
            return Err(StatusError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                resource.api_version()
            )));
        }
        if let Some(problem) = struct_types::metadata_type_error(value) {
            return Err(StatusError::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {problem}",
                resource.version
            )));
        }
    } else {
        if let Some(problem) = type_problem(resource, &api_version, &kind) {
            let api_version = if api_version.is_empty() { resource.api_version() } else { &api_version };
            return Err(StatusError::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {}: {problem}",
                api_version.rsplit('/').next().unwrap_or_default(),
                resource.kind
            )));
        }
        if let Some(problem) = struct_types::type_error(resource, value) {
            return Err(StatusError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {problem}",
                resource.kind, resource.version, resource.kind
            )));
        }
        if !is_typed {
            crate::publish::render::put_type(value, resource);
        }
    }
    Ok(())
}

/// Why an object of this type cannot be taken for one of the resource.
pub(crate) fn type_problem(resource: &ResourceType, api_version: &str, kind: &str) -> Option<String> {
    type_mismatch(resource.api_version(), &resource.kind, api_version, kind)
}

/// Why an object of one type cannot be taken for one of another type.
pub(crate) fn type_mismatch(expected: &str, expected_kind: &str, api_version: &str, kind: &str) -> Option<String> {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let api_version = if api_version.is_empty() { expected } else { api_version };
    if api_version == expected && (kind.is_empty() || kind == expected_kind) {
        return None;
    }
    if !Catalog::is_registered(api_version, kind) {
        return Some(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        ));
    }
    let (group, own_version) = expected.split_once('/').unwrap_or(("", expected));
    let version = if version.is_empty() { own_version } else { version };
    let package = internal_package(group);
    Some(format!("converting ({version}.{kind}) to ({package}.{expected_kind}): unknown conversion"))
}

/// Finds unknown and duplicate fields, and rejects them, warns about them or drops them silently.
/// The JSON is only needed if some of its fields are repeated.
pub(crate) fn check_fields(
    resource: &ResourceType,
    value: &Value,
    raw: Option<&[u8]>,
    options: &WriteOptions,
) -> Result<Vec<String>, StatusError> {
    if options.field_validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let warnings = unknown_fields(resource, value, raw);
    if warnings.is_empty() || options.field_validation == FieldValidation::Warn {
        return Ok(warnings);
    }
    Err(StatusError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
        resource.kind,
        resource.version,
        resource.kind,
        warnings.join(", ")
    )))
}

/// The messages about unknown and duplicate fields.
pub(crate) fn unknown_fields(resource: &ResourceType, value: &Value, raw: Option<&[u8]>) -> Vec<String> {
    let repeated = raw.map(duplicate_fields).unwrap_or_default();
    let unknown = resource.schema().map(|schema| schema.unknown_fields(value)).unwrap_or_default();
    let mut found: Vec<String> = repeated.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    found.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    found
}
