//! Whether the operator pauses: no stream runs and no handler is called, until nobody has a reason any more.
//!
//! The peering gives the reasons. The streams, the queue and the background tasks look at it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The reasons to pause of one operator; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    reasons: Mutex<BTreeSet<String>>,
    paused: watch::Sender<bool>,
}

impl Pauses {
    /// Gives or withdraws a reason.
    pub(crate) fn set(&self, reason: &str, holds: bool) {
        let mut reasons = self.inner.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        if holds {
            reasons.insert(reason.to_owned());
        } else {
            reasons.remove(reason);
        }
        let paused = !reasons.is_empty();
        self.inner.paused.send_if_modified(|known| std::mem::replace(known, paused) != paused);
    }

    pub(crate) fn is_blocked_by(&self, reason: &str) -> bool {
        self.inner.reasons.lock().unwrap_or_else(PoisonError::into_inner).contains(reason)
    }

    pub fn is_paused(&self) -> bool {
        *self.inner.paused.borrow()
    }

    /// True while the operator pauses; changes with it.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.inner.paused.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_as_long_as_there_is_any_reason() {
        let pauses = Pauses::default();
        let mut paused = pauses.subscribe();
        pauses.set("a", false);
        assert!(!pauses.is_paused() && !paused.has_changed().unwrap());
        pauses.set("a", true);
        pauses.set("b", true);
        assert!(*paused.borrow_and_update());
        pauses.set("a", false);
        assert!(pauses.is_paused() && !paused.has_changed().unwrap());
        pauses.set("b", false);
        assert!(!*paused.borrow_and_update());
    }
}
