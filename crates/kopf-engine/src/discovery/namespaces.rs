//! Which namespaces are served: patterns, and the namespaces that come and go. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use kopf_reaction::EventType;

/// One namespace, or a description of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespacePattern {
    /// A name, or comma-separated globs, those with `!` excluding.
    Globs(String),
    /// Decided by the front, which knows more kinds of patterns.
    Callback,
}

impl NamespacePattern {
    /// The namespace that is meant without looking at the cluster, if it is exactly one.
    pub fn exact_name(&self) -> Option<&str> {
        match self {
            Self::Globs(text) if !text.contains(['!', '*', '?', ',']) => Some(text),
            _ => None,
        }
    }
}

/// Whether the namespace matches the comma-separated globs.
///
/// The first glob decides whether the namespace is meant at all (everything is, if the first one
/// excludes); each of the following ones excludes it, or takes it in again after an exclusion.
pub(crate) fn matches_globs(name: &str, globs: &str) -> bool {
    let mut globs = globs.split(',').map(str::trim).peekable();
    let meant = match globs.peek() {
        Some(first) if !first.starts_with('!') => globs.next().is_some_and(|first| matches_glob(name, first)),
        _ => true,
    };
    globs.fold(meant, |matching, glob| match glob.strip_prefix('!') {
        Some(excluded) => matching && !matches_glob(name, excluded.trim_start_matches('!')),
        None => matching || (meant && matches_glob(name, glob)),
    })
}

/// Whether the text matches the glob with `*`, `?`, `[a-z]` and `[!a-z]`, as in a shell.
fn matches_glob(text: &str, glob: &str) -> bool {
    let (text, glob): (Vec<char>, Vec<char>) = (text.chars().collect(), glob.chars().collect());
    matches_chars(&text, &glob)
}

fn matches_chars(text: &[char], glob: &[char]) -> bool {
    let Some((first, glob_rest)) = glob.split_first() else { return text.is_empty() };
    if *first == '*' {
        // Several stars in a row mean the same as one; without this they cost exponential time.
        let glob_rest = &glob_rest[glob_rest.iter().take_while(|one| **one == '*').count()..];
        return (0..=text.len()).any(|start| matches_chars(&text[start..], glob_rest));
    }
    let Some((character, text_rest)) = text.split_first() else { return false };
    match first {
        '?' => matches_chars(text_rest, glob_rest),
        '[' => match split_set(glob_rest) {
            Some((set, glob_rest)) => in_set(*character, set) && matches_chars(text_rest, glob_rest),
            None => *character == '[' && matches_chars(text_rest, glob_rest),
        },
        literal => literal == character && matches_chars(text_rest, glob_rest),
    }
}

/// The inside of a set and what follows it; None if it is not closed.
fn split_set(glob: &[char]) -> Option<(&[char], &[char])> {
    // A bracket in the first place belongs to the set.
    let skipped = 1 + usize::from(glob.first() == Some(&'!'));
    let end = skipped + glob.get(skipped..)?.iter().position(|one| *one == ']')?;
    Some((&glob[..end], &glob[end + 1..]))
}

fn in_set(character: char, set: &[char]) -> bool {
    let (negated, mut set) = match set.split_first() {
        Some(('!', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while let Some((first, rest)) = set.split_first() {
        set = match rest {
            ['-', last, rest @ ..] => {
                found |= (*first..=*last).contains(&character);
                rest
            }
            _ => {
                found |= *first == character;
                rest
            }
        };
    }
    found != negated
}

/// The served namespaces, as the events about them come.
#[derive(Debug, Default)]
pub(super) struct NamespaceTracker {
    served: BTreeSet<Arc<str>>,
    /// Those seen in the listing that is going on.
    listed: BTreeSet<Arc<str>>,
}

/// What matters of a namespace object.
#[derive(Debug, Deserialize)]
pub(super) struct NamespaceObject {
    metadata: NamespaceMetadata,
    status: Option<NamespaceStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceMetadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NamespaceStatus {
    conditions: Option<Vec<NamespaceCondition>>,
}

#[derive(Debug, Deserialize)]
struct NamespaceCondition {
    #[serde(default)]
    status: String,
}

impl NamespaceObject {
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether nothing is left in it: it is deleted, or about to be, with nothing in the way.
    fn is_over(&self, kind: EventType) -> bool {
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let marked = self.metadata.deletion_timestamp.is_some() && !conditions.is_empty();
        let blocked = conditions.iter().any(|condition| condition.status == "True");
        kind == EventType::Deleted || (marked && !blocked)
    }
}

impl NamespaceTracker {
    /// Serves these without looking at the cluster.
    pub(super) fn assume(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.served.extend(names);
    }

    pub(super) fn listing_started(&mut self) {
        self.listed.clear();
    }

    /// Takes in an event about a namespace. Says whether the served ones have changed.
    pub(super) fn handle(&mut self, kind: EventType, object: &NamespaceObject, matching: bool) -> bool {
        let name: Arc<str> = Arc::from(object.name());
        if kind == EventType::Listed {
            self.listed.insert(Arc::clone(&name));
        }
        if object.is_over(kind) {
            self.served.remove(&name)
        } else if matching {
            // Also while it is being deleted: its objects may wait for us to let them go.
            self.served.insert(name)
        } else {
            false
        }
    }

    /// Drops what was not listed. Says whether the served ones have changed.
    pub(super) fn listing_done(&mut self) -> bool {
        let before = self.served.len();
        self.served.retain(|name| self.listed.contains(name));
        self.listed.clear();
        before != self.served.len()
    }

    pub(super) fn served(&self) -> impl Iterator<Item = &Arc<str>> {
        self.served.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        // The pattern, what matches, and what does not.
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("ns", &["ns"], &["ns1", "n", ""]),
            ("ns*", &["ns", "ns1"], &["xns"]),
            ("n?", &["ns"], &["n", "nss"]),
            ("*", &["anything", ""], &[]),
            ("n[a-c]x[!0-9]", &["naxb", "ncx-"], &["ndxb", "nax1"]),
            ("[]]", &["]"], &["["]),
            ("[x", &["[x"], &["x"]),
            ("a, b", &["a"], &["b", "c"]),
            ("*, !a", &["b"], &["a"]),
            ("!a", &["b"], &["a"]),
            ("!!a", &["b"], &["a"]),
            (
                "myapp-*, !*-pr-*, *pr-123",
                &["myapp-test", "myapp-live", "myapp-pr-123"],
                &["myapp-pr-456", "otherapp-pr-123"],
            ),
            (
                "!*-pr-*, *pr-123",
                &["myapp-test", "myapp-pr-123", "anyapp-anything", "otherapp-pr-123"],
                &["myapp-pr-456"],
            ),
        ];
        for (pattern, matching, others) in cases {
            for name in *matching {
                assert!(matches_globs(name, pattern), "{pattern} must match {name:?}");
            }
            for name in *others {
                assert!(!matches_globs(name, pattern), "{pattern} must not match {name:?}");
            }
        }
    }

    #[test]
    fn exact_names() {
        let exact = |text: &str| NamespacePattern::Globs(text.into()).exact_name().is_some();
        assert!(exact("ns"));
        assert!(!exact("n*") && !exact("!ns") && !exact("a,b") && !exact("n?"));
        assert_eq!(NamespacePattern::Callback.exact_name(), None);
    }

    fn object(name: &str, deleting: bool, conditions: &[&str]) -> NamespaceObject {
        let conditions: Vec<_> = conditions.iter().map(|status| serde_json::json!({"status": status})).collect();
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "deletionTimestamp": deleting.then_some("2030-01-01T00:00:00Z")},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn names(tracker: &NamespaceTracker) -> Vec<&str> {
        tracker.served().map(|name| &**name).collect()
    }

    #[test]
    fn namespaces_come_and_go() {
        let mut tracker = NamespaceTracker::default();
        tracker.listing_started();
        assert!(tracker.handle(EventType::Listed, &object("a", false, &[]), true));
        assert!(!tracker.handle(EventType::Listed, &object("x", false, &[]), false));
        assert!(!tracker.listing_done());
        assert!(tracker.handle(EventType::Added, &object("b", false, &[]), true));
        assert!(!tracker.handle(EventType::Modified, &object("b", false, &[]), true));
        assert_eq!(names(&tracker), ["a", "b"]);
        // Marked for deletion: kept while its content is in the way.
        assert!(!tracker.handle(EventType::Modified, &object("a", true, &[]), true));
        assert!(!tracker.handle(EventType::Modified, &object("a", true, &["True", "False"]), true));
        assert!(tracker.handle(EventType::Modified, &object("a", true, &["False"]), true));
        assert!(!tracker.handle(EventType::Deleted, &object("a", true, &["False"]), true));
        assert_eq!(names(&tracker), ["b"]);
        assert!(tracker.handle(EventType::Deleted, &object("b", true, &["True"]), true));
        assert!(tracker.handle(EventType::Listed, &object("c", true, &["True"]), true));
        assert_eq!(names(&tracker), ["c"]);
    }

    #[test]
    fn a_listing_drops_what_has_gone_unseen() {
        let mut tracker = NamespaceTracker::default();
        tracker.assume([Arc::from("a"), Arc::from("b")]);
        tracker.listing_started();
        tracker.handle(EventType::Listed, &object("b", false, &[]), true);
        assert!(tracker.listing_done());
        assert_eq!(names(&tracker), ["b"]);
    }
}
