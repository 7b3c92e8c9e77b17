//! Routing: from the path of a request to the resource, the namespace, the name and the subresource.
//!
//! `http/service.rs` calls [`find`] for every request; the verbs work with the route.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::catalog::{Catalog, ResourceType};

/// What a path refers to.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// The list of all paths.
    Root,
    Version,
    /// `healthz`, `livez`, `readyz`, or one check of them.
    Health {
        endpoint: String,
        check: Option<String>,
    },
    /// The path exists, but the cluster exposes no metrics.
    Metrics,
    /// The versions of the core group.
    CoreVersions,
    /// All named groups.
    Groups,
    /// One named group.
    Group(String),
    /// The resources of a version of a group.
    Resources {
        group: String,
        version: String,
    },
    OpenApiV2,
    OpenApiV3Index,
    OpenApiV3(String),
    /// Objects.
    Objects(ObjectRoute),
}

/// A path to an object, a collection, or a subresource.
#[derive(Clone, Debug)]
pub(crate) struct ObjectRoute {
    pub resource: Arc<ResourceType>,
    /// None for cluster-scoped resources, and for all namespaces.
    pub namespace: Option<String>,
    /// None for collections.
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Whether the path itself asks for a watch, as in the deprecated `/watch/` paths.
    pub watching: bool,
}

/// Why a path refers to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RouteError {
    /// No path starts like that; the response is plain text.
    #[error("404 page not found")]
    NoSuchPath,
    /// The group exists, but not this version or resource of it; the response is a Status.
    #[error("the server could not find the requested resource")]
    NoSuchResource,
}

/// Finds the route of a path.
pub(crate) fn find(catalog: &Catalog, path: &str) -> Result<Route, RouteError> {
    if path.starts_with("//") {
        return Err(RouteError::NoSuchPath);
    }
    // An encoded slash separates segments like any other slash.
    let path = percent_decode_str(path).decode_utf8_lossy();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        [""] => Ok(Route::Root),
        ["version"] => Ok(Route::Version),
        ["metrics"] => Ok(Route::Metrics),
        ["openapi", "v2"] => Ok(Route::OpenApiV2),
        ["openapi", "v3"] if path.ends_with('/') => Ok(Route::OpenApiV3(String::new())),
        ["openapi", "v3"] => Ok(Route::OpenApiV3Index),
        ["openapi", "v3", rest @ ..] => Ok(Route::OpenApiV3(rest.join("/"))),
        [endpoint @ ("healthz" | "livez" | "readyz"), rest @ ..] => {
            let check = (!rest.is_empty()).then(|| rest.join("/"));
            Ok(Route::Health { endpoint: (*endpoint).to_owned(), check })
        }
        ["api"] => Ok(Route::CoreVersions),
        ["apis"] => Ok(Route::Groups),
        ["api", version] => resources(catalog, "", version),
        ["api", version, rest @ ..] => objects(catalog, "", version, rest),
        ["apis", group, ..] if !catalog.has_group(group) => Err(RouteError::NoSuchPath),
        ["apis", group] => Ok(Route::Group((*group).to_owned())),
        // Another handler serves the groups of CRDs; it knows no other versions.
        ["apis", group, version] if catalog.custom_groups().contains_key(*group) => {
            resources(catalog, group, version).map_err(|_| RouteError::NoSuchPath)
        }
        ["apis", group, version] => resources(catalog, group, version),
        ["apis", group, version, rest @ ..] => objects(catalog, group, version, rest),
        _ => Err(RouteError::NoSuchPath),
    }
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Result<Route, RouteError> {
    match catalog.in_version(group, version).is_empty() {
        true => Err(RouteError::NoSuchResource),
        false => Ok(Route::Resources { group: group.to_owned(), version: version.to_owned() }),
    }
}

fn objects(catalog: &Catalog, group: &str, version: &str, rest: &[&str]) -> Result<Route, RouteError> {
    let (watching, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // Namespaces have subresources; all other paths below them are resources in them.
        ["namespaces", namespace, rest @ ..]
            if rest.first().is_some_and(|part| !(group.is_empty() && matches!(*part, "status" | "finalize"))) =>
        {
            // An empty name stands for all namespaces.
            (Some((*namespace).to_owned()).filter(|namespace| !namespace.is_empty()), rest)
        }
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some((*name).to_owned()), None),
        [plural, name, subresource] => (plural, Some((*name).to_owned()), Some((*subresource).to_owned())),
        // Everything behind a proxy belongs to the proxied path; this server has no proxies.
        _ => return Err(RouteError::NoSuchResource),
    };
    let resource = catalog.get(group, version, plural).ok_or(RouteError::NoSuchResource)?;
    let out_of_scope = matches!((resource.namespaced, &namespace, &name), (true, None, Some(_)) | (false, Some(_), _));
    // Custom resources report a missing subresource later.
    let known_part =
        subresource.as_ref().is_none_or(|name| resource.custom().is_some() || resource.subresource(name).is_some());
    match !out_of_scope && known_part {
        true => {
            Ok(Route::Objects(ObjectRoute { resource: Arc::clone(resource), namespace, name, subresource, watching }))
        }
        false => Err(RouteError::NoSuchResource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_objects() {
        let catalog = Catalog::built_in();
        for (path, expected) in [
            ("/api/v1/pods", "pods None None None"),
            ("/api/v1/namespaces", "namespaces None None None"),
            ("/api/v1/namespaces/a", "namespaces None Some(\"a\") None"),
            ("/api/v1/namespaces/a/status", "namespaces None Some(\"a\") Some(\"status\")"),
            ("/api/v1/namespaces/a/pods", "pods Some(\"a\") None None"),
            ("/api/v1/namespaces/a/pods/b", "pods Some(\"a\") Some(\"b\") None"),
            ("/api/v1/namespaces/a/pods/b/status", "pods Some(\"a\") Some(\"b\") Some(\"status\")"),
            ("/apis/apps/v1/namespaces/a/deployments/b%2Dc", "deployments.apps Some(\"a\") Some(\"b-c\") None"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax",
                "clusterroles.rbac.authorization.k8s.io None Some(\"system:x\") None",
            ),
        ] {
            match find(&catalog, path) {
                Ok(Route::Objects(route)) => {
                    let found = format!(
                        "{} {:?} {:?} {:?}",
                        route.resource.qualified(),
                        route.namespace,
                        route.name,
                        route.subresource
                    );
                    assert_eq!(found, expected, "{path}");
                }
                other => panic!("{path} leads to {other:?}"),
            }
        }
    }

    #[test]
    fn other_paths_lead_nowhere() {
        let catalog = Catalog::built_in();
        for (path, expected) in [
            ("/nope", RouteError::NoSuchPath),
            ("/apis/nope.example.com/v1/foos", RouteError::NoSuchPath),
            ("/apis/nope.example.com", RouteError::NoSuchPath),
            ("/apis/apps/v9/deployments", RouteError::NoSuchResource),
            ("/api/v1/foos", RouteError::NoSuchResource),
            ("/api/v1/namespaces/a/configmaps/b/status", RouteError::NoSuchResource),
            ("/api/v1/namespaces/a/nodes", RouteError::NoSuchResource),
        ] {
            assert_eq!(find(&catalog, path).err(), Some(expected), "{path}");
        }
    }
}
