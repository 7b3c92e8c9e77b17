//! Log records on their way from the engine to a front.
//!
//! The engine never writes to a stream: users configure, filter and capture the log on their side
//! (`logging` in Python, `tracing` in Rust). A disabled record costs one comparison.

use std::any::Any;
use std::sync::Arc;

use kopf_object::ObjectReference;

/// How much a record matters; the numbers are those of Python's `logging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Error = 40,
}

/// An error of the user's code, kept as the front knows it, for its traceback.
pub type FrontError = Arc<dyn Any + Send + Sync>;

/// One log record.
#[derive(Clone)]
pub struct Record {
    pub level: Level,
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
    fn enabled(&self, level: Level, target: &'static str) -> bool;
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
            fn enabled(&self, _: Level, _: &'static str) -> bool {
                false
            }
            fn emit(&self, _: Record) {}
        }
        Self { sink: Arc::new(Silence) }
    }

    pub fn enabled(&self, level: Level, target: &'static str) -> bool {
        self.sink.enabled(level, target)
    }

    pub fn record(&self, record: Record) {
        if self.sink.enabled(record.level, record.target) {
            self.sink.emit(record);
        }
    }

    pub fn emit(&self, level: Level, target: &'static str, message: String) {
        self.record(Record { level, target, message, reference: None, local: true, error: None });
    }

    pub fn debug(&self, target: &'static str, message: String) {
        self.emit(Level::Debug, target, message);
    }

    pub fn info(&self, target: &'static str, message: String) {
        self.emit(Level::Info, target, message);
    }

    pub fn warn(&self, target: &'static str, message: String) {
        self.emit(Level::Warning, target, message);
    }

    pub fn error(&self, target: &'static str, message: String) {
        self.emit(Level::Error, target, message);
    }
}
