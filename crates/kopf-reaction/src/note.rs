//! Notes: log lines as data, which the engine writes to the log and posts as Kubernetes Events.
//!
//! The wording is part of the contract with users: their tests match on it.

/// How important a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For debugging only.
    Debug,
    /// What happens normally.
    Info,
    /// Something unexpected, which the operator can handle.
    Warning,
    /// A failure.
    Error,
}

/// One line for the log of the object (or of the activity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How important it is.
    pub severity: Severity,
    /// The message.
    pub text: String,
    /// The log shows the error of the last call with it, including the traceback.
    pub traceback: bool,
    /// Technical: never posted as a Kubernetes Event.
    pub local: bool,
}

impl Note {
    /// A note that belongs to no error and is posted as an Event, too.
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into(), traceback: false, local: false }
    }

    /// See [`Severity::Debug`].
    pub fn debug(text: impl Into<String>) -> Self {
        Self::new(Severity::Debug, text)
    }

    /// See [`Severity::Info`].
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Severity::Info, text)
    }

    /// See [`Severity::Error`].
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Severity::Error, text)
    }

    /// See [`Severity::Warning`].
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text)
    }

    /// Only for the log, never posted as an Event.
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    /// With the error of the last call and its traceback.
    pub fn with_traceback(mut self) -> Self {
        self.traceback = true;
        self
    }
}
