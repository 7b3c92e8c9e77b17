//! Why handlers are called: the reasons that they declare, and the types of events.

use serde::{Deserialize, Serialize};

/// What has happened to an object, as far as its change handlers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Never handled before.
    Create,
    /// Differs from what was handled last.
    Update,
    /// Marked for deletion, and the operator's finalizer blocks it.
    Delete,
    /// Unchanged, but new to this process.
    Resume,
    /// The essence has not changed.
    Noop,
    /// Marked for deletion, and the operator's finalizer does not block it (any more).
    Free,
    /// The object does not exist any more.
    Gone,
}

impl Reason {
    /// The reason in stored records and for users.
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

    /// The name of the handling in the log.
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

/// How the operator has got a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The first listing has shown the object.
    Listed,
    /// The object is new.
    Added,
    /// The object has changed.
    Modified,
    /// The object does not exist any more.
    Deleted,
}

impl EventType {
    /// The type as users get it; `None` for listed objects.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}
