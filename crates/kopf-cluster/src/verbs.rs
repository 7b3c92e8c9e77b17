//! What can be done with objects: one file per verb, all of one shape.
//!
//! `http/service.rs` hands every request for objects to [`answer`]. A verb is a plain function from the
//! state, the request and its route to an answer or a refusal; only watches live on afterwards.

mod reviews;
mod read;
mod watch;
mod fields;
mod create;
mod update;
mod patch;
mod delete;
mod scale;
mod parts;
mod eviction;
mod written;

use std::sync::Arc;

use crate::request::routes::ObjectRoute;
use crate::request::status::Refusal;
use crate::request::{Answer, Request, form, verb_of};
use crate::state::State;
use crate::values::names::{NameRule, check_name};

pub use create::create_object;
pub use delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete_object, finish_if_released};
pub use update::write_if_unchanged;

/// Does what a request asks for, and warns of what will not be there for long.
pub fn answer(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Answer, Refusal> {
    let deprecation = match (route.resource.api_version(), route.resource.plural.as_str()) {
        ("v1", "endpoints") => "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ("v1", "componentstatuses") => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return act(state, request, route),
    };
    let verb = verb_of(request, route);
    let mut answer = act(state, request, route).unwrap_or_else(Answer::from);
    // Whoever reads nothing of what could be sent, does not get that far.
    if verb.is_some() && form::check_representation(request.accept(), verb == Some("watch")).is_ok() {
        answer.warnings.insert(0, deprecation.to_owned());
    }
    Ok(answer)
}

fn act(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Answer, Refusal> {
    let verb = verb_of(request, route).ok_or_else(Refusal::method_not_allowed)?;
    if route.resource.custom().is_none() {
        form::check_representation(request.accept(), verb == "watch")?;
    }
    if verb == "watch" {
        form::check_stream(request.accept())?;
    }
    // Replacing compares the name with that of the object, and finds another problem.
    if let Some(name) = route.name.as_deref().filter(|_| verb != "update")
        && let Some(problem) = check_name(NameRule::PathSegment, name, false).first()
    {
        return Err(Refusal::bad_request(format!("Name parameter invalid: \"{name}\": {problem}")));
    }
    if matches!(verb, "get" | "list") {
        form::check_partial(request.accept(), &route.resource, verb == "list")?;
    }
    if let Some(name) = &route.subresource {
        let object = route.name.as_deref().unwrap_or_default();
        let part = route.resource.subresource(name).ok_or_else(|| Refusal::not_found(&route.resource, object))?;
        // Creating a binding or a token is a POST to a part, which discovery calls "create".
        if !part.verbs.iter().any(|allowed| allowed == verb) {
            return Err(Refusal::method_not_allowed());
        }
        return match name.as_str() {
            "status" => match verb {
                "get" => read::get(state, request, route),
                "update" => update::update(state, request, route),
                _ => patch::patch(state, request, route),
            },
            "scale" => scale::scale(state, request, route, verb),
            _ => parts::answer(state, request, route),
        };
    }
    if !route.resource.allows(verb) {
        return Err(Refusal::method_not_allowed());
    }
    if route.resource.is_review() {
        return reviews::answer(state, request, route);
    }
    match verb {
        "get" => read::get(state, request, route),
        "list" => read::list(state, request, route),
        "watch" => read::watch(state, request, route),
        "create" => create::create(state, request, route),
        "update" => update::update(state, request, route),
        "patch" => patch::patch(state, request, route),
        "delete" => delete::delete(state, request, route),
        _ => delete::delete_collection(state, request, route),
    }
}
