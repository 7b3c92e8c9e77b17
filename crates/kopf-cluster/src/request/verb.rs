//! The verb of a request, as discovery and roles call it.

use http::Method;

use super::Request;
use super::routes::ObjectRoute;

/// The verb as discovery calls it.
pub fn verb_of(request: &Request, route: &ObjectRoute) -> Option<&'static str> {
    let watching = route.watching || (route.name.is_none() && request.query.flag("watch"));
    // Objects are created in a namespace, not over all of them.
    let everywhere = route.resource.namespaced && route.namespace.is_none();
    match (&request.method, &route.name, &route.subresource) {
        (&Method::GET, _, None) if watching => Some("watch"),
        (&Method::GET, None, None) => Some("list"),
        (&Method::GET, Some(_), _) => Some("get"),
        (&Method::POST, None, None) if !everywhere || route.resource.is_review() => Some("create"),
        (&Method::POST, Some(_), Some(_)) => Some("create"),
        (&Method::PUT, Some(_), _) => Some("update"),
        (&Method::PATCH, Some(_), _) => Some("patch"),
        (&Method::DELETE, Some(_), None) => Some("delete"),
        (&Method::DELETE, None, None) if !everywhere => Some("deletecollection"),
        _ => None,
    }
}
