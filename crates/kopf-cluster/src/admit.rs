//! From what a client sends to what may be stored: decoding, defaults, pruning, checks.
//!
//! The verbs call these steps in the order of a real server: [`decode`], then [`new_object`] or
//! [`new_state`], which leave an object that is ready for the store, or refuse it.

use serde_json::{Map, Value, json};

use crate::catalog::ResourceType;
use crate::clock::timestamp;
use crate::ownership::{self, Writer};
use crate::query::{FieldValidation, WriteOptions};
use crate::request::Request;
use crate::schema::{FieldError, duplicate_fields};
use crate::state::State;
use crate::status::Refusal;
use crate::{defaults, go_types, kinds, names};

/// The media types of objects.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, if that is a part of its own.
    Main,
    /// Only the status.
    Status,
}

/// Reads the body of a request.
pub fn decode(request: &Request, resource: &ResourceType) -> Result<Value, Refusal> {
    let value = match request.media_type() {
        "application/json" => serde_json::from_slice(&request.body).map_err(|error| error.to_string()),
        "application/yaml" | "application/x-yaml" => from_yaml(&request.body),
        _ if resource.custom().is_some() => {
            return Err(Refusal::unsupported_media_type("application/json, application/yaml"));
        }
        _ => return Err(Refusal::unsupported_media_type(OBJECT_TYPES)),
    };
    let problem = match value {
        Ok(value @ Value::Object(_)) => return Ok(value),
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_type(&other)
        ),
        Err(problem) => problem,
    };
    let hex: String = request.body.iter().take(1024).map(|byte| format!("{byte:02x}")).collect();
    Err(Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
         {problem} ({hex})",
        resource.kind
    )))
}

/// Reads YAML as if it was JSON.
pub fn from_yaml(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Refuses objects of other kinds; puts the right kind where none is given.
pub fn check_type(resource: &ResourceType, value: &mut Value, raw: &[u8]) -> Result<(), Refusal> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if resource.custom().is_some() {
        if kind.is_empty() {
            let shown = String::from_utf8_lossy(raw);
            return Err(Refusal::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}' \
                 ({shown})",
                resource.kind
            )));
        }
        if api_version != resource.api_version() {
            return Err(Refusal::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                resource.api_version()
            )));
        }
    } else {
        if !api_version.is_empty() && api_version != resource.api_version() {
            return Err(Refusal::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \
                 \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\"",
                api_version.rsplit('/').next().unwrap_or_default(),
                resource.kind
            )));
        }
        if !kind.is_empty() && kind != resource.kind {
            let (package, version) = (internal_package(&resource.group), &resource.version);
            return Err(Refusal::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {}: converting ({version}.{kind}) to \
                 ({package}.{}): unknown conversion",
                resource.kind, resource.kind
            )));
        }
        if let Some(problem) = go_types::misfit(resource, value) {
            return Err(Refusal::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {problem}",
                resource.kind, resource.version, resource.kind
            )));
        }
        crate::render::put_type(value, resource);
    }
    Ok(())
}

fn internal_package(group: &str) -> &str {
    match group {
        "" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        group => group.split('.').next().unwrap_or_default(),
    }
}

/// Finds unknown and repeated fields; they are refused, told, or dropped in silence.
pub fn check_fields(
    resource: &ResourceType,
    value: &Value,
    raw: Option<&[u8]>,
    options: &WriteOptions,
) -> Result<Vec<String>, Refusal> {
    if options.field_validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let repeated = raw.map(duplicate_fields).unwrap_or_default();
    let unknown = resource.schema().map(|schema| schema.unknown_fields(value)).unwrap_or_default();
    let mut warnings: Vec<String> = repeated.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    warnings.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    if warnings.is_empty() || options.field_validation == FieldValidation::Warn {
        return Ok(warnings);
    }
    Err(Refusal::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
        resource.kind,
        resource.version,
        resource.kind,
        warnings.join(", ")
    )))
}

/// Makes a new object out of what was sent: identity, defaults, checks. Without a writer, the
/// bookkeeping of fields is left as it was sent.
pub fn new_object(
    state: &State,
    resource: &ResourceType,
    namespace: Option<&str>,
    mut value: Value,
    writer: Option<&Writer>,
) -> Result<Value, Refusal> {
    let metadata = metadata_of(&mut value)?;
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(Refusal::bare("resourceVersion should not be set on objects to be created"));
    }
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"] {
        metadata.shift_remove(field);
    }
    metadata.insert("uid".into(), json!(state.randomness().uid()));
    metadata.insert("creationTimestamp".into(), json!(timestamp(state.now())));
    match namespace {
        Some(namespace) => metadata.insert("namespace".into(), json!(namespace)),
        None => metadata.shift_remove("namespace"),
    };
    generate_name(state, metadata);
    if resource.counts_generations() {
        metadata.insert("generation".into(), json!(1));
    }
    if resource.has_status() && kinds::starts_without_status(resource) {
        remove(&mut value, "status");
    }
    complete(resource, &mut value);
    tidy(&mut value);
    if let Some(writer) = writer {
        // What the system adds from here on is not the writer's.
        ownership::record(state, resource, writer, None, &mut value);
    }
    kinds::prepare_new(state, resource, &mut value)?;
    let mut errors = kind_errors(resource, &value);
    errors.extend(names::check_metadata(&value["metadata"], resource.name_rule()));
    if let Some(schema) = resource.schema().filter(|_| resource.custom().is_some()) {
        errors.extend(schema.validate(&value, None));
    }
    errors.extend(kinds::check(resource, &value, None));
    refuse_if_any(resource, &value, errors)?;
    Ok(value)
}

/// Makes the next state of an object out of its current one and what was sent for it.
pub fn new_state(
    state: &State,
    resource: &ResourceType,
    part: Part,
    old: &Value,
    mut value: Value,
    writer: Option<&Writer>,
) -> Result<Value, Refusal> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    check_identity(resource, name, old, &mut value)?;
    let has_status = resource.has_status();
    match part {
        Part::Main if has_status => copy_field(old, &mut value, "status"),
        Part::Main => {}
        Part::Status => value = with_status_of(resource, old, value),
    }
    complete(resource, &mut value);
    keep_system_metadata(old, &mut value);
    tidy(&mut value);
    if let Some(writer) = writer {
        ownership::record(state, resource, writer, Some(old), &mut value);
    }
    kinds::prepare_change(resource, old, &mut value);
    let mut errors = kind_errors(resource, &value);
    errors.extend(names::check_metadata(&value["metadata"], resource.name_rule()));
    // Custom resources are checked for it twice by a real server, which shows in the causes.
    let times = if resource.custom().is_some() { 2 } else { 1 };
    errors.extend(new_finalizers(old, &value).into_iter().flat_map(|error| std::iter::repeat_n(error, times)));
    if let Some(schema) = resource.schema().filter(|_| resource.custom().is_some()) {
        errors.extend(match part {
            Part::Main => schema.validate(&value, Some(old)),
            Part::Status => schema.validate_status(&value, Some(old)),
        });
    }
    if part == Part::Main {
        errors.extend(kinds::check(resource, &value, Some(old)));
    }
    refuse_if_any(resource, &value, errors)?;
    if resource.counts_generations() && part == Part::Main && has_new_generation(resource, old, &value) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        value["metadata"]["generation"] = json!(generation + 1);
    }
    ownership::keep_times(old, &mut value);
    Ok(value)
}

/// The name, the uid and the version that were sent must be those of the object.
fn check_identity(resource: &ResourceType, name: &str, old: &Value, value: &mut Value) -> Result<(), Refusal> {
    let metadata = metadata_of(value)?;
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    let current = |field: &str| old["metadata"][field].as_str().unwrap_or_default();
    match text("name") {
        "" => {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        sent if sent != name => {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    if !text("namespace").is_empty() && text("namespace") != current("namespace") {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !text("uid").is_empty() && text("uid") != current("uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}",
            registry_path(resource),
            old["metadata"]["namespace"].as_str().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
            text("uid"),
            current("uid")
        );
        return Err(Refusal::conflict(resource, name, &why));
    }
    match text("resourceVersion") {
        "" | "0" => Ok(()),
        sent if sent == current("resourceVersion") => Ok(()),
        _ => Err(Refusal::modified(resource, name)),
    }
}

fn registry_path(resource: &ResourceType) -> String {
    match resource.custom() {
        Some(_) => format!("{}/{}", resource.group, resource.plural),
        None => resource.plural.clone(),
    }
}

/// Defaults, and what is not known is dropped.
fn complete(resource: &ResourceType, value: &mut Value) {
    match resource.custom() {
        Some(_) => {
            if let Some(schema) = resource.schema() {
                schema.default(value);
                schema.prune(value);
            }
        }
        None => {
            if let Some(schema) = resource.schema() {
                schema.prune(value);
            }
            defaults::fill_in(resource, value);
            kinds::complete(resource, value);
        }
    }
}

/// What only the system sets stays as it is, whatever was sent.
fn keep_system_metadata(old: &Value, value: &mut Value) {
    const FIELDS: [&str; 8] = [
        "uid",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
    ];
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in FIELDS {
        match old["metadata"].get(field) {
            Some(kept) => metadata.insert(field.into(), kept.clone()),
            None => metadata.shift_remove(field),
        };
    }
}

/// The current object with only the status of another one.
fn with_status_of(resource: &ResourceType, old: &Value, mut value: Value) -> Value {
    let mut result = old.clone();
    copy_field(&value, &mut result, "status");
    // Custom resources keep their metadata; built-in kinds take labels, annotations and owners.
    match resource.custom() {
        None => result["metadata"] = value.get_mut("metadata").map(Value::take).unwrap_or_default(),
        Some(_) => {
            if let Some(managed) = value["metadata"].get("managedFields") {
                result["metadata"]["managedFields"] = managed.clone();
            }
        }
    }
    result
}

fn has_new_generation(resource: &ResourceType, old: &Value, new: &Value) -> bool {
    let relevant = |value: &Value| -> Map<String, Value> {
        let fields = value.as_object().into_iter().flatten();
        let counts = |name: &str| {
            !(matches!(name, "metadata" | "kind" | "apiVersion") || (name == "status" && resource.has_status()))
        };
        fields.filter(|(name, _)| counts(name)).map(|(name, field)| (name.clone(), field.clone())).collect()
    };
    // Annotations of deployments are a part of what is rolled out.
    let annotations = |value: &Value| value["metadata"].get("annotations").cloned();
    relevant(old) != relevant(new) || (resource.is("apps", "deployments") && annotations(old) != annotations(new))
}

fn new_finalizers(old: &Value, new: &Value) -> Option<FieldError> {
    old["metadata"].get("deletionTimestamp")?;
    let list = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let known = list(old);
    let added: Vec<String> = list(new)
        .iter()
        .filter(|finalizer| !known.contains(finalizer))
        .map(|finalizer| finalizer.to_string())
        .collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    (!added.is_empty()).then(|| FieldError::forbidden("metadata.finalizers", detail))
}

/// Custom resources may come with a wrong kind up to here.
fn kind_errors(resource: &ResourceType, value: &Value) -> Vec<FieldError> {
    match value.get("kind").and_then(Value::as_str) {
        Some(kind) if kind != resource.kind => {
            vec![FieldError::invalid("kind", json!(kind), format!("must be {}", resource.kind))]
        }
        _ => Vec::new(),
    }
}

fn refuse_if_any(resource: &ResourceType, value: &Value, errors: Vec<FieldError>) -> Result<(), Refusal> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if errors.is_empty() {
        return Ok(());
    }
    let mut refusal = Refusal::invalid(resource, name, &errors);
    // The kind is told as it was sent, be it the wrong one.
    if let Some(kind) = value.get("kind").and_then(Value::as_str).filter(|kind| *kind != resource.kind) {
        refusal.message = refusal.message.replacen(&resource.kind, kind, 1);
        refusal.details["kind"] = json!(kind);
    }
    Err(refusal)
}

fn generate_name(state: &State, metadata: &mut Map<String, Value>) {
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, prefix) = (text("name"), text("generateName"));
    if name.is_empty() && !prefix.is_empty() {
        let prefix: String = prefix.chars().take(58).collect();
        let generated = format!("{prefix}{}", state.randomness().suffix());
        metadata.insert("name".into(), json!(generated));
    }
}

/// Removes what is as good as absent in metadata: nulls, empty maps and lists.
fn tidy(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|_, field| match field {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

/// The metadata, made if it is missing.
fn metadata_of(value: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let metadata = value.as_object_mut().map(|fields| fields.entry("metadata").or_insert(Value::Null));
    if let Some(metadata) = metadata {
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Value::Object(metadata) = metadata {
            return Ok(metadata);
        }
    }
    Err(Refusal::bad_request("metadata must be an object"))
}

fn copy_field(from: &Value, to: &mut Value, name: &str) {
    match from.get(name) {
        Some(field) => to[name] = field.clone(),
        None => remove(to, name),
    }
}

fn remove(value: &mut Value, name: &str) {
    if let Value::Object(fields) = value {
        fields.shift_remove(name);
    }
}
