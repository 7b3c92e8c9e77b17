//! Which resources a handler is for: by names, groups, categories, or by a function of the user.
//!
//! Discovery turns all selectors of an operator into the set of served resources by [`revise`];
//! the reaction asks [`Selector::check`] whether a handler is for a resource at hand.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::resource::Resource;

/// A description of resources that may match none, one or several of them.
///
/// Every part that is given must match. The front has checked that there is exactly one of the
/// names, `everything`, or `callback`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Selector {
    pub group: Option<String>,
    pub version: Option<String>,
    pub kind: Option<String>,
    pub plural: Option<String>,
    pub singular: Option<String>,
    pub shortcut: Option<String>,
    pub category: Option<String>,
    /// Any of the kind, the plural, the singular, or a short name.
    pub any_name: Option<String>,
    /// Every resource there is, except events.
    pub everything: bool,
    /// A function of the user decides, on the side of the front, of every resource except events.
    pub callback: bool,
}

/// What one selector has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The resources to serve; empty if the choice is ambiguous.
    pub chosen: Vec<Arc<Resource>>,
    /// Different resources under the one name that the selector gives.
    pub ambiguous: Vec<Arc<Resource>>,
}

impl Selector {
    /// Whether the resource matches everything that the selector states.
    ///
    /// Where [`needs_callback`](Self::needs_callback), `true` means: the user's function has to
    /// be asked; see [`check_with`](Self::check_with).
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

    /// Whether the user's function decides; then its answers are to be given to the methods here.
    pub fn needs_callback(&self) -> bool {
        self.callback
    }

    /// Whether it means one resource, by its name, so that several are an ambiguity.
    pub fn is_specific(&self) -> bool {
        [&self.kind, &self.plural, &self.singular, &self.shortcut, &self.any_name].iter().any(|name| name.is_some())
    }

    /// Chooses among the resources of the cluster.
    ///
    /// A name that exists in the core group means that one, as for kubectl: `pods` are never
    /// the pods of the metrics. The answers of the user's function are asked for only where
    /// [`needs_callback`](Self::needs_callback).
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

/// Events come from handling objects, so that serving them would feed on itself.
fn is_event(resource: &Resource) -> bool {
    resource.plural == "events" && (resource.group.is_empty() || resource.group == "events.k8s.io")
}

/// The text for logs, which users know from the warnings about their selectors.
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
    pub selector: Selector,
    /// Whether its handlers store their state on the objects, so that patching is needed.
    pub patching: bool,
}

/// What the selectors of an operator come to, in a cluster with certain resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSelectors {
    /// The resources to watch, in the order of the cluster's.
    pub served: Vec<Arc<Resource>>,
    /// For each of the served ones: the indexes of the selectors that match it.
    pub matching: Vec<Vec<usize>>,
    /// Indexes of selectors by a name that means several resources, and these.
    pub ambiguous: Vec<(usize, Vec<Arc<Resource>>)>,
    /// Indexes of selectors that match nothing that can be served.
    pub unresolved: Vec<usize>,
    /// Matching resources that cannot be listed or watched.
    pub unwatchable: Vec<Arc<Resource>>,
    /// Matching resources that cannot be patched although handlers need it.
    pub unpatchable: Vec<Arc<Resource>>,
}

/// Decides which of the cluster's resources are served for the selectors.
///
/// A resource of an ambiguous selector is served for no selector at all: its other handlers would
/// act on what the user did not mean. `answer` is the user's function of the selector at an index.
pub fn resolve_selectors(
    selectors: &[ServedSelector],
    resources: &[Arc<Resource>],
    answer: &dyn Fn(usize, &Resource) -> bool,
) -> ResolvedSelectors {
    let mut revision = ResolvedSelectors::default();
    let mut chosen: HashSet<Arc<Resource>> = HashSet::new();
    let mut refused: HashSet<Arc<Resource>> = HashSet::new();
    for (index, served) in selectors.iter().enumerate() {
        let selection = served.selector.select(resources, &|resource| answer(index, resource));
        chosen.extend(selection.chosen);
        if !selection.ambiguous.is_empty() {
            refused.extend(selection.ambiguous.iter().cloned());
            revision.ambiguous.push((index, selection.ambiguous));
        }
    }
    chosen.retain(|resource| !refused.contains(resource));
    for (index, served) in selectors.iter().enumerate() {
        if !chosen.iter().any(|resource| served.selector.check_with(resource, &|one| answer(index, one))) {
            revision.unresolved.push(index);
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
            revision.unwatchable.push(Arc::clone(resource));
        } else if !resource.supports("patch") && matching.iter().any(|index| selectors[*index].patching) {
            revision.unpatchable.push(Arc::clone(resource));
        } else {
            revision.served.push(Arc::clone(resource));
            revision.matching.push(matching);
        }
    }
    revision
}

/// Which resources passive selectors are for, and the indexes of those that match each.
///
/// Here, nothing is started for a resource by itself, so that ambiguity does no harm.
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
    fn selections() {
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
    fn the_text_names_what_is_stated() {
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

    fn revision(selectors: &[(&str, bool)], resources: &[Arc<Resource>]) -> ResolvedSelectors {
        let selectors: Vec<_> = selectors
            .iter()
            .map(|(json, patching)| ServedSelector { selector: selector(json), patching: *patching })
            .collect();
        resolve_selectors(&selectors, resources, &|_, resource| resource.group == "b.io")
    }

    #[test]
    fn a_revision_serves_what_is_clear_and_possible() {
        let revision = revision(
            &[(r#"{"any_name":"pods"}"#, true), (r#"{"any_name":"absent"}"#, true), (r#"{"kind":"Pod"}"#, false)],
            &cluster(),
        );
        assert_eq!(texts(&revision.served), ["pods.v1"]);
        assert_eq!(revision.matching, [vec![0, 2]]);
        assert_eq!(revision.unresolved, [1]);
        assert!(revision.ambiguous.is_empty());
    }

    #[test]
    fn an_ambiguous_name_takes_its_resources_from_all_selectors() {
        let revision = revision(
            &[(r#"{"any_name":"things"}"#, true), (r#"{"callback":true}"#, true), (r#"{"any_name":"pods"}"#, true)],
            &cluster(),
        );
        assert_eq!(texts(&revision.served), ["pods.v1"]);
        assert_eq!(revision.ambiguous.len(), 1);
        assert_eq!(revision.ambiguous[0].0, 0);
        assert_eq!(texts(&revision.ambiguous[0].1), ["things.v1.a.io", "things.v1.b.io"]);
        assert_eq!(revision.unresolved, [0, 1]);
    }

    #[test]
    fn a_revision_leaves_out_what_cannot_be_watched_or_patched() {
        let with_verbs = |text: &str, verbs: &[&str]| {
            let mut resource = Resource::clone(&resource(text));
            resource.verbs = verbs.iter().map(ToString::to_string).collect();
            Arc::new(resource)
        };
        let resources =
            [with_verbs("creates.v1.g.io", &["create", "patch"]), with_verbs("reads.v1.g.io", &["list", "watch"])];
        let everything = r#"{"everything":true}"#;
        let seen = revision(&[(everything, false)], &resources);
        assert_eq!(
            (texts(&seen.served), texts(&seen.unwatchable)),
            (vec!["reads.v1.g.io".into()], vec!["creates.v1.g.io".into()])
        );
        let changed = revision(&[(everything, false), (r#"{"any_name":"reads"}"#, true)], &resources);
        assert!(changed.served.is_empty());
        assert_eq!(texts(&changed.unpatchable), ["reads.v1.g.io"]);
    }
}
