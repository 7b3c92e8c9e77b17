//! From the body of a request to an object that may be stored: decoding, defaults, pruning, checks.
//!
//! The verbs call these steps in the order of a real server: [`decode`], then [`new_object`] or
//! [`new_state`], which return an object that is ready for the store, or an error.

mod decode;
mod identity;
mod metadata;
pub(crate) mod ownership;
mod repeated_errors;

use serde_json::{Map, Value, json};

use crate::builtin::strategy::{self, Generation};
use crate::builtin::{complete, kinds, normalize_structure, rules};
use crate::catalog::ResourceType;
use crate::go::FieldError;
use crate::go::structure::Structure;
use crate::request::status::StatusError;
use crate::state::State;
use crate::support::clock::timestamp;
use crate::values::names;
use crate::webhooks::Admission;
use identity::check_identity;
use metadata::{copy_namespace, generate_name, keep_system_metadata, metadata_of, new_metadata, tidy};
use ownership::Writer;

pub(crate) use decode::{
    check_fields, check_type, decode, decode_noting_repeats, decode_options, type_mismatch, type_problem,
    unknown_fields,
};
pub(crate) use identity::check_name;

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status, if the resource has a status subresource.
    Main,
    /// Only the status.
    Status,
}

/// On whose behalf an object is written.
#[derive(Clone, Copy)]
pub(crate) struct WriteOrigin<'a> {
    /// Who owns the written fields; None if the managed fields are up to date already.
    pub writer: Option<&'a Writer>,
    /// The admission by webhooks; None for writes of the server itself.
    pub admission: Option<&'a Admission<'a>>,
}

/// Makes a new object from the body of a request, and lets the webhooks change or deny it. `attempt` counts
/// from 1, up to the generated name that is not taken.
pub(crate) fn new_object(
    state: &State,
    resource: &ResourceType,
    namespace: Option<&str>,
    value: Value,
    origin: WriteOrigin<'_>,
    attempt: usize,
) -> Result<Value, StatusError> {
    let WriteOrigin { writer, admission } = origin;
    let author = admission.map(Admission::user);
    let dry_run = admission.is_some_and(Admission::is_dry_run);
    let Some(admission) = admission.filter(|admission| admission.is_needed()) else {
        let mut checked = checked_object(state, resource, namespace, value, writer, dry_run)?;
        kinds::note_author(resource, &mut checked, author);
        return Ok(checked);
    };
    let recorded = admission.once("create/recorded", || recorded_object(state, resource, namespace, value, writer))?;
    let mutated = admission.mutate("create", recorded, None)?;
    let key = format!("create/{attempt}");
    let mut checked = admission.once(&key, || checked_object(state, resource, namespace, mutated, None, dry_run))?;
    kinds::note_author(resource, &mut checked, author);
    admission.validate(&key, &checked, None)?;
    Ok(checked)
}

/// A new object as the mutating webhooks see it: before the system adds anything to it.
fn recorded_object(
    state: &State,
    resource: &ResourceType,
    namespace: Option<&str>,
    mut value: Value,
    writer: Option<&Writer>,
) -> Result<Value, StatusError> {
    let metadata = new_metadata(&mut value)?;
    if let Some(namespace) = namespace {
        metadata.insert("namespace".into(), json!(namespace));
    }
    complete(resource, &mut value);
    tidy(&mut value);
    if let Some(writer) = writer {
        ownership::record(state, resource, writer, None, &mut value)?;
    }
    Ok(value)
}

/// Makes a new object from the body of a request: identity, defaults, checks. Without a writer, the
/// managed fields stay unchanged.
fn checked_object(
    state: &State,
    resource: &ResourceType,
    namespace: Option<&str>,
    mut value: Value,
    writer: Option<&Writer>,
    dry_run: bool,
) -> Result<Value, StatusError> {
    let metadata = new_metadata(&mut value)?;
    metadata.insert("uid".into(), json!(state.randomness().uid()));
    metadata.insert("creationTimestamp".into(), json!(timestamp(state.now())));
    match namespace {
        Some(namespace) => metadata.insert("namespace".into(), json!(namespace)),
        None => metadata.shift_remove("namespace"),
    };
    if matches!(strategy::generation(resource), Generation::FromOne | Generation::Fixed) {
        metadata.insert("generation".into(), json!(1));
    }
    if resource.has_status() && kinds::starts_without_status(resource) {
        remove(&mut value, "status");
    }
    complete(resource, &mut value);
    tidy(&mut value);
    if let Some(writer) = writer {
        // The writer does not own the fields that the system adds from here on.
        ownership::record(state, resource, writer, None, &mut value)?;
    }
    generate_name(state, resource, metadata_of(&mut value)?);
    kinds::prepare_new(state, resource, &mut value, dry_run)?;
    normalize_structure(resource, &mut value, Structure::normalize);
    let mut errors = kind_errors(resource, &value);
    let standard = repeated_errors::wants_standard_finalizers(resource);
    errors.extend(names::check_metadata(&value["metadata"], strategy::name_rule(resource), standard));
    if let Some(schema) = resource.schema().filter(|_| resource.custom().is_some()) {
        errors.extend(schema.validate(&value, None));
    }
    errors.extend(kinds::check(resource, &value, None));
    refuse_if_any(resource, &value, errors)?;
    refuse_version(&value)?;
    Ok(value)
}

/// Only stored objects have a version. The server checks this last, in the store.
fn refuse_version(value: &Value) -> Result<(), StatusError> {
    match value["metadata"].get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        true => Err(StatusError::bare("resourceVersion should not be set on objects to be created")),
        false => Ok(()),
    }
}

/// Makes the next state of an object from the current one and the body of a request, and lets the webhooks
/// change or deny it.
pub(crate) fn new_state(
    state: &State,
    resource: &ResourceType,
    part: Part,
    old: &Value,
    mut value: Value,
    origin: WriteOrigin<'_>,
) -> Result<Value, StatusError> {
    let WriteOrigin { writer, admission } = origin;
    let Some(admission) = admission.filter(|admission| admission.is_needed()) else {
        return checked_state(state, resource, part, old, value, writer);
    };
    let basis = format!("update/{}", old["metadata"]["resourceVersion"].as_str().unwrap_or_default());
    let recorded = admission.once(&format!("{basis}/recorded"), || {
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        check_identity(resource, name, old, &mut value)?;
        copy_namespace(old, &mut value);
        complete(resource, &mut value);
        tidy(&mut value);
        if let Some(writer) = writer {
            ownership::record(state, resource, writer, Some(old), &mut value)?;
        }
        Ok(value)
    })?;
    let mutated = admission.mutate(&basis, recorded, Some(old))?;
    let checked =
        admission.once(&format!("{basis}/checked"), || checked_state(state, resource, part, old, mutated, None))?;
    admission.validate(&basis, &checked, Some(old))?;
    Ok(checked)
}

/// Makes the next state of an object from the current one and the body of a request.
fn checked_state(
    state: &State,
    resource: &ResourceType,
    part: Part,
    old: &Value,
    mut value: Value,
    writer: Option<&Writer>,
) -> Result<Value, StatusError> {
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
        ownership::record(state, resource, writer, Some(old), &mut value)?;
    }
    kinds::prepare_change(resource, old, &mut value);
    kinds::note_phase(resource, old, &mut value, state.now());
    normalize_structure(resource, &mut value, Structure::normalize);
    let mut errors = kind_errors(resource, &value);
    let standard = repeated_errors::wants_standard_finalizers(resource);
    let found = names::check_metadata(&value["metadata"], strategy::name_rule(resource), standard);
    errors.extend(std::iter::repeat_n(found, repeated_errors::of_metadata(resource)).flatten());
    let found = new_finalizers(old, &value);
    errors.extend(std::iter::repeat_n(found, repeated_errors::of_finalizers(resource)).flatten());
    if let Some(schema) = resource.schema().filter(|_| resource.custom().is_some()) {
        errors.extend(match part {
            Part::Main => schema.validate(&value, Some(old)),
            Part::Status => schema.validate_status(&value, Some(old)),
        });
    }
    errors.extend(match part {
        Part::Main => kinds::check(resource, &value, Some(old)),
        Part::Status => rules::check_status(resource, &value, old),
    });
    refuse_if_any(resource, &value, errors)?;
    let counts = matches!(strategy::generation(resource), Generation::FromOne | Generation::AfterChange);
    if counts && part == Part::Main && has_new_generation(resource, old, &value) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        value["metadata"]["generation"] = json!(generation + 1);
    }
    ownership::keep_times(old, &mut value);
    Ok(value)
}

/// The current object with only the status of another one.
fn with_status_of(resource: &ResourceType, old: &Value, mut value: Value) -> Value {
    let mut result = old.clone();
    copy_field(&value, &mut result, "status");
    // Most built-in kinds take labels, annotations and owners; custom resources keep their metadata.
    match strategy::status_keeps_metadata(resource) {
        false => {
            result["metadata"] = value.get_mut("metadata").map(Value::take).unwrap_or_default();
            if resource.is("apps", "deployments") {
                copy_field(&old["metadata"], &mut result["metadata"], "labels");
            }
        }
        true => {
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
    // The annotations of a deployment are part of its rollout.
    let annotations = |value: &Value| value["metadata"].get("annotations").cloned();
    let labels = |value: &Value| value["metadata"].get("labels").cloned();
    relevant(old) != relevant(new)
        || (resource.is("apps", "deployments") && annotations(old) != annotations(new))
        || (resource.is("discovery.k8s.io", "endpointslices") && labels(old) != labels(new))
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

/// Bodies of custom resources can have a wrong kind; this is where the server checks it.
fn kind_errors(resource: &ResourceType, value: &Value) -> Vec<FieldError> {
    match value.get("kind").and_then(Value::as_str) {
        Some(kind) if kind != resource.kind => {
            vec![FieldError::invalid("kind", json!(kind), format!("must be {}", resource.kind))]
        }
        _ => Vec::new(),
    }
}

fn refuse_if_any(resource: &ResourceType, value: &Value, errors: Vec<FieldError>) -> Result<(), StatusError> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if errors.is_empty() {
        return Ok(());
    }
    let mut status_error = StatusError::invalid(resource, name, &errors);
    // The message shows the kind that the client sent, even if it is wrong.
    if let Some(kind) = value.get("kind").and_then(Value::as_str).filter(|kind| *kind != resource.kind) {
        status_error.message = status_error.message.replacen(&resource.kind, kind, 1);
        status_error.details["kind"] = json!(kind);
    }
    Err(status_error)
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
