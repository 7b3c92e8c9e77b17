//! The essences that finished handlers have seen, while other handlers of the same object are not finished.
//!
//! If the object changes meanwhile, the finished handlers have missed that change. The cycle then stores what they have
//! seen as handled, so that the change becomes the next update.

use std::sync::Arc;

use kopf_object::{diff, encode_essence_within};
use serde_json::Value;

use super::Cycle;
use crate::{Cause, HandlerState, Reason, StorageOperation};

/// The limit in bytes for the essence in the record of each finished handler. Longer ones are compressed or shortened.
const SEEN_ESSENCE_AT_MOST: usize = 2048;

impl Cycle {
    /// Adds the essence in the record of a finished handler of an unfinished batch.
    pub(super) fn recall_seen(&mut self, cause: &Cause, id: &Arc<str>, state: &HandlerState) {
        let is_of_a_change = [Reason::Create, Reason::Update].iter().any(|reason| {
            let counts = matches!(cause.reason, Reason::Noop | Reason::Resume) || cause.reason == *reason;
            counts && state.purpose.as_deref() == Some(reason.as_str())
        });
        let Some(seen) = state.seen(cause.new.as_ref()).filter(|_| is_of_a_change) else { return };
        if Some(&seen) != cause.new.as_ref() {
            self.behind.push(Arc::clone(id));
        }
        self.add_seen(seen);
    }

    pub(super) fn add_seen(&mut self, essence: Value) {
        let mut seen = self.take_seen();
        if !seen.contains(&essence) {
            seen.push(essence);
        }
        self.conclusion.partly_handled = Some(Arc::new(Value::Array(seen)));
    }

    /// All handlers are finished.
    pub(super) fn store_essence(&mut self, cause: &Cause) {
        self.conclusion.fully_handled = true;
        if cause.reason == Reason::Delete {
            self.conclusion.partly_handled = None;
        }
        self.store_seen(cause);
    }

    /// Whether a finished handler has seen another essence than the current one.
    pub(super) fn has_missed(&self, cause: &Cause) -> bool {
        let seen = self.conclusion.partly_handled.as_deref().and_then(Value::as_array);
        seen.is_some_and(|seen| seen.iter().any(|seen| Some(seen) != cause.new.as_ref()))
    }

    /// Stores the current essence as handled; but where a finished handler has seen something else, that.
    pub(super) fn store_seen(&mut self, cause: &Cause) {
        let missed = self.has_missed(cause);
        let seen = self.take_seen();
        let Some(new) = &cause.new else { return };
        let essence = as_seen(new, &seen);
        if missed {
            // The change is not handled yet; where the storage is not on the object, no event would follow.
            self.conclusion.delay = Some(0.0);
            // The other handlers have seen the current essence, which is not the stored one.
            self.conclusion.partly_handled = Some(Arc::new(Value::Array(vec![new.clone()])));
        }
        if cause.old.as_ref() != Some(&essence) {
            self.operations.push(StorageOperation::DiffBase { essence });
        }
    }

    pub(super) fn take_seen(&mut self) -> Vec<Value> {
        match self.conclusion.partly_handled.take().map(Arc::unwrap_or_clone) {
            Some(Value::Array(seen)) => seen,
            _ => Vec::new(),
        }
    }
}

/// Encodes an essence for the record of a handler that has finished with it.
pub(crate) fn encode_seen_essence(essence: &Value) -> String {
    encode_essence_within(essence, SEEN_ESSENCE_AT_MOST).trim_end().to_owned()
}

/// An essence that differs from the new one wherever one of the seen ones does, so that the next update has the change.
fn as_seen(new: &Value, seen: &[Value]) -> Value {
    let mut essence = new.clone();
    for seen in seen {
        let mut difference = diff(Some(new), Some(seen));
        difference.0.retain(|item| item.field.resolve(&essence) == item.field.resolve(new));
        essence = difference.apply(&essence);
    }
    essence
}
