//! Gets, lists and watches objects.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::fields;
use super::watch::{self, Start, WatchRequest};
use crate::codec::json;
use crate::publish::render::{ListMeta, Renderer, error_event};
use crate::request::query::{ListOptions, VersionMatch, version_of};
use crate::request::routes::ObjectRoute;
use crate::request::status::StatusError;
use crate::request::{Request, Response, representation};
use crate::state::State;
use crate::store::{ObjectKey, StoreError, Stored};
use crate::testing::RequestInfo;
use crate::values::selector::FieldTerm;
use crate::webhooks::Converter;

/// Gets one object.
pub(super) fn get(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let name = route.name.as_deref().unwrap_or_default();
    check_not_in_future(state, version_of(&request.query)?)?;
    let object_key = ObjectKey::new(route.namespace.as_deref().unwrap_or_default(), name);
    let stored =
        state.get(&route.resource, &object_key).ok_or_else(|| StatusError::not_found(&route.resource, name))?;
    let renderer = Renderer { resource: &route.resource, representation, now: state.now() };
    let shown = converted(state, request, route, &[stored])?;
    let shown = shown.first().ok_or_else(|| StatusError::not_found(&route.resource, name))?;
    Ok(Response::bytes(200, renderer.object(shown).into()))
}

/// Lists the objects of one namespace, or of all.
pub(super) fn list(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let options = ListOptions::parse(&request.query, false)?;
    fields::check(&route.resource, &options.selectors)?;
    let page = page(state, route, &options)?;
    let renderer = Renderer { resource: &route.resource, representation, now: state.now() };
    let objects = converted(state, request, route, &page.objects)?;
    Ok(Response::bytes(200, renderer.list(&objects, &page.meta)))
}

/// Watches the objects of one namespace, or of all.
pub(super) fn watch(state: &Arc<State>, request: &Request, route: &ObjectRoute) -> Result<Response, StatusError> {
    let representation = request.representation()?;
    let mut options = ListOptions::parse(&request.query, true)?;
    if representation::asks_for_list(request.accept()) {
        // No event is a list, so the stream is empty.
        return Ok(Response::stream(futures::stream::empty()));
    }
    if let Some(name) = &route.name {
        let term = FieldTerm { field: "metadata.name".into(), value: name.clone(), equal: true };
        options.selectors.fields.terms.push(term);
    }
    fields::check(&route.resource, &options.selectors)?;
    let start = match (options.send_initial_events, options.version) {
        (Some(true), _) => Start::Everything { announce_end: options.bookmarks },
        (Some(false), None) => Start::After(state.store().version()),
        (None, None | Some(0)) => Start::Everything { announce_end: false },
        (_, Some(version)) => Start::After(version),
    };
    let watching = WatchRequest {
        info: RequestInfo::of_objects(request, route),
        resource: Arc::clone(&route.resource),
        namespace: route.namespace.clone(),
        selectors: options.selectors,
        representation,
        start,
        bookmarks: options.bookmarks,
        timeout: options.timeout_seconds.map(Duration::from_secs).or(Some(state.options.watch_timeout)),
    };
    match watch::check(state, &watching) {
        Ok(()) => Ok(Response::stream(watch::stream(Arc::clone(state), watching))),
        Err(status_error) => {
            let line = error_event(&status_error.to_value()).into();
            Ok(Response::stream(futures::stream::once(async move { Ok(line) })))
        }
    }
}

/// Stored objects in the version of the request.
fn converted(
    state: &State,
    request: &Request,
    route: &ObjectRoute,
    objects: &[Arc<Stored>],
) -> Result<Vec<Arc<Stored>>, StatusError> {
    Converter { state, replay: &request.replay }.stored(&route.resource, objects)
}

/// One page of a list.
struct Page {
    objects: Vec<Arc<Stored>>,
    meta: ListMeta,
}

/// Where a list goes on; clients send it back unchanged.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    #[serde(rename = "v")]
    api_version: String,
    /// The version of the whole list; -1 to continue with the current objects.
    #[serde(rename = "rv", default)]
    version: i64,
    /// The key after which the next page starts, with a zero byte at its end.
    #[serde(default)]
    start: String,
}

fn page(state: &State, route: &ObjectRoute, options: &ListOptions) -> Result<Page, StatusError> {
    let resource = &route.resource.storage;
    let namespace = route.namespace.as_deref();
    check_not_in_future(state, options.version)?;
    let token = options.continue_token.as_deref().map(|token| decode_token(token, namespace)).transpose()?;
    if token.is_some() && options.version.is_some_and(|version| version != 0) {
        return Err(StatusError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let (objects, version) = {
        let store = state.store();
        let current = store.version();
        match (&token, options.version, options.version_match, options.limit) {
            (Some((version, after)), ..) if *version > 0 => {
                let version = version.unsigned_abs();
                let objects = store.list_at(resource, namespace, Some(after), version);
                (objects.map_err(|_| expired_token(after, namespace))?, version)
            }
            (Some((_, after)), ..) => (store.list(resource, namespace, Some(after)), current),
            (None, Some(version @ 1..), Some(VersionMatch::Exact), _) | (None, Some(version @ 1..), None, Some(_)) => {
                let objects = store.list_at(resource, namespace, None, version).map_err(too_old)?;
                (objects, version)
            }
            _ => (store.list(resource, namespace, None), current),
        }
    };
    let mut objects = objects;
    if !options.selectors.is_empty() {
        objects.retain(|stored| fields::selects(&options.selectors, stored));
    }
    let mut meta = ListMeta { version, ..ListMeta::default() };
    // A list of any version comes from the memory of the server, which knows no pages.
    let limit = options.limit.filter(|_| token.is_some() || options.version != Some(0));
    if let Some(limit) = limit.filter(|limit| objects.len() > *limit) {
        let remaining = (objects.len() - limit) as u64;
        objects.truncate(limit);
        if let Some(last) = objects.last() {
            meta.continue_token = encode_token(version as i64, &last.object_key, namespace);
        }
        // With selectors, a real server does not know how many objects remain.
        meta.remaining = options.selectors.is_empty().then_some(remaining);
    }
    Ok(Page { objects, meta })
}

fn check_not_in_future(state: &State, version: Option<u64>) -> Result<(), StatusError> {
    let current = state.store().version();
    match version {
        Some(asked) if asked > current => Err(StatusError::too_large_version(asked, current)),
        _ => Ok(()),
    }
}

fn encode_token(version: i64, last: &ObjectKey, namespace: Option<&str>) -> String {
    let start = match namespace {
        None if !last.namespace.is_empty() => format!("{}/{}\0", last.namespace, last.name),
        _ => format!("/{}\0", last.name),
    };
    let token = ContinueToken { api_version: "meta.k8s.io/v1".into(), version, start };
    // The token is plain data, so its serialization cannot fail.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// The version of a token, and the key after which the next page starts.
fn decode_token(token: &str, namespace: Option<&str>) -> Result<(i64, ObjectKey), StatusError> {
    let refuse =
        |why: &str| StatusError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| refuse(&error.to_string()))?;
    let value = json::parse(&bytes).map_err(|problem| refuse(&problem))?;
    let token: ContinueToken = serde_json::from_value(value).map_err(|error| refuse(&error.to_string()))?;
    if token.api_version != "meta.k8s.io/v1" {
        return Err(refuse(&format!("server does not recognize this encoded version {}", token.api_version)));
    }
    if token.version == 0 {
        return Err(refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    if token.start.is_empty() {
        return Err(refuse("encoded start key empty (version meta.k8s.io/v1)"));
    }
    let start = token.start.trim_end_matches('\0');
    let object_key = match (namespace, start.trim_start_matches('/').split_once('/')) {
        (Some(namespace), None) => ObjectKey::new(namespace, start.trim_start_matches('/')),
        (None, Some((namespace, name))) => ObjectKey::new(namespace, name),
        (None, None) => ObjectKey::new("", start.trim_start_matches('/')),
        (Some(_), Some(_)) => return Err(refuse("encoded start key is not below the prefix")),
    };
    Ok((token.version, object_key))
}

fn expired_token(after: &ObjectKey, namespace: Option<&str>) -> StatusError {
    let mut status_error = StatusError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status_error.continue_token = Some(encode_token(-1, after, namespace));
    status_error
}

fn too_old(error: StoreError) -> StatusError {
    match error {
        StoreError::Compacted { .. } => StatusError::expired("The resourceVersion for the provided list is too old."),
        other => StatusError::internal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_to_their_places() {
        for (namespace, object_key) in
            [(None, ObjectKey::new("a", "x")), (Some("a"), ObjectKey::new("a", "x")), (None, ObjectKey::new("", "x"))]
        {
            let token = encode_token(7, &object_key, namespace);
            assert_eq!(decode_token(&token, namespace), Ok((7, object_key)), "{token}");
        }
        assert!(decode_token("abc", None).is_err());
        assert!(decode_token("????", None).is_err());
    }
}
