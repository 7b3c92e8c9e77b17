//! The log of one object, by `tracing`.
//!
//! Handlers may as well use the macros of `tracing`: each call runs in a span with the object and
//! the handler. The logger also works where the span does not reach, such as in spawned tasks.

use std::fmt::Display;
use std::sync::Arc;

use kopf_engine::Level;
use kopf_object::ObjectReference;
use kopf_reaction::Activity;

use crate::Result;
use crate::call::AnyCall;
use crate::extract::FromCall;
use crate::logging;

/// Logs about the object that is handled, or about the activity.
///
/// ```
/// use kopf::{Logger, Meta};
///
/// async fn create(meta: Meta, logger: Logger) {
///     logger.info(format_args!("{} was created.", meta.name()));
/// }
/// # let _: kopf::Operator = kopf::Operator::new().on(kopf::create("kopfexamples"), create);
/// ```
#[derive(Clone, Debug)]
pub struct Logger {
    /// The name of the logger, such as `kopf.objects`.
    name: &'static str,
    reference: Option<Arc<ObjectReference>>,
}

impl Logger {
    /// A logger about nothing in particular, for calling handlers in tests.
    pub fn new() -> Self {
        Self { name: logging::OBJECTS, reference: None }
    }

    pub(crate) fn of_object(reference: &Arc<ObjectReference>) -> Self {
        Self { name: logging::OBJECTS, reference: Some(Arc::clone(reference)) }
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

    /// For developers.
    pub fn debug(&self, message: impl Display) {
        self.log(Level::Debug, &message);
    }

    /// What has happened.
    pub fn info(&self, message: impl Display) {
        self.log(Level::Info, &message);
    }

    /// What may be wrong.
    pub fn warn(&self, message: impl Display) {
        self.log(Level::Warning, &message);
    }

    /// What is wrong.
    pub fn error(&self, message: impl Display) {
        self.log(Level::Error, &message);
    }

    fn log(&self, level: Level, message: &dyn Display) {
        logging::emit(level, self.name, message, self.reference.as_deref(), None);
    }
}

impl Default for Logger {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sync, C: AnyCall> FromCall<S, C> for Logger {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        Ok(call.logger())
    }
}
