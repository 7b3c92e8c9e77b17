//! Requests as they came, and what they are about.

use serde_json::Value;

use super::{DEFINITIONS, NAMESPACES, PEERINGS, THINGS};

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub body: Value,
    pub route: Route,
    /// Such as `list things`, `merge a`, `json a/status`, `post events`, `get /apis`.
    pub label: String,
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    Discovery,
    /// New events, of which nothing is kept.
    Events,
    List {
        collection: String,
        namespace: Option<String>,
    },
    Watch {
        collection: String,
        namespace: Option<String>,
    },
    Object {
        collection: String,
        namespace: Option<String>,
        name: String,
        subresource: Option<String>,
    },
}

impl Asked {
    pub(crate) fn new(method: &str, path: &str, query: &str, content_type: Option<&str>, body: &[u8]) -> Self {
        let route = route(path, query);
        let content_type = content_type.unwrap_or_default().to_owned();
        let patch = if content_type.contains("json-patch") { "json" } else { "merge" };
        let label = match &route {
            Route::Discovery => format!("get {path}"),
            Route::Events => "post events".to_owned(),
            Route::List { collection, .. } => format!("list {collection}"),
            Route::Watch { collection, .. } => format!("watch {collection}"),
            Route::Object { name, .. } if method == "GET" => format!("get {name}"),
            Route::Object { name, subresource: None, .. } => format!("{patch} {name}"),
            Route::Object { name, subresource: Some(subresource), .. } => format!("{patch} {name}/{subresource}"),
        };
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            content_type,
            body: serde_json::from_slice(body).unwrap_or_default(),
            route,
            label,
        }
    }

    /// The name of the object that the request is about.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.route {
            Route::Object { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

fn route(path: &str, query: &str) -> Route {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (namespace, rest) = match segments.as_slice() {
        ["api", "v1", "namespaces", _, "events"] => return Route::Events,
        ["apis", "g.io", "v1", "namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        ["apis", "g.io" | "kopf.dev", "v1", rest @ ..] => (None, rest),
        ["apis", "apiextensions.k8s.io", "v1", rest @ ..] | ["api", "v1", rest @ ..] => (None, rest),
        _ => return Route::Discovery,
    };
    match rest {
        [collection] if [THINGS, NAMESPACES, DEFINITIONS, PEERINGS].contains(collection) => {
            let collection = (*collection).to_owned();
            if query.contains("watch=true") {
                Route::Watch { collection, namespace }
            } else {
                Route::List { collection, namespace }
            }
        }
        [collection, name, subresource @ ..] => Route::Object {
            collection: (*collection).to_owned(),
            namespace,
            name: (*name).to_owned(),
            subresource: subresource.first().map(ToString::to_string),
        },
        _ => Route::Discovery,
    }
}
