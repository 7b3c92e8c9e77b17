//! Which resources the API serves: one scan of all of it, or of one group.
//!
//! Discovery calls it. A full scan takes two requests if the API supports aggregated discovery, else one per
//! group. If a part of the API does not work, the scan leaves it out and names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use kopf_reaction::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{Api, ApiError};

/// Asks for everything at once; what does not know this answers as it always did.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const PLAIN: &str = "application/json";

/// One part of the API may be broken for long, so that it gets only one more try.
const BACKOFFS_OF_PARTS: &[f64] = &[1.0];

/// The outcome of a scan.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// All resources by their groups; a scanned group without resources has an empty entry.
    pub groups: BTreeMap<String, Vec<Arc<Resource>>>,
    /// What could not be read: the group, the version, and why.
    pub broken: Vec<BrokenPart>,
}

/// One version of a group that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokenPart {
    pub group: String,
    pub version: String,
    pub reason: String,
}

/// Scans the groups; None means all of them.
pub(super) async fn scan_groups(api: &Api, groups: Option<&BTreeSet<String>>) -> Result<Scan, ApiError> {
    let mut scan = Scan::default();
    for group in groups.into_iter().flatten() {
        scan.groups.entry(group.clone()).or_default();
    }
    if groups.is_none_or(|groups| groups.contains("")) {
        scan_root(api, "/api", groups, &mut scan).await?;
    }
    if groups.is_none_or(|groups| groups.iter().any(|group| !group.is_empty())) {
        scan_root(api, "/apis", groups, &mut scan).await?;
    }
    Ok(scan)
}

/// Scans one group, such as after a change of one of its CRDs.
pub(super) async fn scan_group(api: &Api, group: &str) -> Result<Scan, ApiError> {
    let mut scan = Scan::default();
    scan.groups.insert(group.to_owned(), Vec::new());
    if group.is_empty() {
        scan_versions(api, vec![PlannedVersion::core("v1")], &mut scan).await;
        return Ok(scan);
    }
    let path = format!("/apis/{group}");
    let found = match api.get_as(&path, PLAIN, Some(BACKOFFS_OF_PARTS)).await {
        Ok(body) => decode::<GroupVersions>(&path, &body)?,
        Err(ApiError::NotFound(_)) => return Ok(scan),
        Err(error) => return Err(error),
    };
    scan_versions(api, found.plan(), &mut scan).await;
    Ok(scan)
}

async fn scan_root(api: &Api, path: &str, groups: Option<&BTreeSet<String>>, scan: &mut Scan) -> Result<(), ApiError> {
    let body = api.get_as(path, AGGREGATED, None).await?;
    let planned = match decode::<Root>(path, &body)? {
        Root::Aggregated { items } => {
            for item in items.into_iter().filter(|item| wanted(groups, &item.metadata.name)) {
                item.add_to(scan);
            }
            return Ok(());
        }
        Root::Core { versions } => versions.iter().map(|version| PlannedVersion::core(version)).collect(),
        Root::Groups { groups: found } => {
            let found = found.into_iter().filter(|group| wanted(groups, &group.name));
            found.flat_map(|group| group.plan()).collect()
        }
    };
    scan_versions(api, planned, scan).await;
    Ok(())
}

/// Reads the versions of groups, all at the same time; the broken ones are only noted.
async fn scan_versions(api: &Api, planned: Vec<PlannedVersion>, scan: &mut Scan) {
    let reads = planned.into_iter().map(|planned| async move {
        let read = api.get_as(&planned.path(), PLAIN, Some(BACKOFFS_OF_PARTS)).await;
        let read = read.and_then(|body| decode::<VersionResources>(&planned.path(), &body));
        (planned, read)
    });
    for (planned, read) in join_all(reads).await {
        let known = scan.groups.entry(planned.group.clone()).or_default();
        match read {
            Ok(found) => known.extend(found.resources_of(&planned).into_iter().map(Arc::new)),
            // The last resource of the version has gone meanwhile, and the version with it.
            Err(ApiError::NotFound(_)) => {}
            Err(error) => scan.broken.push(BrokenPart {
                group: planned.group,
                version: planned.version,
                reason: error.to_string(),
            }),
        }
    }
}

fn wanted(groups: Option<&BTreeSet<String>>, group: &str) -> bool {
    groups.is_none_or(|groups| groups.contains(group))
}

fn decode<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|source| ApiError::Decoding { what: format!("GET {path}"), source })
}

/// One version to be read.
#[derive(Debug, PartialEq, Eq)]
struct PlannedVersion {
    group: String,
    version: String,
    preferred: bool,
}

impl PlannedVersion {
    fn core(version: &str) -> Self {
        Self { group: String::new(), version: version.to_owned(), preferred: true }
    }

    fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// The answer to `/api` or `/apis`, in either of the ways.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Root {
    Aggregated { items: Vec<AggregatedGroup> },
    Groups { groups: Vec<GroupVersions> },
    Core { versions: Vec<String> },
}

#[derive(Debug, Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: AggregatedMetadata,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Debug, Default, Deserialize)]
struct AggregatedMetadata {
    /// Absent for the core group.
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    /// Absent where only subresources are served.
    response_kind: Option<AggregatedKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Debug, Deserialize)]
struct AggregatedKind {
    #[serde(default)]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedSubresource {
    subresource: String,
}

impl AggregatedGroup {
    fn add_to(self, scan: &mut Scan) {
        let group = self.metadata.name;
        let known = scan.groups.entry(group.clone()).or_default();
        // The versions come in the order of preference.
        for (index, version) in self.versions.into_iter().enumerate() {
            if version.freshness == "Stale" {
                scan.broken.push(BrokenPart {
                    group: group.clone(),
                    version: version.version.clone(),
                    reason: "its server does not answer to the API".to_owned(),
                });
            }
            for resource in version.resources {
                let Some(kind) = resource.response_kind.map(|kind| kind.kind).filter(|kind| !kind.is_empty()) else {
                    continue;
                };
                known.push(Arc::new(Resource {
                    group: group.clone(),
                    version: version.version.clone(),
                    plural: resource.resource,
                    singular: singular_or(resource.singular_resource, &kind),
                    kind,
                    shortcuts: resource.short_names,
                    categories: resource.categories,
                    subresources: resource.subresources.into_iter().map(|one| one.subresource).collect(),
                    namespaced: resource.scope == "Namespaced",
                    preferred: index == 0,
                    verbs: resource.verbs,
                }));
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersions {
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Debug, Deserialize)]
struct GroupVersion {
    version: String,
}

impl GroupVersions {
    fn plan(self) -> Vec<PlannedVersion> {
        let preferred = self.preferred_version.as_ref().or(self.versions.first()).map(|one| one.version.clone());
        let plan = self.versions.into_iter().map(|one| PlannedVersion {
            group: self.name.clone(),
            preferred: Some(&one.version) == preferred.as_ref(),
            version: one.version,
        });
        plan.collect()
    }
}

#[derive(Debug, Deserialize)]
struct VersionResources {
    #[serde(default)]
    resources: Vec<VersionResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionResource {
    name: String,
    kind: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

impl VersionResources {
    fn resources_of(self, planned: &PlannedVersion) -> Vec<Resource> {
        let mut subresources: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in &self.resources {
            if let Some((parent, name)) = resource.name.split_once('/') {
                subresources.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
        }
        let main = self.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        main.map(|resource| Resource {
            group: planned.group.clone(),
            version: planned.version.clone(),
            subresources: subresources.remove(&resource.name).unwrap_or_default(),
            plural: resource.name,
            singular: singular_or(resource.singular_name, &resource.kind),
            kind: resource.kind,
            shortcuts: resource.short_names,
            categories: resource.categories,
            namespaced: resource.namespaced,
            preferred: planned.preferred,
            verbs: resource.verbs.unwrap_or_default(),
        })
        .collect()
    }
}

/// Some API servers give no singular for what is built in.
fn singular_or(singular: String, kind: &str) -> String {
    if singular.is_empty() { kind.to_lowercase() } else { singular }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aggregated_answers() {
        let root: Root = serde_json::from_value(json!({
            "kind": "APIGroupDiscoveryList",
            "items": [{
                "metadata": {"name": "g.io"},
                "versions": [
                    {"version": "v2", "freshness": "Current", "resources": [
                        {"resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Namespaced", "singularResource": "thing",
                         "verbs": ["list"], "shortNames": ["th"], "categories": ["all"], "subresources": [{"subresource": "status"}]},
                        {"resource": "ghosts", "subresources": [{"subresource": "scale"}]},
                    ]},
                    {"version": "v1", "freshness": "Stale"},
                ],
            }],
        }))
        .unwrap();
        let Root::Aggregated { items } = root else { panic!("{root:?}") };
        let mut scan = Scan::default();
        items.into_iter().for_each(|item| item.add_to(&mut scan));
        let things = &scan.groups["g.io"];
        assert_eq!(things.len(), 1, "{things:?}");
        assert_eq!(things[0].to_string(), "things.v2.g.io");
        assert!(things[0].preferred && things[0].namespaced && things[0].has_status_subresource());
        assert_eq!(scan.broken.len(), 1);
        assert_eq!((scan.broken[0].group.as_str(), scan.broken[0].version.as_str()), ("g.io", "v1"));
    }

    #[test]
    fn plain_answers() {
        let root: Root = serde_json::from_value(json!({"kind": "APIVersions", "versions": ["v1"]})).unwrap();
        assert!(matches!(root, Root::Core { .. }), "{root:?}");
        let root: Root = serde_json::from_value(json!({"kind": "APIGroupList", "groups": [
            {"name": "g.io", "versions": [{"version": "v2"}, {"version": "v1"}], "preferredVersion": {"version": "v1"}},
        ]}))
        .unwrap();
        let Root::Groups { groups } = root else { panic!("{root:?}") };
        let planned: Vec<_> = groups.into_iter().flat_map(GroupVersions::plan).collect();
        let paths: Vec<_> = planned.iter().map(|one| (one.path(), one.preferred)).collect();
        assert_eq!(paths, [("/apis/g.io/v2".to_owned(), false), ("/apis/g.io/v1".to_owned(), true)]);
        assert_eq!(PlannedVersion::core("v1").path(), "/api/v1");
    }

    #[test]
    fn plain_resources() {
        let found: VersionResources = serde_json::from_value(json!({"resources": [
            {"name": "things", "kind": "Thing", "singularName": "", "namespaced": true, "verbs": ["list", "watch"]},
            {"name": "things/status", "kind": "Thing", "singularName": "", "namespaced": true, "verbs": ["patch"]},
            {"name": "others", "kind": "Other", "singularName": "another", "namespaced": false, "verbs": null},
        ]}))
        .unwrap();
        let resources =
            found.resources_of(&PlannedVersion { group: "g".into(), version: "v1".into(), preferred: true });
        assert_eq!(resources.len(), 2);
        assert_eq!((resources[0].singular.as_str(), resources[0].has_status_subresource()), ("thing", true));
        assert_eq!((resources[1].singular.as_str(), resources[1].has_status_subresource()), ("another", false));
    }
}
