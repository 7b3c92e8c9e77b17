//! Which resources a handler is for: by names, groups, categories, or by a function of the user.
//!
//! Discovery turns all selectors of an operator into the set of served resources by [`resolve_selectors`], and checks
//! by [`Selector::check`] whether a handler is for a resource.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::resource::Resource;

/// A description of resources that may match none, one or several of them.
///
/// Every stated part must match. The front ensures that a selector has exactly one of the names, `everything`, or
/// `callback`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// The API group; empty for the core group.
    pub group: Option<String>,
    /// The API version; without it, only the preferred version of the group matches.
    pub version: Option<String>,
    /// The kind, such as `Pod`.
    pub kind: Option<String>,
    /// The plural name, such as `pods`.
    pub plural: Option<String>,
    /// The singular name, such as `pod`.
    pub singular: Option<String>,
    /// A short name, such as `po`.
    pub shortcut: Option<String>,
    /// A category, such as `all`.
    pub category: Option<String>,
    /// Any of the kind, the plural, the singular, or a short name.
    pub any_name: Option<String>,
    /// All resources except events.
    pub everything: bool,
    /// A function of the user decides, for each resource except events; the engine asks the front.
    pub callback: bool,
}

/// What one selector has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The resources to serve; empty if the choice is ambiguous.
    pub chosen: Vec<Arc<Resource>>,
    /// Several resources with the name that the selector states.
    pub ambiguous: Vec<Arc<Resource>>,
}

impl Selector {
    /// Whether the resource matches everything that the selector states.
    ///
    /// Where [`needs_callback`](Self::needs_callback), `true` means that the user's function decides, see
    /// [`check_with`](Self::check_with).
    pub fn check(&self, resource: &Resource) -> bool {
        let stated = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|name| name == actual);
        stated(&self.group, &resource.group)
            && match &self.version {
                Some(version) => *version == resource.version,
                None => resource.preferred || self.callback,
            }
            && stated(&self.kind, &resource.kind)
            && stated(&self.plural, &resource.plural)
            && stated(&self.singular, &resource.singular)
            && self.category.as_ref().is_none_or(|name| resource.categories.contains(name))
            && self.shortcut.as_ref().is_none_or(|name| resource.shortcuts.contains(name))
            && self.any_name.as_ref().is_none_or(|name| {
                *name == resource.kind
                    || *name == resource.plural
                    || *name == resource.singular
                    || resource.shortcuts.contains(name)
            })
            && !((self.everything || self.callback) && is_event(resource))
    }

    /// As [`check`](Self::check), with the answer of the user's function for this resource.
    pub fn check_with(&self, resource: &Resource, answer: &dyn Fn(&Resource) -> bool) -> bool {
        self.check(resource) && (!self.callback || answer(resource))
    }

    /// Whether a function of the user decides, so that the other methods need its answers.
    pub fn needs_callback(&self) -> bool {
        self.callback
    }

    /// Whether it names one resource, so that several matches are ambiguous.
    pub fn is_specific(&self) -> bool {
        [&self.kind, &self.plural, &self.singular, &self.shortcut, &self.any_name].iter().any(|name| name.is_some())
    }

    /// Chooses among the resources of the cluster.
    ///
    /// A name that exists in the core group means that one, as for kubectl: `pods` are never the pods of the metrics.
    /// It calls `answer`, the user's function, only where [`needs_callback`](Self::needs_callback).
    pub fn select(&self, resources: &[Arc<Resource>], answer: &dyn Fn(&Resource) -> bool) -> Selection {
        let mut matched: Vec<_> =
            resources.iter().filter(|resource| self.check_with(resource, answer)).cloned().collect();
        if !self.is_specific() {
            return Selection { chosen: matched, ambiguous: Vec::new() };
        }
        if matched.iter().any(|resource| resource.group.is_empty()) {
            matched.retain(|resource| resource.group.is_empty());
        }
        if matched.len() > 1 {
            Selection { chosen: Vec::new(), ambiguous: matched }
        } else {
            Selection { chosen: matched, ambiguous: Vec::new() }
        }
    }
}

/// The engine posts events when it handles objects: serving them by accident would never end.
fn is_event(resource: &Resource) -> bool {
    resource.plural == "events" && (resource.group.is_empty() || resource.group == "events.k8s.io")
}

/// The text for logs, as kopf 1.45 shows selectors in its warnings.
impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, value) in [
            ("group", &self.group),
            ("version", &self.version),
            ("kind", &self.kind),
            ("plural", &self.plural),
            ("singular", &self.singular),
            ("shortcut", &self.shortcut),
            ("category", &self.category),
            ("any_name", &self.any_name),
        ] {
            if let Some(value) = value {
                parts.push(format!("{name}='{value}'"));
            }
        }
        if self.everything {
            parts.push("any_name=<Marker.EVERYTHING: 1>".to_owned());
        }
        if self.callback {
            parts.push("fn=<callback>".to_owned());
        }
        write!(formatter, "Selector({})", parts.join(", "))
    }
}

/// One selector of the handlers of an operator, and what its handlers do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServedSelector {
    /// What the handlers declare.
    pub selector: Selector,
    /// Whether its handlers store their state on the objects, so that the resource must support patches.
    pub patching: bool,
}

/// The resources that the selectors of an operator select in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSelectors {
    /// The resources to watch, in the order of the cluster.
    pub served: Vec<Arc<Resource>>,
    /// For each served resource: the indexes of the selectors that match it.
    pub matching: Vec<Vec<usize>>,
    /// Selectors (by index) whose name means several resources, and these resources.
    pub ambiguous: Vec<(usize, Vec<Arc<Resource>>)>,
    /// Selectors (by index) that match no resource that the operator can serve.
    pub unresolved: Vec<usize>,
    /// Matching resources that cannot be listed or watched.
    pub unwatchable: Vec<Arc<Resource>>,
    /// Matching resources that cannot be patched although handlers need it.
    pub unpatchable: Vec<Arc<Resource>>,
}

/// Decides which of the cluster's resources are served for the selectors.
///
/// The operator serves a resource of an ambiguous selector for no selector at all: its other handlers would act on
/// what the user did not mean. `answer` is the user's function of the selector at an index.
pub fn resolve_selectors(
    selectors: &[ServedSelector],
    resources: &[Arc<Resource>],
    answer: &dyn Fn(usize, &Resource) -> bool,
) -> ResolvedSelectors {
    let mut resolved = ResolvedSelectors::default();
    let mut chosen: HashSet<Arc<Resource>> = HashSet::new();
    let mut refused: HashSet<Arc<Resource>> = HashSet::new();
    for (index, served) in selectors.iter().enumerate() {
        let selection = served.selector.select(resources, &|resource| answer(index, resource));
        chosen.extend(selection.chosen);
        if !selection.ambiguous.is_empty() {
            refused.extend(selection.ambiguous.iter().cloned());
            resolved.ambiguous.push((index, selection.ambiguous));
        }
    }
    chosen.retain(|resource| !refused.contains(resource));
    for (index, served) in selectors.iter().enumerate() {
        if !chosen.iter().any(|resource| served.selector.check_with(resource, &|one| answer(index, one))) {
            resolved.unresolved.push(index);
        }
    }
    for resource in resources.iter().filter(|resource| chosen.contains(*resource)) {
        let matching: Vec<usize> = selectors
            .iter()
            .enumerate()
            .filter(|(index, served)| served.selector.check_with(resource, &|one| answer(*index, one)))
            .map(|(index, _)| index)
            .collect();
        if !resource.supports("watch") || !resource.supports("list") {
            resolved.unwatchable.push(Arc::clone(resource));
        } else if !resource.supports("patch") && matching.iter().any(|index| selectors[*index].patching) {
            resolved.unpatchable.push(Arc::clone(resource));
        } else {
            resolved.served.push(Arc::clone(resource));
            resolved.matching.push(matching);
        }
    }
    resolved
}

/// The resources that passive selectors (of webhooks) match, with the indexes of the selectors that match each.
///
/// The operator starts nothing for such resources on its own, so ambiguity does no harm.
pub fn passively_matched(
    selectors: &[Selector],
    resources: &[Arc<Resource>],
    answer: &dyn Fn(usize, &Resource) -> bool,
) -> Vec<(Arc<Resource>, Vec<usize>)> {
    let selected: Vec<Vec<Arc<Resource>>> = selectors
        .iter()
        .enumerate()
        .map(|(index, selector)| {
            let selection = selector.select(resources, &|resource| answer(index, resource));
            [selection.chosen, selection.ambiguous].concat()
        })
        .collect();
    let matching = |resource: &Arc<Resource>| -> Vec<usize> {
        let chosen = selected.iter().enumerate().filter(|(_, chosen)| chosen.contains(resource));
        chosen.map(|(index, _)| index).collect()
    };
    let all = resources.iter().map(|resource| (Arc::clone(resource), matching(resource)));
    all.filter(|(_, indexes)| !indexes.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(text: &str) -> Arc<Resource> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let plural = next();
        let version = next();
        let group = next();
        let singular = plural.trim_end_matches('s').to_owned();
        let kind = singular[..1].to_uppercase() + &singular[1..];
        let shortcuts = if plural == "pods" && group.is_empty() { vec!["po".to_owned()] } else { Vec::new() };
        let verbs = ["list", "watch", "patch"].map(str::to_owned).to_vec();
        let categories = vec!["all".to_owned()];
        let preferred = !version.contains("alpha");
        Arc::new(Resource {
            group,
            version,
            plural,
            kind,
            singular,
            shortcuts,
            categories,
            preferred,
            verbs,
            ..Resource::default()
        })
    }

    fn selector(json: &str) -> Selector {
        serde_json::from_str(json).expect("a selector")
    }

    fn cluster() -> Vec<Arc<Resource>> {
        [
            "pods.v1",
            "pods.v1beta1.metrics.k8s.io",
            "events.v1",
            "events.v1.events.k8s.io",
            "events.v1.other.io",
            "things.v1.a.io",
            "things.v1alpha1.a.io",
            "things.v1.b.io",
        ]
        .map(resource)
        .to_vec()
    }

    fn texts(resources: &[Arc<Resource>]) -> Vec<String> {
        resources.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn selectors_choose_by_names_groups_and_categories() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            // Names of all sorts; the core group wins; preferred versions only.
            (r#"{"any_name":"pods"}"#, &["pods.v1"], &[]),
            (r#"{"any_name":"po"}"#, &["pods.v1"], &[]),
            (r#"{"any_name":"pod"}"#, &["pods.v1"], &[]),
            (r#"{"any_name":"Pod"}"#, &["pods.v1"], &[]),
            (r#"{"any_name":"POD"}"#, &[], &[]),
            (r#"{"kind":"Pod"}"#, &["pods.v1"], &[]),
            (r#"{"plural":"pod"}"#, &[], &[]),
            (r#"{"singular":"pod"}"#, &["pods.v1"], &[]),
            (r#"{"shortcut":"po"}"#, &["pods.v1"], &[]),
            (r#"{"group":"metrics.k8s.io","any_name":"pods"}"#, &["pods.v1beta1.metrics.k8s.io"], &[]),
            (r#"{"group":"a.io","any_name":"things"}"#, &["things.v1.a.io"], &[]),
            (r#"{"group":"a.io","version":"v1alpha1","any_name":"things"}"#, &["things.v1alpha1.a.io"], &[]),
            (r#"{"version":"v1alpha1","any_name":"things"}"#, &["things.v1alpha1.a.io"], &[]),
            // Two groups, none of them the core: refused.
            (r#"{"any_name":"things"}"#, &[], &["things.v1.a.io", "things.v1.b.io"]),
            // Events: by name yes, by everything or a callback no; but those of other groups are.
            (r#"{"any_name":"events"}"#, &["events.v1"], &[]),
            (
                r#"{"everything":true}"#,
                &["pods.v1", "pods.v1beta1.metrics.k8s.io", "events.v1.other.io", "things.v1.a.io", "things.v1.b.io"],
                &[],
            ),
            (r#"{"group":"b.io","everything":true}"#, &["things.v1.b.io"], &[]),
            // Categories keep all of them, of every group.
            (r#"{"category":"all","group":"metrics.k8s.io"}"#, &["pods.v1beta1.metrics.k8s.io"], &[]),
            // Callbacks see all versions; the answers here: those of the group a.io.
            (r#"{"callback":true}"#, &["things.v1.a.io", "things.v1alpha1.a.io"], &[]),
            (r#"{"callback":true,"version":"v1"}"#, &["things.v1.a.io"], &[]),
        ];
        for (json, chosen, ambiguous) in cases {
            let selection = selector(json).select(&cluster(), &|resource| resource.group == "a.io");
            assert_eq!(texts(&selection.chosen), *chosen, "{json}");
            assert_eq!(texts(&selection.ambiguous), *ambiguous, "{json}");
        }
    }

    #[test]
    fn the_text_has_the_stated_parts() {
        let cases = [
            (
                r#"{"group":"kopf.dev","version":"v1","any_name":"kex"}"#,
                "Selector(group='kopf.dev', version='v1', any_name='kex')",
            ),
            (r#"{"everything":true,"group":null}"#, "Selector(any_name=<Marker.EVERYTHING: 1>)"),
            (r#"{"callback":true}"#, "Selector(fn=<callback>)"),
        ];
        for (json, expected) in cases {
            assert_eq!(selector(json).to_string(), expected);
        }
    }

    fn resolve(selectors: &[(&str, bool)], resources: &[Arc<Resource>]) -> ResolvedSelectors {
        let selectors: Vec<_> = selectors
            .iter()
            .map(|(json, patching)| ServedSelector { selector: selector(json), patching: *patching })
            .collect();
        resolve_selectors(&selectors, resources, &|_, resource| resource.group == "b.io")
    }

    #[test]
    fn unambiguous_resources_are_served() {
        let resolved = resolve(
            &[(r#"{"any_name":"pods"}"#, true), (r#"{"any_name":"absent"}"#, true), (r#"{"kind":"Pod"}"#, false)],
            &cluster(),
        );
        assert_eq!(texts(&resolved.served), ["pods.v1"]);
        assert_eq!(resolved.matching, [vec![0, 2]]);
        assert_eq!(resolved.unresolved, [1]);
        assert!(resolved.ambiguous.is_empty());
    }

    #[test]
    fn resources_of_ambiguous_names_are_served_for_no_selector() {
        let resolved = resolve(
            &[(r#"{"any_name":"things"}"#, true), (r#"{"callback":true}"#, true), (r#"{"any_name":"pods"}"#, true)],
            &cluster(),
        );
        assert_eq!(texts(&resolved.served), ["pods.v1"]);
        assert_eq!(resolved.ambiguous.len(), 1);
        assert_eq!(resolved.ambiguous[0].0, 0);
        assert_eq!(texts(&resolved.ambiguous[0].1), ["things.v1.a.io", "things.v1.b.io"]);
        assert_eq!(resolved.unresolved, [0, 1]);
    }

    #[test]
    fn resources_without_the_needed_verbs_are_not_served() {
        let with_verbs = |text: &str, verbs: &[&str]| {
            let mut resource = Resource::clone(&resource(text));
            resource.verbs = verbs.iter().map(ToString::to_string).collect();
            Arc::new(resource)
        };
        let resources =
            [with_verbs("creates.v1.g.io", &["create", "patch"]), with_verbs("reads.v1.g.io", &["list", "watch"])];
        let everything = r#"{"everything":true}"#;
        let seen = resolve(&[(everything, false)], &resources);
        assert_eq!(
            (texts(&seen.served), texts(&seen.unwatchable)),
            (vec!["reads.v1.g.io".into()], vec!["creates.v1.g.io".into()])
        );
        let changed = resolve(&[(everything, false), (r#"{"any_name":"reads"}"#, true)], &resources);
        assert!(changed.served.is_empty());
        assert_eq!(texts(&changed.unpatchable), ["reads.v1.g.io"]);
    }
}
