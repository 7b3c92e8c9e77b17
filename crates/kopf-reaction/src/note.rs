//! What the decisions have to say to people: log lines, as data.
//!
//! The wording is part of the contract: users and their tests match on it.

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Debug,
    Info,
    Warning,
    Error,
}

/// One line for the log of the object (or of the activity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub severity: Severity,
    pub text: String,
    /// The error of the last call belongs to it, with its traceback.
    pub traceback: bool,
    /// Technical: never posted as a Kubernetes Event.
    pub local: bool,
}

impl Note {
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into(), traceback: false, local: false }
    }

    pub fn debug(text: impl Into<String>) -> Self {
        Self::new(Severity::Debug, text)
    }

    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Severity::Info, text)
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Severity::Error, text)
    }

    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text)
    }

    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    pub fn with_traceback(mut self) -> Self {
        self.traceback = true;
        self
    }
}
