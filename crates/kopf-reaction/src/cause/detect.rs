//! Why the change handlers of an object are looked at.
//!
//! The essence that was handled last is compared with the essence of now; deletion goes before all.

use crate::{EventType, Reason};

/// A reason, and whether the resuming handlers are mixed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectedReason {
    pub reason: Reason,
    /// The object was there when the operator started, and was not handled in full since.
    pub initial: bool,
}

/// The facts from which the cause follows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub event: Option<EventType>,
    /// `metadata.deletionTimestamp` is there.
    pub deletion_ongoing: bool,
    /// Our finalizer is there.
    pub deletion_blocked: bool,
    /// There is a record of what was handled last.
    pub handled_before: bool,
    /// The record differs from the essence of now.
    pub changed: bool,
    /// Noticed by the first listing, and not handled in full since.
    pub initial: bool,
}

/// Tells why the change handlers of an object are to be looked at.
pub fn detect(facts: Facts) -> DetectedReason {
    let Facts { event, deletion_ongoing, deletion_blocked, handled_before, changed, initial } = facts;
    let reason = if event == Some(EventType::Deleted) {
        Reason::Gone
    } else if deletion_ongoing && !deletion_blocked {
        Reason::Free
    } else if deletion_ongoing {
        Reason::Delete
    } else if !handled_before {
        // A creation is never mixed with resuming, even if it was noticed at the start.
        return DetectedReason { reason: Reason::Create, initial: false };
    } else if changed {
        Reason::Update
    } else if initial {
        Reason::Resume
    } else {
        Reason::Noop
    };
    DetectedReason { reason, initial }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes() {
        use EventType::{Deleted, Modified};
        // event, deletion ongoing, blocked, handled before, changed, initial -> reason, initial
        let table = [
            (Some(Deleted), true, true, true, true, false, Reason::Gone, false),
            (Some(Deleted), false, false, false, true, false, Reason::Gone, false),
            (Some(Modified), true, false, true, true, false, Reason::Free, false),
            (Some(Modified), true, true, false, true, false, Reason::Delete, false),
            (None, true, true, true, false, true, Reason::Delete, true),
            (None, false, false, false, true, true, Reason::Create, false),
            (Some(Modified), false, true, false, true, false, Reason::Create, false),
            (Some(Modified), false, true, true, true, false, Reason::Update, false),
            (None, false, true, true, true, true, Reason::Update, true),
            (None, false, true, true, false, true, Reason::Resume, true),
            (Some(Modified), false, true, true, false, false, Reason::Noop, false),
        ];
        for (event, deletion_ongoing, deletion_blocked, handled_before, changed, initial, reason, mixed) in table {
            let facts = Facts { event, deletion_ongoing, deletion_blocked, handled_before, changed, initial };
            assert_eq!(detect(facts), DetectedReason { reason, initial: mixed }, "{facts:?}");
        }
    }
}
