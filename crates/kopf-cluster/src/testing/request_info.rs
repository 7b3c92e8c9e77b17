//! What the server knows about a request before it responds. Faults match by it, counts are kept by it.

use crate::catalog::Verb;
use crate::request::routes::{ObjectRoute, Route, RouteError};
use crate::request::{Request, verb_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// None if no resource supports the request.
    pub verb: Option<Verb>,
    /// `pods`, without the group; a path such as `/version` if it is not about objects.
    pub plural: String,
    /// Empty for the core group.
    pub group: String,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub user_agent: String,
}

impl RequestInfo {
    pub(crate) fn new(request: &Request, route: &Result<Route, RouteError>) -> Self {
        match route {
            Ok(Route::Objects(route)) => Self::of_objects(request, route),
            Ok(_) => {
                let first = request.path.trim_start_matches('/').split('/').next().unwrap_or_default();
                Self { verb: Some(Verb::Get), plural: format!("/{first}"), ..Self::of_client(request) }
            }
            // Clients can request anything; that must not fill the counts.
            Err(_) => Self { verb: Some(Verb::Get), plural: "/unknown".into(), ..Self::of_client(request) },
        }
    }

    pub(crate) fn of_objects(request: &Request, route: &ObjectRoute) -> Self {
        Self {
            verb: verb_of(request, route),
            plural: route.resource.plural.clone(),
            group: route.resource.group.clone(),
            subresource: route.subresource.clone(),
            namespace: route.namespace.clone(),
            name: route.name.clone(),
            ..Self::of_client(request)
        }
    }

    fn of_client(request: &Request) -> Self {
        Self { user_agent: request.user_agent().to_owned(), ..Self::default() }
    }

    /// As in roles: `get`, `list`, …; empty if no resource supports the request.
    pub(crate) fn verb_name(&self) -> &'static str {
        self.verb.map_or("", Verb::name)
    }

    /// `deployments.apps/scale`, or a path such as `/version`.
    pub(crate) fn resource(&self) -> String {
        let mut text = self.plural.clone();
        for (separator, part) in [('.', self.group.as_str()), ('/', self.subresource.as_deref().unwrap_or_default())] {
            if !part.is_empty() {
                text.push(separator);
                text.push_str(part);
            }
        }
        text
    }
}
