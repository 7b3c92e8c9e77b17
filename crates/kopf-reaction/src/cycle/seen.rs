//! What finished handlers have seen, while others of the same object are not finished.

use std::sync::Arc;

use kopf_object::{diff, encode_essence_within};
use serde_json::Value;

use super::Cycle;
use crate::{Cause, HandlerState, Reason, StorageOperation};

/// How long the essence may be that is stored with each finished handler of an unfinished batch. What is longer is
/// compressed, or has digests instead of large values.
const SEEN_ESSENCE_AT_MOST: usize = 2048;

impl Cycle {
    /// What a finished handler of an unfinished batch has seen, by the record that it has left.
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

    /// Everything is handled, as far as it was seen.
    pub(super) fn store_essence(&mut self, cause: &Cause) {
        self.conclusion.fully_handled = true;
        if cause.reason == Reason::Delete {
            self.conclusion.partly_handled = None;
        }
        self.store_seen(cause);
    }

    /// Whether a finished handler has seen something else than there is now.
    pub(super) fn has_missed(&self, cause: &Cause) -> bool {
        let seen = self.conclusion.partly_handled.as_deref().and_then(Value::as_array);
        seen.is_some_and(|seen| seen.iter().any(|seen| Some(seen) != cause.new.as_ref()))
    }

    /// What was handled last is what is there now; but where a finished handler has seen something else, it is that.
    pub(super) fn store_seen(&mut self, cause: &Cause) {
        let missed = self.has_missed(cause);
        let seen = self.take_seen();
        let Some(new) = &cause.new else { return };
        let essence = as_seen(new, &seen);
        if missed {
            // The change is still to be handled; storages elsewhere give no event that would tell it.
            self.conclusion.delay = Some(0.0);
            // What is there now was seen too, by the other handlers; but that is not what is stored.
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

/// The essence, as it is stored with each handler that has finished with it.
pub(crate) fn encode_seen_essence(essence: &Value) -> String {
    encode_essence_within(essence, SEEN_ESSENCE_AT_MOST).trim_end().to_owned()
}

/// An essence that differs from the new one wherever one of the seen ones does, so that an update gets to know it.
fn as_seen(new: &Value, seen: &[Value]) -> Value {
    let mut essence = new.clone();
    for seen in seen {
        let mut difference = diff(Some(new), Some(seen));
        difference.0.retain(|item| item.field.resolve(&essence) == item.field.resolve(new));
        essence = difference.apply(&essence);
    }
    essence
}
