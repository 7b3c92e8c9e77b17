//! The cause: what an event means for the handlers, and what they get to see of it.

use std::sync::Arc;

use kopf_object::{Body, Diff, diff};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FilterSubject, Handler};

/// One moment of one object, as the handlers get to see it.
#[derive(Clone, Debug)]
pub struct Cause {
    pub body: Body,
    /// The event that has brought the body; None if it came as the answer to a patch, or was waited with.
    pub event: Option<EventType>,
    pub reason: Reason,
    /// The object was there when the operator started, and was not handled in full since.
    pub initial: bool,
    /// The essence as it was handled last.
    pub old: Option<Value>,
    /// The essence of now.
    pub new: Option<Value>,
    pub diff: Diff,
    pub deletion_ongoing: bool,
}

impl Cause {
    /// What the filters of events look at.
    pub fn as_event(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: None }
    }

    /// What the filters of changes look at.
    pub fn as_change(&self) -> FilterSubject<'_> {
        FilterSubject { body: &self.body, change: Some((self.old.as_ref(), self.new.as_ref())) }
    }

    /// The handlers that are declared for the reason, before any filters.
    pub(crate) fn declared_for(&self, handlers: &[Arc<Handler>]) -> Vec<Arc<Handler>> {
        handlers
            .iter()
            .filter(|handler| handler.reason.is_none_or(|reason| reason == self.reason))
            .filter(|handler| !handler.initial || (self.initial && (!self.deletion_ongoing || handler.deleted)))
            .cloned()
            .collect()
    }

    /// Old, new and diff as one handler gets them: those of its field if it has one.
    pub fn change_for(&self, handler: &Handler) -> (Option<Value>, Option<Value>, Diff) {
        match &handler.field {
            None => (self.old.clone(), self.new.clone(), self.diff.clone()),
            Some(field) => {
                let resolve =
                    |essence: &Option<Value>| essence.as_ref().and_then(|value| field.resolve(value)).cloned();
                (resolve(&self.old), resolve(&self.new), self.diff.reduce(field))
            }
        }
    }

    pub(crate) fn difference(old: Option<&Value>, new: Option<&Value>) -> Diff {
        diff(old, new)
    }
}

/// Why the change handlers of an object are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Never handled before.
    Create,
    /// Differs from what was handled last.
    Update,
    /// Marked for deletion, and we hold it.
    Delete,
    /// Unchanged, but seen for the first time by this process.
    Resume,
    /// Nothing of interest.
    Noop,
    /// Marked for deletion, and we do not hold it (any more).
    Free,
    /// Not there any more.
    Gone,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::Noop => "noop",
            Self::Free => "free",
            Self::Gone => "gone",
        }
    }

    /// Whether handlers are called for it.
    pub const fn has_handlers(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Delete | Self::Resume)
    }

    /// How the handling is called in the log.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Create => "creation",
            Self::Update => "updating",
            Self::Delete => "deletion",
            Self::Resume => "resuming",
            Self::Noop => "'noop'",
            Self::Free => "'free'",
            Self::Gone => "'gone'",
        }
    }
}

/// The title of a stored purpose: of a reason if it is one, otherwise the purpose itself.
pub(crate) fn purpose_title(purpose: &str) -> String {
    match purpose {
        "create" => Reason::Create.title().to_owned(),
        "update" => Reason::Update.title().to_owned(),
        "delete" => Reason::Delete.title().to_owned(),
        "resume" => Reason::Resume.title().to_owned(),
        other => crate::text::repr_str(other),
    }
}

/// How a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// By the first listing.
    Listed,
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As the handlers get to see it.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}
