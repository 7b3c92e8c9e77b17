//! The OpenAPI documents: captured for built-in kinds, made for custom ones.
//!
//! kubectl reads them for `explain` and for checking manifests before they are sent.

mod messages;
mod protobuf;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::header;
use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, ResourceType};
use crate::codec::json::to_bytes;
use crate::request::Response;
use crate::support::capture;

/// The media type of a version in protobuf, and how it was called before.
const PROTOBUF_V2: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
const PROTOBUF_V3: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// In what a document is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

/// The one document of version 2. Of custom kinds, it has the definitions.
pub(crate) fn version_2(catalog: &Catalog, accept: &str) -> Response {
    let name = "openapi/v2";
    let custom = || custom_resources(catalog, None).into_iter();
    let definitions = || custom().map(|resource| (definition_name(resource), schema_of(resource, "#/definitions/")));
    let is_captured = catalog.custom_groups().is_empty();
    by_encoding(match negotiate(accept, PROTOBUF_V2) {
        None => Response::empty(406),
        Some(Encoding::Protobuf) => {
            let mut document = capture::document(&format!("{name}.protobuf")).unwrap_or_default();
            if !is_captured {
                let added = protobuf::encode_definitions(definitions().collect());
                document = [document, added.into()].concat().into();
            }
            Response::bytes(200, document).with_type(PROTOBUF_V2[0])
        }
        Some(Encoding::Json) if is_captured => Response::bytes(200, capture::document(name).unwrap_or_default()),
        Some(Encoding::Json) => {
            let mut document = capture::value(name).map(|document| (*document).clone()).unwrap_or_default();
            if let Some(known) = document["definitions"].as_object_mut() {
                known.extend(definitions());
            }
            Response::json(200, &document)
        }
    })
}

fn by_encoding(answer: Response) -> Response {
    answer.with_header(header::VARY, "Accept-Encoding").with_header(header::VARY, "Accept")
}

/// What the client likes best of what can be sent; None if it reads nothing of it.
fn negotiate(accept: &str, protobuf: [&str; 2]) -> Option<Encoding> {
    let mut clauses: Vec<(&str, f64)> = accept
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok()).unwrap_or(1.0);
            (media_type, quality)
        })
        .collect();
    let specific = |media_type: &str| (!media_type.starts_with('*'), !media_type.ends_with('*'));
    clauses.sort_by(|(one, one_quality), (other, other_quality)| {
        other_quality.total_cmp(one_quality).then_with(|| specific(other).cmp(&specific(one)))
    });
    clauses.into_iter().find_map(|(media_type, _)| match media_type {
        "" | "*/*" | "application/*" | "application/json" => Some(Encoding::Json),
        known if protobuf.contains(&known) => Some(Encoding::Protobuf),
        _ => None,
    })
}

/// Where the documents of version 3 are.
pub(crate) fn version_3_index(catalog: &Catalog) -> Response {
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
    Response::json(200, &index).with_type("text/plain; charset=utf-8")
}

/// One document of version 3.
pub(crate) fn version_3(catalog: &Catalog, path: &str, accept: &str) -> Option<Response> {
    let by_type = |answer: Response| answer.with_header(header::VARY, "Accept");
    let in_protobuf =
        |document: &Value| Response::bytes(200, protobuf::encode(document).into()).with_type(PROTOBUF_V3[0]);
    let name = format!("openapi/v3/{path}");
    let Some(encoding) = negotiate(accept, PROTOBUF_V3) else { return Some(by_type(Response::empty(406))) };
    let captured = match encoding {
        Encoding::Json => capture::document(&name).map(|document| Response::bytes(200, document)),
        Encoding::Protobuf => capture::value(&name).map(|document| in_protobuf(&document)),
    };
    if let Some(answer) = captured {
        return Some(by_type(answer));
    }
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    catalog.custom_groups().get(group)?.iter().find(|known| *known == version)?;
    let document = custom_document(catalog, group, version);
    Some(by_type(match encoding {
        Encoding::Json => Response::json(200, &document),
        Encoding::Protobuf => in_protobuf(&document),
    }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_what_the_client_likes_best() {
        let [newer, older] = PROTOBUF_V3;
        for (accept, expected) in [
            (String::new(), Some(Encoding::Json)),
            ("*/*".to_owned(), Some(Encoding::Json)),
            ("application/*".to_owned(), Some(Encoding::Json)),
            (newer.to_owned(), Some(Encoding::Protobuf)),
            (older.to_owned(), Some(Encoding::Protobuf)),
            (format!("{older}, application/json"), Some(Encoding::Protobuf)),
            (format!("application/json;q=0.5,{older}"), Some(Encoding::Protobuf)),
            (format!("{older};q=0.5,application/json;q=0.9"), Some(Encoding::Json)),
            (format!("*/*, {older}"), Some(Encoding::Protobuf)),
            (format!("text/plain, {older};q=0.1"), Some(Encoding::Protobuf)),
            ("text/plain".to_owned(), None),
            (PROTOBUF_V2[0].to_owned(), None),
        ] {
            assert_eq!(negotiate(&accept, PROTOBUF_V3), expected, "{accept}");
        }
    }
}
