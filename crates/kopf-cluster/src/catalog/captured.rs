//! The built-in resources, decoded from the captured discovery of a real server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;

use super::{Origin, ResourceFacts, ResourceType, Subresource, Verb};
use crate::support::capture;

/// The part of the captured discovery that describes the resources. Nothing else of it is decoded, since every
/// process with a cluster does this.
#[derive(Default, Deserialize)]
struct Captured<'a> {
    /// By group and version.
    #[serde(borrow)]
    resources: BTreeMap<&'a str, CapturedVersion<'a>>,
}

#[derive(Deserialize)]
struct CapturedVersion<'a> {
    #[serde(borrow)]
    resources: Vec<CapturedResource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapturedResource<'a> {
    /// A name with a slash is a subresource.
    name: &'a str,
    kind: &'a str,
    /// The group and version of a subresource's kind, if they differ from the resource's.
    group: Option<&'a str>,
    version: Option<&'a str>,
    #[serde(default)]
    singular_name: &'a str,
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    verbs: Vec<Verb>,
}

/// The built-in resources, from the captured discovery.
pub(super) fn read() -> HashMap<String, Vec<Arc<ResourceType>>> {
    let mut types: HashMap<String, Vec<_>> = HashMap::new();
    let text = capture::document("discovery").unwrap_or_default();
    // A test reads all of it.
    let captured: Captured<'_> = serde_json::from_slice(&text).unwrap_or_default();
    for (group_version, CapturedVersion { resources }) in captured.resources {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let (parts, whole): (Vec<_>, Vec<_>) = resources.into_iter().partition(|resource| resource.name.contains('/'));
        for resource in whole {
            let part_of_it = |part: &CapturedResource<'_>| {
                let name = part.name.strip_prefix(resource.name)?.strip_prefix('/')?.to_owned();
                let (group, version) = match part.version {
                    Some(version) => (part.group.unwrap_or_default(), version),
                    None => (group, version),
                };
                let verbs = part.verbs.clone();
                Some(Subresource { name, group: group.into(), version: version.into(), kind: part.kind.into(), verbs })
            };
            let facts = ResourceFacts {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: resource.name.to_owned(),
                singular: resource.singular_name.to_owned(),
                kind: resource.kind.to_owned(),
                list_kind: format!("{}List", resource.kind),
                namespaced: resource.namespaced,
                subresources: parts.iter().filter_map(part_of_it).collect(),
                short_names: resource.short_names,
                categories: resource.categories,
                verbs: resource.verbs,
                origin: Origin::BuiltIn,
            };
            types.entry(resource.name.to_owned()).or_default().push(Arc::new(facts.into()));
        }
    }
    types
}
