//! Which verb a request is: the HTTP method, the path and `?watch` decide.

use http::Method;

use super::Request;
use super::routes::ObjectRoute;
use crate::catalog::Verb;

/// The verb of a request for objects; None if no resource allows such a request.
pub(crate) fn verb_of(request: &Request, route: &ObjectRoute) -> Option<Verb> {
    let watching = route.watching || (route.name.is_none() && request.query.flag("watch"));
    // Objects are created in a namespace, not over all of them.
    let everywhere = route.resource.namespaced && route.namespace.is_none();
    match (&request.method, &route.name, &route.subresource) {
        (&Method::GET, _, None) if watching => Some(Verb::Watch),
        (&Method::GET, None, None) => Some(Verb::List),
        (&Method::GET, Some(_), _) => Some(Verb::Get),
        (&Method::POST, None, None) if !everywhere || route.resource.is_review() => Some(Verb::Create),
        (&Method::POST, Some(_), Some(_)) => Some(Verb::Create),
        (&Method::PUT, Some(_), _) => Some(Verb::Update),
        (&Method::PATCH, Some(_), _) => Some(Verb::Patch),
        (&Method::DELETE, Some(_), None) => Some(Verb::Delete),
        (&Method::DELETE, None, None) if !everywhere => Some(Verb::DeleteCollection),
        _ => None,
    }
}
