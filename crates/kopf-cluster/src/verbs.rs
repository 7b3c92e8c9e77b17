//! The verbs of the API: one file per verb, all of one shape.
//!
//! `http/service.rs` passes every request for objects to [`answer`]. A verb is a synchronous function from the
//! state, the request and its route to a response or an error; only watches go on afterwards.

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

use crate::catalog::Verb;
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response, representation, verb_of};
use crate::state::State;
use crate::values::names::{NameRule, check_name};

pub(crate) use create::create_object;
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete_object, finish_if_released};
pub(crate) use update::write_if_unchanged;

/// Executes the verb of a request, and warns of deprecated resources.
pub(crate) fn answer(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let deprecation = match (route.resource.api_version(), route.resource.plural.as_str()) {
        ("v1", "endpoints") => "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ("v1", "componentstatuses") => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return act(state, request, route),
    };
    let verb = verb_of(request, route);
    let mut answer = act(state, request, route).unwrap_or_else(Response::from);
    // A client that accepts none of the possible representations gets no warning.
    if verb.is_some() && representation::check_representation(request.accept(), verb == Some(Verb::Watch)).is_ok() {
        answer.warnings.insert(0, deprecation.to_owned());
    }
    Ok(answer)
}

fn act(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let verb = verb_of(request, route).ok_or_else(StatusError::method_not_allowed)?;
    if route.resource.custom().is_none() {
        representation::check_representation(request.accept(), verb == Verb::Watch)?;
    }
    if verb == Verb::Watch {
        representation::check_stream(request.accept())?;
    }
    // Replacing compares the name with that of the object, and finds another problem.
    if let Some(name) = route.name.as_deref().filter(|_| verb != Verb::Update)
        && let Some(problem) = check_name(NameRule::PathSegment, name, false).first()
    {
        return Err(StatusError::bad_request(format!("Name parameter invalid: \"{name}\": {problem}")));
    }
    if matches!(verb, Verb::Get | Verb::List) {
        representation::check_partial(request.accept(), &route.resource, verb == Verb::List)?;
    }
    if let Some(name) = &route.subresource {
        let object = route.name.as_deref().unwrap_or_default();
        let part = route.resource.subresource(name).ok_or_else(|| StatusError::not_found(&route.resource, object))?;
        // Creating a binding or a token is a POST to a part, which discovery calls "create".
        if !part.verbs.contains(&verb) {
            return Err(StatusError::method_not_allowed());
        }
        return match name.as_str() {
            "status" => match verb {
                Verb::Get => read::get(state, request, route),
                Verb::Update => update::update(state, request, route),
                _ => patch::patch(state, request, route),
            },
            "scale" => scale::scale(state, request, route, verb),
            _ => parts::answer(state, request, route),
        };
    }
    if !route.resource.allows(verb) {
        return Err(StatusError::method_not_allowed());
    }
    if route.resource.is_review() {
        return reviews::answer(state, request, route);
    }
    match verb {
        Verb::Get => read::get(state, request, route),
        Verb::List => read::list(state, request, route),
        Verb::Watch => read::watch(state, request, route),
        Verb::Create => create::create(state, request, route),
        Verb::Update => update::update(state, request, route),
        Verb::Patch => patch::patch(state, request, route),
        Verb::Delete => delete::delete(state, request, route),
        Verb::DeleteCollection => delete::delete_collection(state, request, route),
    }
}
