//! The OpenAPI documents: captured for built-in kinds, made for custom ones.
//!
//! kubectl reads them for `explain` and for checking manifests before they are sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::header;
use serde_json::{Map, Value, json};

use crate::capture;
use crate::catalog::{Catalog, ResourceType};
use crate::render::to_bytes;
use crate::request::Answer;

const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The one document of version 2. Custom kinds are a part of it as JSON only.
pub fn version_2(catalog: &Catalog, accept: &str) -> Answer {
    let protobuf = accept.split(',').next().is_some_and(|first| first.trim().starts_with(PROTOBUF_V2));
    if let Some(document) = capture::document("openapi/v2.protobuf").filter(|_| protobuf) {
        let answer = Answer::bytes(200, document).with_type(PROTOBUF_V2.replace('@', "."));
        return by_encoding(answer);
    }
    if !accepts_json(accept) {
        return by_encoding(Answer::empty(406));
    }
    if catalog.custom_groups().is_empty() {
        return by_encoding(Answer::bytes(200, capture::document("openapi/v2").unwrap_or_default()));
    }
    let mut document = capture::value("openapi/v2").map(|document| (*document).clone()).unwrap_or_default();
    if let Some(known) = document["definitions"].as_object_mut() {
        for resource in custom_resources(catalog, None) {
            known.insert(definition_name(resource), schema_of(resource, "#/definitions/"));
        }
    }
    by_encoding(Answer::json(200, &document))
}

fn by_encoding(answer: Answer) -> Answer {
    answer.with_header(header::VARY, "Accept-Encoding").with_header(header::VARY, "Accept")
}

fn accepts_json(accept: &str) -> bool {
    let is_json = |entry: &str| {
        matches!(entry.split(';').next().unwrap_or_default().trim(), "" | "*/*" | "application/*" | "application/json")
    };
    accept.split(',').any(is_json)
}

/// Where the documents of version 3 are.
pub fn version_3_index(catalog: &Catalog) -> Answer {
    let mut index = capture::discovery("openapiV3");
    for (group, versions) in catalog.custom_groups() {
        for version in versions {
            let mut hasher = DefaultHasher::new();
            to_bytes(&custom_document(catalog, group, version)).hash(&mut hasher);
            let path = format!("apis/{group}/{version}");
            let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
            index["paths"][path] = json!({"serverRelativeURL": url});
        }
    }
    Answer::json(200, &index).with_type("text/plain; charset=utf-8")
}

/// One document of version 3.
pub fn version_3(catalog: &Catalog, path: &str, accept: &str) -> Option<Answer> {
    let by_type = |answer: Answer| answer.with_header(header::VARY, "Accept");
    if !accepts_json(accept) {
        return Some(by_type(Answer::empty(406)));
    }
    if let Some(document) = capture::document(&format!("openapi/v3/{path}")) {
        return Some(by_type(Answer::bytes(200, document)));
    }
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let known = catalog.custom_groups().get(group)?.iter().any(|known| known == version);
    known.then(|| by_type(Answer::json(200, &custom_document(catalog, group, version))))
}

fn custom_resources<'a>(catalog: &'a Catalog, only: Option<(&str, &str)>) -> Vec<&'a ResourceType> {
    let groups = catalog.custom_groups().iter();
    groups
        .flat_map(|(group, versions)| versions.iter().map(move |version| (group.as_str(), version.as_str())))
        .filter(|place| only.is_none_or(|only| only == *place))
        .flat_map(|(group, version)| catalog.in_version(group, version))
        .filter(|resource| resource.custom().is_some())
        .map(|resource| &**resource)
        .collect()
}

/// The document of a version of a group of CRDs.
fn custom_document(catalog: &Catalog, group: &str, version: &str) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in custom_resources(catalog, Some((group, version))) {
        let name = definition_name(resource);
        schemas.insert(format!("{name}List"), list_schema(resource, &name));
        schemas.insert(name.clone(), schema_of(resource, "#/components/schemas/"));
        paths.extend(paths_of(resource, &name));
    }
    copy_meta_definitions(&mut schemas);
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, "paths": paths,
        "components": {"schemas": schemas}})
}

/// `com.example.v1.Widget` for `widgets.example.com` in `v1`.
fn definition_name(resource: &ResourceType) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), resource.version, resource.kind)
}

fn schema_of(resource: &ResourceType, references: &str) -> Value {
    let mut schema = resource.custom().map(|custom| custom.open_api_schema.clone()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    let known = described_definitions();
    let meta =
        known.as_ref().map(|document| &document["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"]["properties"]);
    let described = |field: &str| meta.map(|meta| meta[field].clone()).unwrap_or_default();
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = described("apiVersion");
    properties["kind"] = described("kind");
    properties["metadata"] = json!({
        "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        "allOf": [{"$ref": format!("{references}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")}],
    });
    if references == "#/definitions/" {
        properties["metadata"] =
            json!({"$ref": format!("{references}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")});
    }
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    schema
}

fn list_schema(resource: &ResourceType, name: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}},
            "metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"},
        },
        "x-kubernetes-group-version-kind":
            [{"group": resource.group, "version": resource.version, "kind": resource.list_kind}],
    })
}

/// The operations that clients look for: kubectl checks whether patches know `fieldValidation`.
fn paths_of(resource: &ResourceType, name: &str) -> Map<String, Value> {
    let base = match resource.namespaced {
        true => format!("/apis/{}/{}/namespaces/{{namespace}}/{}", resource.group, resource.version, resource.plural),
        false => format!("/apis/{}/{}/{}", resource.group, resource.version, resource.plural),
    };
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let operation = |action: &str, parameters: &[&str]| {
        json!({
            "operationId": format!("{action}{}", resource.kind),
            "parameters": parameters.iter().map(|name| parameter(name)).collect::<Vec<_>>(),
            "responses": {"200": {"description": "OK", "content": {
                "application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
        })
    };
    let writing = ["dryRun", "fieldManager", "fieldValidation"];
    let mut patch = operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]);
    let patch_body = json!({"schema": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}});
    patch["requestBody"] = json!({"content": {"application/json-patch+json": patch_body,
        "application/merge-patch+json": patch_body, "application/apply-patch+yaml": patch_body}});
    let mut paths = Map::new();
    paths.insert(
        base.clone(),
        json!({"get": operation("list", &["labelSelector", "fieldSelector", "limit", "continue"]),
            "post": operation("post", &writing), "delete": operation("deletecollection", &[])}),
    );
    paths.insert(
        format!("{base}/{{name}}"),
        json!({"get": operation("get", &[]), "put": operation("put", &writing), "patch": patch,
            "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"])}),
    );
    paths
}

/// The definitions of the core group, with descriptions.
fn described_definitions() -> Option<Arc<Value>> {
    capture::value("openapi/v3/api/v1")
}

/// The shared definitions that the others refer to.
fn copy_meta_definitions(schemas: &mut Map<String, Value>) {
    let Some(document) = described_definitions() else { return };
    for name in ["ObjectMeta", "ListMeta", "OwnerReference", "ManagedFieldsEntry", "FieldsV1", "Time", "Patch"] {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
        if let Some(schema) = document["components"]["schemas"].get(&name) {
            schemas.insert(name, schema.clone());
        }
    }
}
