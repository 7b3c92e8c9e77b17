//! Reviews: objects that clients create to ask a question; the server answers, and stores nothing.
//!
//! The owner of the token may do everything, so access is always allowed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admit;
use crate::admit::ownership::{self, Writer};
use crate::codec::json::to_bytes;
use crate::publish::render::put_type;
use crate::request::query::WriteOptions;
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::support::clock::timestamp;

pub(super) fn answer(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let resource = &route.resource;
    if resource.is("", "componentstatuses") {
        let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []});
        return Ok(Response::json(200, &list));
    }
    let mut value = admit::decode(request, resource)?;
    admit::check_type(resource, &mut value, &request.body)?;
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    if resource.plural != "selfsubjectrulesreviews" && resource.plural != "selfsubjectreviews" {
        let writer = Writer::of(request, &WriteOptions::parse(&request.query, "CreateOptions")?, None);
        ownership::record(state, resource, &writer, None, &mut value)?;
    }
    let user = json!({"username": request.user.name, "uid": request.user.name, "groups": request.user.groups});
    value["status"] = match resource.plural.as_str() {
        "selfsubjectrulesreviews" => {
            value["spec"] = json!({});
            rules()
        }
        "selfsubjectreviews" => {
            value["metadata"]["creationTimestamp"] = json!(timestamp(state.now()));
            json!({"userInfo": user})
        }
        "tokenreviews" => match state.options.token.as_deref() == value["spec"]["token"].as_str() {
            true => json!({"authenticated": true, "user": user, "audiences": ["https://kubernetes.default.svc"]}),
            false => json!({"user": {}, "error": "invalid bearer token"}),
        },
        "bindings" => return Err(StatusError::method_not_allowed()),
        _ => json!({"allowed": true}),
    };
    put_type(&mut value, resource);
    Ok(Response::bytes(201, to_bytes(&value).into()))
}

fn rules() -> Value {
    json!({
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
             "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}],
        "nonResourceRules": [
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
            {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
             "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]}],
        "incomplete": false,
    })
}
