//! Detects why change handlers are called, from a comparison of the last handled essence with the current one. A
//! deletion goes before everything else.

use crate::{EventType, Reason};

/// The reason, and whether resuming handlers are mixed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectedReason {
    /// Why the change handlers are called.
    pub reason: Reason,
    /// The object existed before the operator started, and was not handled in full since.
    pub initial: bool,
}

/// The facts from which the reason follows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The event of the body, if it comes from one.
    pub event: Option<EventType>,
    /// The object has a `metadata.deletionTimestamp`.
    pub deletion_ongoing: bool,
    /// The object has the operator's finalizer.
    pub deletion_blocked: bool,
    /// The object has a record of the last handled essence.
    pub handled_before: bool,
    /// The last handled essence differs from the current one.
    pub changed: bool,
    /// The first listing has shown the object, and it was not handled in full since.
    pub initial: bool,
}

/// Detects why the change handlers of an object are called.
///
/// ```
/// use kopf_reaction::{Facts, Reason, detect};
///
/// let facts = Facts {
///     event: None,
///     deletion_ongoing: false,
///     deletion_blocked: false,
///     handled_before: true,
///     changed: true,
///     initial: false,
/// };
/// assert_eq!(detect(facts).reason, Reason::Update);
/// assert_eq!(detect(Facts { deletion_ongoing: true, deletion_blocked: true, ..facts }).reason, Reason::Delete);
/// ```
pub fn detect(facts: Facts) -> DetectedReason {
    let Facts { event, deletion_ongoing, deletion_blocked, handled_before, changed, initial } = facts;
    let reason = if event == Some(EventType::Deleted) {
        Reason::Gone
    } else if deletion_ongoing && !deletion_blocked {
        Reason::Free
    } else if deletion_ongoing {
        Reason::Delete
    } else if !handled_before {
        // A creation is never mixed with resuming, even if the first listing has shown it.
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
    fn the_reason_follows_from_the_facts() {
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
