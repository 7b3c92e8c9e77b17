//! The catalog: which resources the API serves, built-in and custom ones.
//!
//! A catalog is a snapshot. `state.rs` replaces it whenever a CRD changes; a request works with the one it
//! started with. Routes, discovery and every verb look up resources here.

mod verb;
mod captured;
mod custom;
mod quantities;
pub(crate) mod webhooks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value};

use crate::go::structure::{self, Structure};
use crate::schema::Schema;
use crate::support::capture;

pub(crate) use custom::{CustomVersion, PrinterColumn, is_established, resource_types, storage_version};
use quantities::mentions_quantities;
pub(crate) use quantities::{is_quantity, reference};
pub(crate) use verb::Verb;
pub(crate) use webhooks::{ConversionWebhook, Webhooks};

/// The group and the plural name of CRDs.
pub(crate) const CRDS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// One resource in one version of its group.
#[derive(Debug)]
pub struct ResourceType {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: Vec<Verb>,
    pub subresources: Vec<Subresource>,
    /// The storage name of its objects; shared by all versions of the resource.
    pub storage: Arc<str>,
    pub origin: Origin,
    /// `apps/v1`
    api_version: String,
    /// `deployments.apps`
    qualified: String,
    /// Compiled on the first write; None for kinds without a schema.
    schema: OnceLock<Option<Schema>>,
    /// Looked up on the first write; None for custom resources.
    definition: OnceLock<Option<Definition>>,
    /// Looked up on the first write; None for custom resources.
    structure: OnceLock<Option<Structure>>,
}

/// The OpenAPI definition of a built-in kind.
#[derive(Debug)]
pub struct Definition {
    /// The document that contains it.
    document: Arc<Value>,
    pub name: String,
    /// Computed on the first write.
    has_quantities: OnceLock<bool>,
}

impl Definition {
    /// All definitions of the document, by name.
    pub fn all(&self) -> Option<&Map<String, Value>> {
        self.document["components"]["schemas"].as_object()
    }

    /// Whether objects of the kind contain quantities.
    pub fn has_quantities(&self) -> bool {
        *self.has_quantities.get_or_init(|| self.all().is_some_and(|known| mentions_quantities(known, &self.name)))
    }
}

/// Where a resource comes from.
#[derive(Debug)]
pub enum Origin {
    /// Kubernetes itself.
    BuiltIn,
    /// A CRD.
    Custom(Arc<CustomVersion>),
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: String,
    /// The kind of its objects; it may differ from the kind of the resource.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<Verb>,
}

/// The resources of the API at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By plural name; of most names there are only a few.
    types: HashMap<String, Vec<Arc<ResourceType>>>,
    /// The versions of each group of CRDs, the preferred one first.
    custom_groups: BTreeMap<String, Vec<String>>,
}

impl ResourceType {
    /// `deployments.apps`, as in messages about objects.
    pub fn qualified(&self) -> &str {
        &self.qualified
    }

    /// `Deployment.apps`, as in messages about kinds.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, self.internal_group())
    }

    /// The group of the internal kind that a real server works with.
    pub fn internal_group(&self) -> &str {
        if self.is("events.k8s.io", "events") { "" } else { &self.group }
    }

    /// `apps/v1`, as in objects.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Whether this is the given resource, in any version.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// The definition in the CRD, for custom resources.
    pub fn custom(&self) -> Option<&CustomVersion> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::Custom(version) => Some(version),
        }
    }

    /// The webhook that converts objects between versions, if any.
    pub fn conversion(&self) -> Option<&ConversionWebhook> {
        self.custom()?.conversion.as_ref()
    }

    /// Whether created objects are answered, but not stored.
    pub fn is_review(&self) -> bool {
        matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
            || self.is("", "componentstatuses")
            || self.is("", "bindings")
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The OpenAPI definition, for built-in kinds.
    pub fn definition(&self) -> Option<&Definition> {
        self.definition
            .get_or_init(|| {
                let document = definitions(&self.group, &self.version)?;
                let known = document["components"]["schemas"].as_object()?;
                let name = Schema::definition_of_kind(known, &self.group, &self.version, &self.kind)?.to_owned();
                Some(Definition { document, name, has_quantities: OnceLock::new() })
            })
            .as_ref()
    }

    /// The Go struct that a real server decodes objects into, for built-in kinds.
    pub fn structure(&self) -> Option<Structure> {
        *self.structure.get_or_init(|| match self.origin {
            Origin::BuiltIn => structure::of_kind(&self.api_version, &self.kind),
            Origin::Custom(_) => None,
        })
    }

    /// The schema of its objects, if any.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema
            .get_or_init(|| match &self.origin {
                Origin::BuiltIn => built_in_schema(&self.group, &self.version, &self.kind),
                Origin::Custom(version) => version.compile_schema(),
            })
            .as_ref()
    }
}

impl Catalog {
    /// The catalog without any CRD.
    pub(crate) fn built_in() -> Self {
        Self { types: Self::captured().clone(), custom_groups: BTreeMap::new() }
    }

    fn captured() -> &'static HashMap<String, Vec<Arc<ResourceType>>> {
        static CAPTURED: LazyLock<HashMap<String, Vec<Arc<ResourceType>>>> = LazyLock::new(captured::read);
        &CAPTURED
    }

    /// The built-in catalog plus custom resources.
    pub(crate) fn with_custom(custom: impl IntoIterator<Item = ResourceType>) -> Self {
        let mut catalog = Self::built_in();
        for resource in custom {
            let versions = catalog.custom_groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
            let same_name = catalog.types.entry(resource.plural.clone()).or_default();
            same_name.retain(|known| (&known.group, &known.version) != (&resource.group, &resource.version));
            same_name.push(Arc::new(resource));
        }
        for versions in catalog.custom_groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        }
        catalog
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.types.get(plural)?.iter().find(|known| known.group == group && known.version == version)
    }

    /// The same resource in its other versions, the preferred one first.
    pub(crate) fn other_versions(&self, resource: &ResourceType) -> Vec<Arc<ResourceType>> {
        let is_other = |other: &&Arc<ResourceType>| {
            other.storage == resource.storage && (&other.group, &other.version) != (&resource.group, &resource.version)
        };
        let mut others: Vec<_> = self.all().filter(is_other).cloned().collect();
        others.sort_by_key(|other| std::cmp::Reverse(version_priority(&other.version)));
        others
    }

    /// All resources of an API version, ordered by name.
    pub(crate) fn in_version(&self, group: &str, version: &str) -> Vec<&Arc<ResourceType>> {
        let mut found: Vec<_> =
            self.all().filter(|resource| resource.group == group && resource.version == version).collect();
        found.sort_by(|one, other| one.plural.cmp(&other.plural));
        found
    }

    /// The resource of a kind, the first one by name.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let is_it = |known: &&Arc<ResourceType>| known.kind == kind && known.group == group && known.version == version;
        self.all().filter(is_it).min_by(|one, other| one.plural.cmp(&other.plural))
    }

    /// All resources in all versions, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values().flatten()
    }

    /// The groups of CRDs with their versions, the preferred one first.
    pub(crate) fn custom_groups(&self) -> &BTreeMap<String, Vec<String>> {
        &self.custom_groups
    }

    /// Whether a built-in API version has such a kind, including lists and options.
    pub(crate) fn is_registered(api_version: &str, kind: &str) -> bool {
        const EVERYWHERE: [&str; 8] = [
            "CreateOptions",
            "DeleteOptions",
            "GetOptions",
            "ListOptions",
            "PatchOptions",
            "UpdateOptions",
            "WatchEvent",
            "InternalEvent",
        ];
        const IN_CORE: [&str; 7] =
            ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList", "List", "PodLogOptions"];
        let mut versions = Self::captured().values().flatten().filter(|known| known.api_version() == api_version);
        EVERYWHERE.contains(&kind) && versions.next().is_some()
            || api_version == "v1" && IN_CORE.contains(&kind)
            || versions.any(|known| known.kind == kind || known.list_kind == kind)
    }

    /// Whether the group exists in any version.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.all().any(|known| known.group == group)
    }

    /// One resource per storage name, in its preferred version.
    pub(crate) fn by_storage(&self) -> BTreeMap<&str, &Arc<ResourceType>> {
        let mut all: Vec<_> = self.all().collect();
        // The core group comes last, so that it wins over other views of the same objects.
        all.sort_by_key(|resource| (resource.group.is_empty(), version_priority(&resource.version)));
        all.into_iter().map(|resource| (&*resource.storage, resource)).collect()
    }
}

/// What a CRD or the captured discovery says about a resource.
pub struct ResourceFacts {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: Vec<Verb>,
    pub subresources: Vec<Subresource>,
    pub origin: Origin,
}

impl From<ResourceFacts> for ResourceType {
    fn from(facts: ResourceFacts) -> Self {
        // Both APIs of events serve the same objects.
        let storage_group = if facts.group == "events.k8s.io" { "" } else { facts.group.as_str() };
        Self {
            storage: qualified(&facts.plural, storage_group).into(),
            api_version: match facts.group.as_str() {
                "" => facts.version.clone(),
                group => format!("{group}/{}", facts.version),
            },
            qualified: qualified(&facts.plural, &facts.group),
            group: facts.group,
            version: facts.version,
            plural: facts.plural,
            singular: facts.singular,
            kind: facts.kind,
            list_kind: facts.list_kind,
            namespaced: facts.namespaced,
            short_names: facts.short_names,
            categories: facts.categories,
            verbs: facts.verbs,
            subresources: facts.subresources,
            origin: facts.origin,
            schema: OnceLock::new(),
            definition: OnceLock::new(),
            structure: OnceLock::new(),
        }
    }
}

/// `plural.group`, or only the name in the core group.
fn qualified(name: &str, group: &str) -> String {
    match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}

/// The priority of versions: stable before beta before alpha, newer before older;
/// all other names come last.
pub(crate) fn version_priority(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            stage if stage.starts_with("beta") => Some((2, major, stage[4..].parse().ok()?)),
            stage if stage.starts_with("alpha") => Some((1, major, stage[5..].parse().ok()?)),
            _ => None,
        }
    };
    parse().unwrap_or((0, 0, 0))
}

/// The OpenAPI definitions of an API version, without descriptions.
pub(crate) fn definitions(group: &str, version: &str) -> Option<Arc<Value>> {
    match group {
        "" => capture::value(&format!("schemas/api/{version}")),
        group => capture::value(&format!("schemas/apis/{group}/{version}")),
    }
}

fn built_in_schema(group: &str, version: &str, kind: &str) -> Option<Schema> {
    let document = definitions(group, version)?;
    let definitions: &Map<String, Value> = document["components"]["schemas"].as_object()?;
    let name = Schema::definition_of_kind(definitions, group, version, kind)?;
    Schema::of_definition(name, definitions).ok()
}
