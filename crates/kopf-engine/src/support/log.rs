//! Log records on their way from the engine to a front.
//!
//! The engine never writes to a stream: users configure, filter and capture the log on their side
//! (`logging` in Python, `tracing` in Rust). A disabled record costs one comparison.

use std::any::Any;
use std::sync::Arc;

use kopf_object::ObjectReference;
use kopf_reaction::{Note, Severity};

/// The logger of everything about objects.
pub(crate) const OBJECTS: &str = "kopf.objects";

/// An error of the user's code, kept as the front knows it, for its traceback.
pub type FrontError = Arc<dyn Any + Send + Sync>;

/// One log record.
#[derive(Clone)]
pub struct Record {
    pub severity: Severity,
    /// The name of the logger, such as `kopf.objects`.
    pub target: &'static str,
    pub message: String,
    /// The object that the record is about; None for the operator's own records.
    pub reference: Option<Arc<ObjectReference>>,
    /// Never posted as a Kubernetes Event.
    pub local: bool,
    /// The error whose traceback belongs to the record.
    pub error: Option<FrontError>,
}

/// Where records go: implemented by every front.
pub trait Sink: Send + Sync + 'static {
    fn enabled(&self, severity: Severity, target: &'static str) -> bool;
    fn emit(&self, record: Record);
}

/// A cheap handle to the sink, held by every part of the engine.
#[derive(Clone)]
pub struct Log {
    sink: Arc<dyn Sink>,
}

impl Log {
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink }
    }

    /// A log that drops everything, for tests and tools.
    pub fn silent() -> Self {
        struct Silence;
        impl Sink for Silence {
            fn enabled(&self, _: Severity, _: &'static str) -> bool {
                false
            }
            fn emit(&self, _: Record) {}
        }
        Self { sink: Arc::new(Silence) }
    }

    pub fn enabled(&self, severity: Severity, target: &'static str) -> bool {
        self.sink.enabled(severity, target)
    }

    pub fn record(&self, record: Record) {
        if self.sink.enabled(record.severity, record.target) {
            self.sink.emit(record);
        }
    }

    pub fn emit(&self, severity: Severity, target: &'static str, message: String) {
        self.record(Record { severity, target, message, reference: None, local: true, error: None });
    }

    /// A line about an object. It is never posted as a Kubernetes event.
    pub(crate) fn about(&self, reference: &Arc<ObjectReference>, severity: Severity, message: String) {
        let reference = Some(Arc::clone(reference));
        self.record(Record { severity, target: OBJECTS, message, reference, local: true, error: None });
    }

    /// An error about an object, with the traceback of the user's code if there is one.
    pub(crate) fn error_about(&self, reference: &Arc<ObjectReference>, message: String, error: Option<FrontError>) {
        let (severity, reference) = (Severity::Error, Some(Arc::clone(reference)));
        self.record(Record { severity, target: OBJECTS, message, reference, local: true, error });
    }

    /// What the decisions of `kopf-reaction` have to say about an object; the error is that of the last call.
    pub(crate) fn notes_about(
        &self,
        reference: &Arc<ObjectReference>,
        notes: impl IntoIterator<Item = Note>,
        error: Option<&FrontError>,
    ) {
        self.notes(OBJECTS, Some(reference), notes, error);
    }

    /// The same for any logger, and possibly about no object.
    pub(crate) fn notes(
        &self,
        target: &'static str,
        reference: Option<&Arc<ObjectReference>>,
        notes: impl IntoIterator<Item = Note>,
        error: Option<&FrontError>,
    ) {
        for Note { severity, text: message, traceback, local } in notes {
            let error = if traceback { error.cloned() } else { None };
            self.record(Record { severity, target, message, reference: reference.cloned(), local, error });
        }
    }

    pub fn debug(&self, target: &'static str, message: String) {
        self.emit(Severity::Debug, target, message);
    }

    pub fn info(&self, target: &'static str, message: String) {
        self.emit(Severity::Info, target, message);
    }

    pub fn warn(&self, target: &'static str, message: String) {
        self.emit(Severity::Warning, target, message);
    }

    pub fn error(&self, target: &'static str, message: String) {
        self.emit(Severity::Error, target, message);
    }
}
