//! The log of one object, written with `tracing`.
//!
//! Handlers can use the macros of `tracing` instead: each call runs in a span with the object and the handler.
//! The logger also works where the span does not reach, such as in spawned tasks.

use std::fmt::Display;
use std::sync::Arc;

use kopf_engine::Severity;
use kopf_object::ObjectReference;
use kopf_reaction::Activity;

use super::{OBJECTS, emit};

/// Logs about the object of the handler, or about the activity.
///
/// ```
/// use kopf::extract::{Logger, Meta};
/// use kopf::{Operator, on};
///
/// async fn create(meta: Meta, logger: Logger) {
///     logger.info(format_args!("{} was created.", meta.name()));
/// }
/// # let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
/// ```
#[derive(Clone, Debug)]
pub struct Logger {
    /// The name of the logger, such as `kopf.objects`.
    name: &'static str,
    reference: Option<Arc<ObjectReference>>,
}

impl Logger {
    /// A logger without an object, for calling handlers in tests.
    pub fn new() -> Self {
        Self { name: OBJECTS, reference: None }
    }

    pub(crate) fn of_object(reference: &Arc<ObjectReference>) -> Self {
        Self { name: OBJECTS, reference: Some(Arc::clone(reference)) }
    }

    pub(crate) fn of_activity(activity: Activity) -> Self {
        let name = match activity {
            Activity::Startup => "kopf.activities.startup",
            Activity::Cleanup => "kopf.activities.cleanup",
            Activity::Authentication => "kopf.activities.authentication",
            Activity::Probe => "kopf.activities.probe",
        };
        Self { name, reference: None }
    }

    /// Logs a message for developers.
    pub fn debug(&self, message: impl Display) {
        self.log(Severity::Debug, &message);
    }

    /// Logs what happened.
    pub fn info(&self, message: impl Display) {
        self.log(Severity::Info, &message);
    }

    /// Logs what may be wrong.
    pub fn warn(&self, message: impl Display) {
        self.log(Severity::Warning, &message);
    }

    /// Logs what is wrong.
    pub fn error(&self, message: impl Display) {
        self.log(Severity::Error, &message);
    }

    fn log(&self, level: Severity, message: &dyn Display) {
        emit(level, self.name, message, self.reference.as_deref(), None);
    }
}

impl Default for Logger {
    fn default() -> Self {
        Self::new()
    }
}
