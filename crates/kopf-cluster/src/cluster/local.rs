//! The cluster for code in the same process: single requests, resources by the names that people use,
//! and manifests applied as by `kubectl apply --server-side`.
//!
//! The command line and the test helpers use it; Kubernetes clients use [`crate::Cluster::service`].

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tower_service::Service;

use super::Cluster;
use crate::catalog::{Catalog, ResourceType, version_priority};

/// The field manager of applied manifests.
const FIELD_MANAGER: &str = "kopf";

/// The characters that need no encoding in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A complete response.
#[derive(Clone, Debug)]
pub struct LocalResponse {
    pub code: u16,
    pub body: Bytes,
}

/// A served resource, and its API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
}

/// One applied object of a manifest.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Such as `deployments.apps/example in the namespace default`.
    pub what: String,
    pub created: bool,
    /// The object after the write.
    pub object: Value,
}

/// Why a manifest cannot be applied. All objects before the error are applied already.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is neither YAML nor JSON.
    #[error("the manifest cannot be read: {0}")]
    Syntax(String),
    /// A document is not an object with a kind and a name.
    #[error("document {number} of the manifest has no {field}")]
    Incomplete { number: usize, field: &'static str },
    /// The cluster does not serve the kind: its CRD is probably missing, or comes later.
    #[error("no such kind is served: {kind} of {api_version}")]
    UnknownKind { api_version: String, kind: String },
    /// The cluster rejects the object.
    #[error("{what}: {message}")]
    Refused { what: String, message: String },
}

impl Cluster {
    /// Sends one request and waits for the whole response. Watches do not work here: they do not end.
    pub async fn request(&self, method: http::Method, path: &str, content_type: &str, body: Bytes) -> LocalResponse {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .header(http::header::USER_AGENT, FIELD_MANAGER)
            .body(Full::new(body));
        let request = match request {
            Ok(request) => request,
            Err(error) => return LocalResponse { code: 400, body: Bytes::from(error.to_string()) },
        };
        // Only an injected fault cuts a connection or a response.
        let cut = |error: &dyn std::fmt::Display| LocalResponse { code: 502, body: Bytes::from(error.to_string()) };
        let response = match self.service().call(request).await {
            Ok(response) => response,
            Err(error) => return cut(&error),
        };
        let code = response.status().as_u16();
        match response.into_body().collect().await {
            Ok(body) => LocalResponse { code, body: body.to_bytes() },
            Err(error) => cut(&error),
        }
    }

    /// Finds a resource by its plural or singular name, its kind or a short name, with or without
    /// the group or the version: `deployments`, `deploy`, `Deployment`, `deployments.apps`,
    /// `deployments.v1.apps`, `apps/v1/deployments`.
    pub fn find_resource(&self, name: &str) -> Option<ServedResource> {
        find_resource(&self.state.catalog(), name).map(ServedResource::from)
    }

    /// Applies all objects of YAML or JSON documents in their order, and returns them.
    pub async fn apply(&self, manifest: &str, namespace: &str) -> Result<Vec<Applied>, ManifestError> {
        let mut applied = Vec::new();
        for (index, document) in read_documents(manifest)?.into_iter().enumerate() {
            applied.push(self.apply_object(index + 1, document, namespace).await?);
        }
        Ok(applied)
    }

    async fn apply_object(&self, number: usize, mut object: Value, namespace: &str) -> Result<Applied, ManifestError> {
        let text =
            |value: &Value, field| value.as_str().map(str::to_owned).ok_or(ManifestError::Incomplete { number, field });
        let api_version = text(&object["apiVersion"], "apiVersion")?;
        let kind = text(&object["kind"], "kind")?;
        let name = text(&object["metadata"]["name"], "metadata.name")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let catalog = self.state.catalog();
        let resource = catalog.in_version(group, version).into_iter().find(|resource| resource.kind == kind);
        let Some(resource) = resource.map(|resource| ServedResource::from(&**resource)) else {
            return Err(ManifestError::UnknownKind { api_version, kind });
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
        let what = match resource.namespaced {
            true => format!("{}/{name} in the namespace {namespace}", resource.qualified()),
            false => format!("{}/{name}", resource.qualified()),
        };
        // Objects read from one cluster can be applied to another.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !matches!(field.as_str(), "managedFields" | "resourceVersion" | "uid"));
        }
        let path = resource.path(Some(&namespace), Some(&name));
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        let body = Bytes::from(object.to_string());
        let answer = self.request(http::Method::PATCH, &path, "application/apply-patch+yaml", body).await;
        let object = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        match answer.code {
            200 | 201 => Ok(Applied { what, created: answer.code == 201, object }),
            _ => {
                let message = object["message"].as_str().map(str::to_owned);
                let message = message.unwrap_or_else(|| String::from_utf8_lossy(&answer.body).into_owned());
                Err(ManifestError::Refused { what, message })
            }
        }
    }
}

impl ServedResource {
    /// `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The path of an object or of the collection; the namespace is ignored for cluster-scoped kinds.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str(&format!("/namespaces/{}", utf8_percent_encode(namespace, SEGMENT)));
        }
        path.push_str(&format!("/{}", self.plural));
        if let Some(name) = name {
            path.push_str(&format!("/{}", utf8_percent_encode(name, SEGMENT)));
        }
        path
    }
}

impl From<&ResourceType> for ServedResource {
    fn from(resource: &ResourceType) -> Self {
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            kind: resource.kind.clone(),
            namespaced: resource.namespaced,
        }
    }
}

impl From<std::sync::Arc<ResourceType>> for ServedResource {
    fn from(resource: std::sync::Arc<ResourceType>) -> Self {
        Self::from(&*resource)
    }
}

fn find_resource(catalog: &Catalog, text: &str) -> Option<std::sync::Arc<ResourceType>> {
    if let Some((group_version, name)) = text.rsplit_once('/') {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let mut found = catalog.in_version(group, version).into_iter();
        return found.find(|resource| is_called(resource, name)).cloned();
    }
    let (name, rest) = text.split_once('.').unwrap_or((text, ""));
    let of_group = |resource: &ResourceType| {
        rest.is_empty()
            || rest == resource.group
            || rest.split_once('.').unwrap_or((rest, "")) == (&resource.version, &resource.group)
    };
    let mut found: Vec<_> =
        catalog.all().filter(|resource| is_called(resource, name) && of_group(resource)).cloned().collect();
    // As kubectl does: the core group first, then other built-in groups, then those of CRDs.
    found.sort_by_key(|resource| {
        let rank = if resource.group.is_empty() { 0 } else { 1 + u8::from(resource.custom().is_some()) };
        (rank, resource.group.clone(), std::cmp::Reverse(version_priority(&resource.version)))
    });
    found.into_iter().next()
}

fn is_called(resource: &ResourceType, name: &str) -> bool {
    resource.plural == name
        || resource.kind == name
        || resource.singular == name
        || resource.short_names.iter().any(|short| short == name)
}

/// All objects in all documents, with lists expanded.
fn read_documents(manifest: &str) -> Result<Vec<Value>, ManifestError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(manifest).map_err(|error| ManifestError::Syntax(error.to_string()))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            mut list if list["kind"] == "List" => match list["items"].take() {
                Value::Array(items) => objects.extend(items),
                _ => return Err(ManifestError::Syntax("a List without items".into())),
            },
            object => objects.push(object),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::options::Options;

    #[test]
    fn resources_have_many_names() {
        let catalog = Catalog::built_in();
        for (name, expected) in [
            ("deployments", Some("apps/v1 deployments")),
            ("deploy", Some("apps/v1 deployments")),
            ("Deployment", Some("apps/v1 deployments")),
            ("deployment.apps", Some("apps/v1 deployments")),
            ("deployments.v1.apps", Some("apps/v1 deployments")),
            ("apps/v1/deployments", Some("apps/v1 deployments")),
            ("v1/pods", Some("v1 pods")),
            ("events", Some("v1 events")),
            ("events.events.k8s.io", Some("events.k8s.io/v1 events")),
            ("crd", Some("apiextensions.k8s.io/v1 customresourcedefinitions")),
            ("hpa", Some("autoscaling/v2 horizontalpodautoscalers")),
            ("deployments.batch", None),
            ("nope", None),
        ] {
            let found = find_resource(&catalog, name);
            let found = found.map(|resource| format!("{} {}", resource.api_version(), resource.plural));
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn manifests_are_applied_in_their_order() {
        let cluster = Cluster::new(Options::default());
        let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: a}}\n\
                    - {apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: v}}\n";
        let applied = cluster.apply(text, "default").await.unwrap();
        let results: Vec<_> = applied.iter().map(|one| (one.what.as_str(), one.created)).collect();
        assert_eq!(
            results,
            [
                ("namespaces/a", true),
                ("configmaps/x in the namespace a", true),
                ("configmaps/x in the namespace default", true)
            ]
        );
        assert_eq!(applied[2].object["data"]["k"], "v");
        let again = cluster.apply(text, "default").await.unwrap();
        assert!(again.iter().all(|one| !one.created));
    }

    #[tokio::test]
    async fn flaws_of_manifests_are_named() {
        let cluster = Cluster::new(Options::default());
        for (text, expected) in [
            ("kind: ConfigMap", "document 1 of the manifest has no apiVersion"),
            ("{apiVersion: v1, kind: ConfigMap}", "document 1 of the manifest has no metadata.name"),
            ("{apiVersion: a/v1, kind: B, metadata: {name: x}}", "no such kind is served: B of a/v1"),
            (
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: X}}",
                "configmaps/X in the namespace default: ConfigMap \"X\" is invalid: metadata.name: Invalid value: \"X\"",
            ),
            ("{", "the manifest cannot be read: "),
        ] {
            let error = cluster.apply(text, "default").await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
