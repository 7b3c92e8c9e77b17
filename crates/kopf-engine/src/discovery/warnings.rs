//! The warnings about selectors and resources that cannot be served: each once, until it changes.

use std::collections::BTreeSet;
use std::fmt::Display;

use kopf_reaction::{ResolvedSelectors, ServedSelector};

use super::TARGET;
use crate::support::log::Log;

/// What was warned about when the selectors were resolved last.
#[derive(Debug, Default)]
pub(super) struct LoggedWarnings {
    texts: BTreeSet<String>,
}

impl LoggedWarnings {
    /// Warns about what is new.
    pub(super) fn log_new(&mut self, selectors: &[ServedSelector], resolved: &ResolvedSelectors, log: &Log) {
        let texts = warnings(selectors, resolved);
        for text in texts.iter().filter(|text| !self.texts.contains(*text)) {
            log.warn(TARGET, text.clone());
        }
        self.texts = texts.into_iter().collect();
    }
}

/// All warnings about the resolved selectors.
fn warnings(selectors: &[ServedSelector], resolved: &ResolvedSelectors) -> Vec<String> {
    let text_of = |index: &usize| selectors.get(*index).map(|served| served.selector.to_string()).unwrap_or_default();
    let mut texts = Vec::new();
    for (index, resources) in &resolved.ambiguous {
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
    let is_ambiguous = |index: &&usize| resolved.ambiguous.iter().any(|(ambiguous, _)| ambiguous == *index);
    let unresolved = resolved.unresolved.iter().filter(|index| !is_ambiguous(index));
    let mut unresolved: Vec<String> = unresolved.map(text_of).collect();
    unresolved.sort();
    unresolved.dedup();
    if !unresolved.is_empty() {
        let unresolved = unresolved.join(", ");
        texts.push(format!("Unresolved resources cannot be served (try creating their CRDs): {unresolved}"));
    }
    if !resolved.unwatchable.is_empty() {
        texts.push(format!("Non-watchable resources will not be served: {}", set(&resolved.unwatchable)));
    }
    if !resolved.unpatchable.is_empty() {
        texts.push(format!("Non-patchable resources will not be served: {}", set(&resolved.unpatchable)));
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
        let resolved = ResolvedSelectors {
            ambiguous: vec![(0, vec![resource("a"), resource("b")])],
            unresolved: vec![1, 0, 1],
            unwatchable: vec![resource("c")],
            unpatchable: vec![resource("d")],
            ..ResolvedSelectors::default()
        };
        assert_eq!(
            warnings(&[selector("x"), selector("y")], &resolved),
            [
                "Ambiguous resources will not be served (try specifying API groups): Selector(any_name='x') => {things.v1.a, things.v1.b}",
                "Unresolved resources cannot be served (try creating their CRDs): Selector(any_name='y')",
                "Non-watchable resources will not be served: {things.v1.c}",
                "Non-patchable resources will not be served: {things.v1.d}",
            ]
        );
    }
}
