//! The `scale` subresource: the number of replicas of an object.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::patch::Patch;
use super::update::write_admitted;
use crate::admit::ownership::{Writer, apply_configuration};
use crate::admit::{self, Part, WriteOrigin};
use crate::catalog::{ResourceType, Verb};
use crate::codec::{from_unstructured, struct_types, yaml};
use crate::go::FieldError;
use crate::publish::render::decode;
use crate::request::query::WriteOptions;
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::store::ObjectKey;
use crate::values::jsonpath::JsonPath;
use crate::webhooks::Admission;

const SCALE: &str = "scale";
const SCALE_VERSION: &str = "autoscaling/v1";

pub(super) fn scale(
    state: &Arc<State>,
    request: &Request,
    route: &ObjectRoute,
    verb: Verb,
) -> Result<Response, StatusError> {
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    if verb == Verb::Get {
        let stored = state.get(resource, &object_key).ok_or_else(|| StatusError::not_found(resource, name))?;
        let webhooks = state.webhooks();
        let shown = Admission::of(state, &webhooks, request, route, false).shown(&stored)?;
        return Ok(Response::json(200, &scale_of(resource, &decode(resource, &shown))?));
    }
    let kind = if verb == Verb::Update { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&request.query, kind)?;
    // As on a real server, scaling a custom resource does not change its managed fields.
    let writer = resource.custom().is_none().then(|| Writer::of(request, &options, Some(SCALE)));
    let applies = verb == Verb::Patch && request.media_type() == "application/apply-patch+yaml";
    let webhooks = state.webhooks();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let written = write_admitted(state, resource, &object_key, options.dry_run, Some(&admission), |old| {
        let current = scale_of(resource, old).unwrap_or_else(|_| bare(old));
        let mut wanted = wanted(request, resource, name, old, &current, verb)?;
        let version = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && old["metadata"]["resourceVersion"] != version {
            return Err(StatusError::modified(resource, name));
        }
        if admission.is_needed() {
            let basis = format!("scale/{}", current["metadata"]["resourceVersion"].as_str().unwrap_or_default());
            wanted = admission.mutate(&basis, wanted, Some(&current))?;
            let mut scaled = current.clone();
            scaled["spec"] = wanted["spec"].clone();
            admission.validate(&basis, &scaled, Some(&current))?;
        }
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
        check_replicas(resource, name, replicas)?;
        match writer.as_ref().filter(|_| applies) {
            Some(writer) => {
                let mut configuration = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
                    "metadata": {"name": name}});
                put(&mut configuration, &spec_path(resource), json!(replicas));
                let mut next = apply_configuration(state, resource, writer, Some(old), &configuration, options.force)?;
                forget_time_of_scale(&mut next);
                admit::new_state(state, resource, Part::Main, old, next, WriteOrigin { writer: None, admission: None })
            }
            None => {
                let mut next = old.clone();
                put(&mut next, &spec_path(resource), json!(replicas));
                let mut next = admit::new_state(
                    state,
                    resource,
                    Part::Main,
                    old,
                    next,
                    WriteOrigin { writer: writer.as_ref(), admission: None },
                )?;
                forget_time_of_scale(&mut next);
                Ok(next)
            }
        }
    })?;
    Ok(Response::json(200, &scale_of(resource, &written.into_value(resource))?))
}

/// The scale that a request asks to store.
fn wanted(
    request: &Request,
    resource: &ResourceType,
    name: &str,
    old: &Value,
    current: &Value,
    verb: Verb,
) -> Result<Value, StatusError> {
    if verb == Verb::Update {
        let sent = admit::decode(request, resource)?;
        if let Some(problem) = scale_problem(&sent) {
            let text = |field: &str| sent[field].as_str().unwrap_or_default();
            let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
            return Err(StatusError::bad_request(format!(
                "{} in version \"{version}\" cannot be handled as a Scale: {problem}",
                text("kind")
            )));
        }
        admit::check_name(name, &sent)?;
        return Ok(sent);
    }
    if request.media_type() == "application/apply-patch+yaml" {
        return yaml::parse(&request.body).map_err(|error| {
            StatusError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
        });
    }
    let patch = Patch::read(request, resource)?;
    let mut patched = patch.apply(resource, current)?;
    let problem = match &patch {
        Patch::Strategic(_) => type_problem(&patched).or_else(|| from_unstructured::restore_scale(&mut patched).err()),
        Patch::Merge(_) | Patch::Json(_) => scale_problem(&patched),
    };
    if let Some(problem) = problem {
        if let Some(entries) = entries_of_scale(old) {
            patched["metadata"]["managedFields"] = entries;
        }
        return Err(StatusError::invalid_patch(patch.shown(&patched), &problem));
    }
    Ok(patched)
}

/// The error if a value cannot be decoded as a scale.
fn scale_problem(scale: &Value) -> Option<String> {
    type_problem(scale).or_else(|| struct_types::scale_type_error(scale))
}

fn type_problem(scale: &Value) -> Option<String> {
    let text = |field: &str| scale.get(field).and_then(Value::as_str).unwrap_or_default();
    admit::type_mismatch(SCALE_VERSION, "Scale", text("apiVersion"), text("kind"))
}

fn check_replicas(resource: &ResourceType, name: &str, replicas: i64) -> Result<(), StatusError> {
    if replicas >= 0 {
        return Ok(());
    }
    if resource.custom().is_some() {
        let error = FieldError::invalid(spec_path(resource), json!(replicas), "should be a non-negative integer");
        return Err(StatusError::invalid(resource, name, &[error]));
    }
    let error = FieldError::invalid("spec.replicas", json!(replicas), "must be greater than or equal to 0");
    Err(StatusError::invalid_kind("autoscaling", "Scale", name, &[error]))
}

/// The managed fields of the number of replicas, as a scale shows them.
fn entries_of_scale(object: &Value) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?.iter();
    let owning = entries.filter(|entry| entry["fieldsV1"]["f:spec"].get("f:replicas").is_some());
    let shown: Vec<Value> = owning
        .map(|entry| {
            let mut entry = entry.clone();
            entry["apiVersion"] = json!(SCALE_VERSION);
            entry["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
            entry
        })
        .collect();
    (!shown.is_empty()).then_some(Value::Array(shown))
}

/// Removes the time of scaling from the managed fields, as a real server does.
fn forget_time_of_scale(object: &mut Value) {
    let entries = object["metadata"].get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if entry["subresource"] == SCALE
            && let Some(entry) = entry.as_object_mut()
        {
            entry.shift_remove("time");
        }
    }
}

/// The scale of an object.
fn scale_of(resource: &ResourceType, object: &Value) -> Result<Value, StatusError> {
    let mut scale = bare(object);
    let find = |path: &str| JsonPath::parse(path).and_then(|path| path.find(object).cloned());
    let (status_path, selector) = match resource.custom().and_then(|custom| custom.scale.as_ref()) {
        Some(paths) => {
            let selector = paths.label_selector.as_deref().and_then(find);
            (paths.status_replicas.clone(), selector.and_then(|selector| selector.as_str().map(str::to_owned)))
        }
        None => (".status.replicas".into(), Some(selector_text(&object["spec"]["selector"]))),
    };
    let spec_path = spec_path(resource);
    let replicas = find(&spec_path)
        .and_then(|value| value.as_i64())
        .ok_or_else(|| StatusError::internal(format!("the spec replicas field {spec_path:?} does not exist")))?;
    scale["spec"] = match replicas {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    scale["status"] = json!({"replicas": find(&status_path).and_then(|value| value.as_i64()).unwrap_or_default()});
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = json!(selector);
    }
    Ok(scale)
}

/// A scale without numbers.
fn bare(object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {}, "status": {"replicas": 0}})
}

fn spec_path(resource: &ResourceType) -> String {
    let custom = resource.custom().and_then(|custom| custom.scale.as_ref());
    custom.map_or_else(|| ".spec.replicas".to_owned(), |paths| paths.spec_replicas.clone())
}

fn put(object: &mut Value, path: &str, value: Value) {
    let Some(path) = JsonPath::parse(path) else { return };
    let mut object_key = object;
    for name in path.fields().unwrap_or_default() {
        if !object_key.is_object() {
            *object_key = json!({});
        }
        object_key = &mut object_key[name];
    }
    *object_key = value;
}

/// A label selector in the syntax of query parameters.
fn selector_text(selector: &Value) -> String {
    let labels = match selector.get("matchLabels") {
        Some(labels) => labels,
        None if selector.get("matchExpressions").is_none() => selector,
        None => &Value::Null,
    };
    let mut terms: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort();
    terms.join(",")
}
