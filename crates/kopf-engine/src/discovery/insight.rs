//! The input of discovery (what the handlers select) and its output (the resources and namespaces to serve).

use std::sync::Arc;

use kopf_reaction::{Resource, Selector, ServedSelector};

use super::namespaces::NamespacePattern;

/// What the operator wants to serve.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// One entry per selector; their indexes are used in the insights.
    pub selectors: Vec<ServedSelector>,
    /// Of what is not watched, but asked about by the cluster. For the selector_callbacks, they come after the others.
    pub passive: Vec<Selector>,
    pub namespaces: Vec<NamespacePattern>,
    /// Groups of the API to be known besides those of the selectors.
    pub groups: Vec<String>,
    /// All namespaces by one stream per resource; the patterns are ignored then.
    pub clusterwide: bool,
}

impl Wanted {
    /// Nothing of the cluster's resources matters.
    pub(super) fn is_empty(&self) -> bool {
        self.selectors.is_empty() && self.passive.is_empty() && self.groups.is_empty()
    }

    /// The paths of the lists that the streams will request, where the selectors and the namespaces leave no choice.
    /// Names that look like plurals are taken for plurals; a wrong guess costs one request in vain.
    pub(crate) fn prefetchable_paths(&self) -> Vec<String> {
        let namespaces: Option<Vec<Option<&str>>> = if self.clusterwide {
            Some(vec![None])
        } else {
            self.namespaces.iter().map(|pattern| pattern.exact_name().map(Some)).collect()
        };
        let mut paths = Vec::new();
        for resource in self.selectors.iter().filter_map(|served| prefetchable_resource(&served.selector)) {
            for namespace in namespaces.iter().flatten() {
                let path = resource.path(*namespace, None, None);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    /// In the order in which the selector_callbacks counts them.
    pub(super) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.selectors.iter().map(|served| &served.selector).chain(&self.passive)
    }
}

fn prefetchable_resource(selector: &Selector) -> Option<Resource> {
    let looks_plural = |name: &&String| name.ends_with('s') && name.bytes().all(|byte| byte.is_ascii_lowercase());
    let plural = selector.plural.as_ref().or(selector.any_name.as_ref().filter(looks_plural))?;
    let (group, version) = (selector.group.clone()?, selector.version.clone()?);
    let is_open = selector.callback || selector.everything || selector.category.is_some();
    (!is_open).then(|| Resource { group, version, plural: plural.clone(), namespaced: true, ..Resource::default() })
}

/// What there is to serve at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Insight {
    /// Whether the resources and namespaces were looked at; nothing is known before that.
    pub ready: bool,
    /// The resources to watch.
    pub resources: Vec<Arc<Resource>>,
    /// The namespaces to watch namespaced resources in; `[None]` if cluster-wide.
    pub namespaces: Vec<Option<Arc<str>>>,
    /// All scanned resources of the groups that the selectors name, served or not.
    pub known: Vec<Arc<Resource>>,
    /// For each of `resources`: the indexes of the selectors that match it.
    pub(super) matching: Vec<Vec<usize>>,
    /// The resources that passive selectors match, and the indexes of these among the passive ones.
    pub passive: Vec<(Arc<Resource>, Vec<usize>)>,
}

impl Insight {
    /// The indexes of the selectors that match the resource; callbacks have been asked already.
    pub fn selectors_of(&self, resource: &Resource) -> &[usize] {
        let index = self.resources.iter().position(|known| known.is_same(resource));
        index.and_then(|index| self.matching.get(index)).map_or(&[], Vec::as_slice)
    }

    /// The indexes of the passive selectors that match the resource.
    pub fn passive_selectors_of(&self, resource: &Resource) -> &[usize] {
        self.passive.iter().find(|(known, _)| known.is_same(resource)).map_or(&[], |(_, indexes)| indexes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(selector: serde_json::Value, namespaces: &[&str]) -> Wanted {
        let selector = serde_json::from_value(selector).unwrap();
        Wanted {
            selectors: vec![ServedSelector { selector, patching: true }; 2],
            namespaces: namespaces.iter().map(|globs| NamespacePattern::Globs((*globs).into())).collect(),
            clusterwide: namespaces.is_empty(),
            ..Wanted::default()
        }
    }

    #[test]
    fn resources_named_in_full_are_prefetched() {
        let things = json!({"group": "g.io", "version": "v1", "plural": "things"});
        let named = json!({"group": "g.io", "version": "v1", "any_name": "things"});
        for (selector, namespaces, expected) in [
            (&things, &[] as &[&str], &["/apis/g.io/v1/things"] as &[&str]),
            (&things, &["a", "b"], &["/apis/g.io/v1/namespaces/a/things", "/apis/g.io/v1/namespaces/b/things"]),
            (&named, &["a"], &["/apis/g.io/v1/namespaces/a/things"]),
            (&json!({"group": "", "version": "v1", "plural": "pods"}), &[], &["/api/v1/pods"]),
            (&things, &["a", "b*"], &[]),
            (&json!({"group": "g.io", "version": "v1", "any_name": "Things"}), &[], &[]),
            (&json!({"group": "g.io", "version": "v1", "any_name": "thing"}), &[], &[]),
            (&json!({"group": "g.io", "version": "v1", "plural": "things", "callback": true}), &[], &[]),
            (&json!({"group": "g.io", "version": "v1", "plural": "things", "category": "all"}), &[], &[]),
            (&json!({"group": "g.io", "plural": "things"}), &[], &[]),
            (&json!({"version": "v1", "plural": "things"}), &[], &[]),
            (&json!({"everything": true}), &[], &[]),
        ] {
            assert_eq!(
                wanted(selector.clone(), namespaces).prefetchable_paths(),
                expected,
                "{selector} {namespaces:?}"
            );
        }
    }
}
