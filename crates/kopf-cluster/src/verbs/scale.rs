//! The scale of an object: its number of replicas, as a part of its own.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::patch::Patch;
use super::update::write_admitted;
use crate::admit::{self, Part};
use crate::catalog::ResourceType;
use crate::jsonpath::JsonPath;
use crate::ownership::Writer;
use crate::query::WriteOptions;
use crate::render::decode;
use crate::request::{Answer, Request};
use crate::routes::ObjectRoute;
use crate::state::State;
use crate::status::Refusal;
use crate::store::Place;
use crate::webhooks::Admission;

pub fn scale(state: &Arc<State>, request: &Request, route: &ObjectRoute, verb: &str) -> Result<Answer, Refusal> {
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let place = Place::new(route.namespace.as_deref().unwrap_or_default(), name);
    if verb == "get" {
        let stored = state.get(resource, &place).ok_or_else(|| Refusal::not_found(resource, name))?;
        let webhooks = state.webhooks();
        let shown = Admission::of(state, &webhooks, request, route, false).shown(&stored)?;
        return Ok(Answer::json(200, &scale_of(resource, &decode(resource, &shown))?));
    }
    let kind = if verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&request.query, kind)?;
    // Scaling a custom resource leaves no trace in a real server either.
    let writer = resource.custom().is_none().then(|| Writer::of(request, &options, Some("scale")));
    let replace = |old: &Value| -> Result<Value, Refusal> {
        match verb {
            "update" => admit::decode(request, resource),
            _ => {
                Patch::read(request, resource)?.apply(resource, &scale_of(resource, old).unwrap_or_else(|_| bare(old)))
            }
        }
    };
    let webhooks = state.webhooks();
    let admission = Admission::of(state, &webhooks, request, route, options.dry_run);
    let written = write_admitted(state, resource, &place, options.dry_run, Some(&admission), |old| {
        let mut wanted = replace(old)?;
        let version = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && old["metadata"]["resourceVersion"] != version {
            return Err(Refusal::modified(resource, name));
        }
        if admission.is_needed() {
            let current = scale_of(resource, old).unwrap_or_else(|_| bare(old));
            let basis = format!("scale/{}", current["metadata"]["resourceVersion"].as_str().unwrap_or_default());
            wanted = admission.mutate(&basis, wanted, Some(&current))?;
            let mut settled = current.clone();
            settled["spec"] = wanted["spec"].clone();
            admission.validate(&basis, &settled, Some(&current))?;
        }
        let mut next = old.clone();
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
        put(&mut next, &spec_path(resource), json!(replicas));
        admit::new_state(state, resource, Part::Main, old, next, writer.as_ref(), None)
    })?;
    Ok(Answer::json(200, &scale_of(resource, &written)?))
}

/// The scale that an object shows.
fn scale_of(resource: &ResourceType, object: &Value) -> Result<Value, Refusal> {
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
        .ok_or_else(|| Refusal::internal(format!("the spec replicas field {spec_path:?} does not exist")))?;
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
    let mut place = object;
    for name in path.fields().unwrap_or_default() {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

/// A selector of labels as text.
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
