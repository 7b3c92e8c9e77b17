//! Why handlers are called: the reasons that handlers declare, and the types of events.

use serde::{Deserialize, Serialize};

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
