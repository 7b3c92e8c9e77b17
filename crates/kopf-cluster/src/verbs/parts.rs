//! Other subresources of built-in kinds: bindings, evictions, finalizers of namespaces, tokens.

use std::sync::Arc;

use jiff::ToSpan;
use serde_json::{Value, json};

use super::create::token_request;
use super::delete::{DeleteOptions, delete_object, finish_if_released};
use super::eviction;
use super::update::write_if_unchanged;
use crate::admit;
use crate::publish::render::{Renderer, decode};
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::store::ObjectKey;
use crate::support::clock::timestamp;

pub(super) fn answer(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let resource = &route.resource;
    let name = route.name.as_deref().unwrap_or_default();
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let stored = state.get(resource, &object_key).ok_or_else(|| StatusError::not_found(resource, name))?;
    let success = || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    match (resource.plural.as_str(), route.subresource.as_deref().unwrap_or_default()) {
        ("namespaces", "finalize") => {
            let sent = admit::decode(request, resource)?;
            let written = write_if_unchanged(state, resource, &object_key, false, |old| {
                let mut next = old.clone();
                next["spec"]["finalizers"] = sent["spec"]["finalizers"].clone();
                Ok(next)
            })?;
            finish_if_released(state, resource, &object_key);
            let mut written = written.into_value(resource);
            if written["spec"]["finalizers"].is_null() {
                written["spec"] = json!({});
            }
            let renderer = Renderer { resource, representation: request.representation()?, now: state.now() };
            Ok(Response::bytes(200, renderer.value(written).into()))
        }
        ("pods", "eviction") => {
            let sent = admit::decode(request, resource)?;
            let grace = sent["deleteOptions"]["gracePeriodSeconds"].as_i64();
            let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
            eviction::take_from_budgets(state, &stored)?;
            delete_object(state, resource, &object_key, &options)?;
            Ok(Response::json(201, &success()))
        }
        ("pods", "binding") => {
            let sent = admit::decode(request, resource)?;
            let node = sent["target"]["name"].clone();
            let now = timestamp(state.now());
            write_if_unchanged(state, resource, &object_key, false, |old| bind(old, &node, &now))?;
            Ok(Response::json(201, &success()))
        }
        ("pods", "log") => Ok(Response::text(200, "")),
        ("serviceaccounts", "token") => {
            let account = decode(resource, &stored);
            let now = state.now();
            let expires = timestamp(now.checked_add(1.hour()).unwrap_or(now));
            // The cluster never checks tokens of service accounts; this one only has to be unique.
            let token = format!("embedded.{}", state.randomness().uid());
            Ok(Response::json(201, &token_request(route, &account, timestamp(now), expires, &token)))
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn bind(pod: &Value, node: &Value, now: &str) -> Result<Value, StatusError> {
    let mut bound = pod.clone();
    bound["spec"]["nodeName"] = node.clone();
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let mut conditions = bound["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|known| known["type"] != "PodScheduled");
    conditions.push(condition);
    bound["status"]["conditions"] = Value::Array(conditions);
    Ok(bound)
}
