//! What has happened in a simulated life, to check that no handler is lost and no success repeated.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kopf_reaction::Reason;
use serde_json::Value;

/// What is known about the past, to check in the end that nothing was lost.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// What each handler has seen (of its field) when it was finished, and whether it succeeded.
    pub seen: HashMap<Arc<str>, (Value, bool)>,
    pub finished_deletions: HashSet<Arc<str>>,
    /// Finished ones which an operator has taken over from its predecessor: they do not resume again.
    pub inherited: HashSet<Arc<str>>,
    pub was_held_at_deletion: bool,
    pub tier_was_edited: bool,
    pub essences_stored: usize,
    /// Finished and stored in the batch under way.
    pub(super) finished_in_batch: HashSet<Arc<str>>,
    /// The handlers with stored successes: the reason, and how many essences and edits there were.
    pub(super) succeeded: HashSet<(Arc<str>, Reason, usize, usize)>,
    /// How many attempts of a handler are stored in its batch.
    pub(super) attempts: HashMap<(Arc<str>, usize), u32>,
    pub(super) edits: usize,
    /// Counts up whenever counters may start again: with each reason, and with each stored essence.
    pub(super) batches: usize,
    pub(super) last_reason: Option<Reason>,
}

impl History {
    /// Whether the handler or one of its parents has failed.
    pub(crate) fn has_failed_above(&self, id: &str) -> bool {
        let parents = id.match_indices('/').map(|(position, _)| &id[..position]);
        parents.into_iter().any(|parent| self.seen.get(parent).is_some_and(|(_, success)| !success))
    }
}

/// What has happened in one cycle; it counts only if it gets stored.
pub(super) struct Draft {
    /// The handler, what it has seen, whether it has succeeded.
    pub(super) finished: Vec<(Arc<str>, Value, bool)>,
    pub(super) tried: Vec<Arc<str>>,
    /// The calls that have raised an error, whatever that means for the handler.
    pub(super) raised: Vec<Arc<str>>,
    /// The edits that are in the body.
    pub(super) edits: usize,
}
