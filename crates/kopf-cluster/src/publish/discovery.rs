//! Discovery: groups, versions and resources, in both formats.
//!
//! Built-in groups are served as captured; the groups of CRDs are put beside them, live.

use http::header;
use serde_json::{Value, json};

use crate::catalog::{Catalog, ResourceType};
use crate::request::Response;
use crate::request::status::StatusError;
use crate::support::capture;

/// What discovery comes in.
const DISCOVERY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The media type of aggregated discovery, by which clients ask for it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The versions of the core group.
pub(crate) fn core_versions(accept: &str, address: &str) -> Response {
    if wants_aggregated(accept) {
        return aggregated_answer(&capture::discovery("aggregatedApi"));
    }
    let mut versions = capture::discovery("api");
    versions["serverAddressByClientCIDRs"] = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    Response::json(200, &versions)
}

/// All named groups.
pub(crate) fn groups(catalog: &Catalog, accept: &str) -> Response {
    if wants_aggregated(accept) {
        let mut list = capture::discovery("aggregatedApis");
        if let Some(items) = list["items"].as_array_mut() {
            items.extend(catalog.custom_groups().iter().map(|(group, versions)| aggregated(catalog, group, versions)));
        }
        return aggregated_answer(&list);
    }
    let mut list = capture::discovery("apis");
    if let Some(groups) = list["groups"].as_array_mut() {
        groups.extend(catalog.custom_groups().iter().map(|(group, versions)| custom_group(group, versions)));
    }
    Response::json(200, &list)
}

/// One named group.
pub(crate) fn group(catalog: &Catalog, name: &str) -> Option<Response> {
    let mut group = match catalog.custom_groups().get(name) {
        Some(versions) => custom_group(name, versions),
        None => {
            let groups = capture::discovery("apis");
            groups["groups"].as_array()?.iter().find(|group| group["name"] == name)?.clone()
        }
    };
    let mut typed = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(typed), Some(fields)) = (typed.as_object_mut(), group.as_object_mut()) {
        typed.extend(std::mem::take(fields));
    }
    Some(Response::json(200, &typed))
}

/// The resources of a version of a group.
pub(crate) fn resources(catalog: &Catalog, group: &str, version: &str) -> Response {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    if !catalog.custom_groups().contains_key(group)
        && let Some(list) = capture::discovery("resources").get(&group_version)
    {
        return Response::json(200, list);
    }
    let resources: Vec<Value> =
        catalog.in_version(group, version).into_iter().flat_map(|resource| legacy_resources(resource)).collect();
    Response::json(
        200,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

/// All paths of the server.
pub(crate) fn root(catalog: &Catalog) -> Response {
    let mut root = capture::discovery("root");
    if let Some(paths) = root["paths"].as_array_mut() {
        for (group, versions) in catalog.custom_groups() {
            paths.push(json!(format!("/apis/{group}")));
            paths.extend(versions.iter().map(|version| json!(format!("/apis/{group}/{version}"))));
        }
        paths.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    }
    Response::json(200, &root)
}

fn aggregated_answer(list: &Value) -> Response {
    let answer = Response::json(200, list).with_type(AGGREGATED);
    answer.with_header(header::CACHE_CONTROL, "public").with_header(header::VARY, "Accept")
}

/// Rejects media types that discovery does not support.
pub(crate) fn check_accepted(accept: &str) -> Result<(), StatusError> {
    let readable = |entry: &str| {
        let mut parts = entry.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let plain = parts.all(|part| !part.starts_with("as="));
        media_type == "*/*"
            || (plain && (media_type == "application/*" || DISCOVERY_TYPES.split(", ").any(|sent| sent == media_type)))
            || wants_aggregated(entry)
    };
    match accept.trim().is_empty() || accept.split(',').any(readable) {
        true => Ok(()),
        false => Err(StatusError::not_acceptable(DISCOVERY_TYPES)),
    }
}

fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').next().is_some_and(|first| {
        let part = |wanted: &str| first.split(';').any(|part| part.trim() == wanted);
        part("as=APIGroupDiscoveryList") && part("g=apidiscovery.k8s.io") && part("v=v2")
    })
}

fn custom_group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "preferredVersion": all.first(), "versions": all})
}

fn legacy_resources(resource: &ResourceType) -> Vec<Value> {
    let mut main = json!({"name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
    put_names(&mut main, resource);
    main["storageVersionHash"] = json!(storage_hash(resource));
    let mut all = vec![main];
    for part in &resource.subresources {
        let mut entry = json!({"name": format!("{}/{}", resource.plural, part.name), "singularName": "",
            "namespaced": resource.namespaced});
        if part.group != resource.group {
            entry["group"] = json!(part.group);
            entry["version"] = json!(part.version);
        }
        entry["kind"] = json!(part.kind);
        entry["verbs"] = json!(part.verbs);
        all.push(entry);
    }
    all
}

fn put_names(entry: &mut Value, resource: &ResourceType) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

/// A hash of the kind and the storage version.
fn storage_hash(resource: &ResourceType) -> String {
    use base64::Engine;
    let version = resource.custom().map_or(&resource.version, |custom| &custom.storage_version);
    let kind = format!("{}/{version}/{}", resource.group, resource.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, kind.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}

fn aggregated(catalog: &Catalog, group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                catalog.in_version(group, version).into_iter().map(|resource| aggregated_resource(resource)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": {"name": group}, "versions": versions})
}

fn aggregated_resource(resource: &ResourceType) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    put_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let parts: Vec<Value> = resource
            .subresources
            .iter()
            .map(|part| {
                json!({"subresource": part.name, "verbs": part.verbs,
                    "responseKind": {"group": part.group, "version": part.version, "kind": part.kind}})
            })
            .collect();
        entry["subresources"] = json!(parts);
    }
    entry
}
