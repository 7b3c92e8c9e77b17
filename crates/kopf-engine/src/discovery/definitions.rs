//! The observed CRDs, and whether the API serves what they say. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kopf_reaction::Resource;

use crate::discovery::schema::{Definition, DefinitionStage};

/// All scanned resources, by their groups.
pub(super) type Scanned = BTreeMap<String, Vec<Arc<Resource>>>;

/// The CRDs, as the events about them come.
#[derive(Debug, Default)]
pub(super) struct DefinitionTracker {
    /// By their names, without the schemas.
    known: HashMap<String, Definition>,
    /// Those seen in the listing that is going on.
    listed: HashSet<String>,
    /// Groups and plurals of deleted CRDs, whose resources may be in the scans for a moment.
    gone: HashSet<(String, String)>,
}

impl DefinitionTracker {
    pub(super) fn listing_started(&mut self) {
        self.listed.clear();
    }

    /// Notes that the CRD is there, whether it matters or not.
    pub(super) fn list(&mut self, name: &str) {
        self.listed.insert(name.to_owned());
    }

    /// The names of CRDs that have gone unseen: they are known, but were not listed.
    pub(super) fn listing_done(&mut self) -> Vec<String> {
        let listed = std::mem::take(&mut self.listed);
        self.known.keys().filter(|name| !listed.contains(*name)).cloned().collect()
    }

    pub(super) fn learn(&mut self, mut definition: Definition) {
        definition.versions.iter_mut().for_each(|version| version.status_schema = None);
        self.gone.remove(&(definition.group.clone(), definition.plural.clone()));
        self.known.insert(definition.name.clone(), definition);
    }

    /// Drops a deleted CRD, and gives it back if it was known.
    pub(super) fn forget(&mut self, name: &str) -> Option<Definition> {
        let definition = self.known.remove(name)?;
        self.gone.insert((definition.group.clone(), definition.plural.clone()));
        Some(definition)
    }

    /// Whether the scan of the group shows what its CRDs say.
    pub(super) fn agrees_about(&self, group: &str, scanned: &Scanned) -> bool {
        let mut definitions = self.known.values().filter(|definition| definition.group == group);
        let mut resources = scanned.get(group).into_iter().flatten();
        definitions.all(|definition| agrees(definition, scanned))
            && resources.all(|one| !self.gone.contains(&(one.group.clone(), one.plural.clone())))
    }

    /// A CRD that is being deleted waits for its objects, and these may wait for our patches. The
    /// API takes patches until the end, though it does not say so any more.
    pub(super) fn keep_patchable_while_dying(&self, resource: &mut Arc<Resource>) {
        let dying = self.known.values().any(|definition| {
            definition.stage == DefinitionStage::Terminating
                && definition.group == resource.group
                && definition.plural == resource.plural
        });
        if dying && !resource.supports("patch") {
            Arc::make_mut(resource).verbs.push("patch".to_owned());
        }
    }
}

/// Whether all versions that the CRD serves are in the scan, and the others are not.
pub(super) fn agrees(definition: &Definition, scanned: &Scanned) -> bool {
    if definition.stage != DefinitionStage::Established {
        return true;
    }
    let resources = scanned.get(&definition.group).map_or(&[][..], Vec::as_slice);
    definition.versions.iter().all(|version| {
        let mut named = resources.iter().filter(|one| one.plural == definition.plural);
        named.any(|one| one.version == version.name) == version.served
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::schema::DefinedVersion;

    fn definition(stage: DefinitionStage, versions: &[(&str, bool)]) -> Definition {
        let versions = versions.iter().map(|(name, served)| DefinedVersion {
            name: (*name).to_owned(),
            served: *served,
            status_schema: None,
        });
        Definition {
            name: "things.g".into(),
            group: "g".into(),
            plural: "things".into(),
            versions: versions.collect(),
            stage,
        }
    }

    fn scanned(versions: &[&str]) -> Scanned {
        let resources = versions.iter().map(|version| {
            Arc::new(Resource {
                group: "g".into(),
                version: (*version).into(),
                plural: "things".into(),
                ..Resource::default()
            })
        });
        Scanned::from([("g".to_owned(), resources.collect())])
    }

    #[test]
    fn agreements() {
        use DefinitionStage::{Established, Pending, Terminating};
        type Case<'a> = (DefinitionStage, &'a [(&'a str, bool)], &'a [&'a str], bool);
        let cases: &[Case<'_>] = &[
            (Established, &[("v1", true)], &["v1"], true),
            (Established, &[("v1", true)], &[], false),
            (Established, &[("v1", true), ("v2", true)], &["v1"], false),
            (Established, &[("v1", true), ("v2", false)], &["v1"], true),
            (Established, &[("v1", false)], &["v1"], false),
            (Pending, &[("v1", true)], &[], true),
            (Terminating, &[("v1", true)], &["v1"], true),
        ];
        for (stage, versions, scan, expected) in cases {
            let mut tracker = DefinitionTracker::default();
            tracker.learn(definition(*stage, versions));
            assert_eq!(tracker.agrees_about("g", &scanned(scan)), *expected, "{stage:?} {versions:?} {scan:?}");
        }
    }

    #[test]
    fn the_deleted_must_disappear_unless_it_comes_back() {
        let mut tracker = DefinitionTracker::default();
        tracker.learn(definition(DefinitionStage::Established, &[("v1", true)]));
        assert!(tracker.forget("things.g").is_some() && tracker.forget("things.g").is_none());
        assert!(!tracker.agrees_about("g", &scanned(&["v1"])));
        assert!(tracker.agrees_about("g", &scanned(&[])));
        tracker.learn(definition(DefinitionStage::Established, &[("v1", true)]));
        assert!(tracker.agrees_about("g", &scanned(&["v1"])));
    }

    #[test]
    fn a_listing_shows_what_has_gone_unseen() {
        let mut tracker = DefinitionTracker::default();
        tracker.learn(definition(DefinitionStage::Established, &[]));
        tracker.listing_started();
        tracker.list("things.g");
        assert!(tracker.listing_done().is_empty());
        tracker.listing_started();
        assert_eq!(tracker.listing_done(), ["things.g"]);
    }
}
