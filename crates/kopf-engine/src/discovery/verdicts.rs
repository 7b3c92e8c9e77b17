//! The warnings about selectors and resources that cannot be served: each once, until it changes.

use std::collections::BTreeSet;
use std::fmt::Display;

use kopf_reaction::{ResolvedSelectors, ServedSelector};

use super::TARGET;
use crate::support::log::Log;

/// What was warned about by the latest revision.
#[derive(Debug, Default)]
pub(super) struct SpokenVerdicts {
    texts: BTreeSet<String>,
}

impl SpokenVerdicts {
    /// Warns about what is new in the revision.
    pub fn speak(&mut self, selectors: &[ServedSelector], revision: &ResolvedSelectors, log: &Log) {
        let texts = verdicts(selectors, revision);
        for text in texts.iter().filter(|text| !self.texts.contains(*text)) {
            log.warn(TARGET, text.clone());
        }
        self.texts = texts.into_iter().collect();
    }
}

/// All warnings about a revision.
fn verdicts(selectors: &[ServedSelector], revision: &ResolvedSelectors) -> Vec<String> {
    let text_of = |index: &usize| selectors.get(*index).map(|served| served.selector.to_string()).unwrap_or_default();
    let mut texts = Vec::new();
    for (index, resources) in &revision.ambiguous {
        let text = format!(
            "Ambiguous resources will not be served (try specifying API groups): {} => {}",
            text_of(index),
            set(resources)
        );
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    // What is there more than once is not missing.
    let is_ambiguous = |index: &&usize| revision.ambiguous.iter().any(|(ambiguous, _)| ambiguous == *index);
    let unresolved = revision.unresolved.iter().filter(|index| !is_ambiguous(index));
    let mut unresolved: Vec<String> = unresolved.map(text_of).collect();
    unresolved.sort();
    unresolved.dedup();
    if !unresolved.is_empty() {
        let unresolved = unresolved.join(", ");
        texts.push(format!("Unresolved resources cannot be served (try creating their CRDs): {unresolved}"));
    }
    if !revision.unwatchable.is_empty() {
        texts.push(format!("Non-watchable resources will not be served: {}", set(&revision.unwatchable)));
    }
    if !revision.unpatchable.is_empty() {
        texts.push(format!("Non-patchable resources will not be served: {}", set(&revision.unpatchable)));
    }
    texts
}

fn set<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("{{{}}}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kopf_reaction::{Resource, Selector};

    use super::*;

    #[test]
    fn texts() {
        let selector = |name: &str| ServedSelector {
            selector: Selector { any_name: Some(name.into()), ..Selector::default() },
            patching: true,
        };
        let resource = |group: &str| {
            Arc::new(Resource {
                group: group.into(),
                version: "v1".into(),
                plural: "things".into(),
                ..Resource::default()
            })
        };
        let revision = ResolvedSelectors {
            ambiguous: vec![(0, vec![resource("a"), resource("b")])],
            unresolved: vec![1, 0, 1],
            unwatchable: vec![resource("c")],
            unpatchable: vec![resource("d")],
            ..ResolvedSelectors::default()
        };
        assert_eq!(
            verdicts(&[selector("x"), selector("y")], &revision),
            [
                "Ambiguous resources will not be served (try specifying API groups): Selector(any_name='x') => {things.v1.a, things.v1.b}",
                "Unresolved resources cannot be served (try creating their CRDs): Selector(any_name='y')",
                "Non-watchable resources will not be served: {things.v1.c}",
                "Non-patchable resources will not be served: {things.v1.d}",
            ]
        );
    }
}
