//! Log records become events of `tracing`, and `run_cli` shows them.
//!
//! The records of the engine and of [`Logger`] are events with the fields `logger` and `object.*`. Applications may
//! install any subscriber for them. The subscriber of the command line writes them in the formats of `kopf run`.

mod logger;
mod format;

use std::fmt::Display;
use std::io::Write;

use kopf_engine::Severity;
use kopf_object::ObjectReference;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry};

pub(crate) use format::{FormatLayer, LogFormat};
pub use logger::Logger;

/// The logger for messages about objects.
pub(crate) const OBJECTS: &str = "kopf.objects";

/// Libraries that log too much without `--debug`.
const NOISY_LIBRARIES: [&str; 7] = ["h2", "hyper", "hyper_util", "kube", "kube_client", "rustls", "tower"];

/// The options of the log on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) verbosity: Verbosity,
    pub(crate) format: LogFormat,
    /// Whether messages begin with the name of the object; by default in all formats but JSON.
    pub(crate) prefix: Option<bool>,
    /// The key of the object in JSON.
    pub(crate) refkey: Option<String>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Warnings and errors.
    Quiet,
    #[default]
    Normal,
    /// Everything that the operator does.
    Verbose,
    /// Everything that the operator and its libraries do.
    Debug,
}

/// Writes the log to the standard error from now on; an error if there is a subscriber already.
pub(crate) fn install(options: &LogOptions) -> Result<(), SetGlobalDefaultError> {
    let layer = FormatLayer::new(options, |line: &str| {
        // An error of the log itself cannot be logged.
        drop(std::io::stderr().write_all(line.as_bytes()));
    });
    let subscriber = Registry::default().with(filter(options.verbosity)).with(layer);
    tracing::subscriber::set_global_default(subscriber)
}

/// `RUST_LOG` adds directives to those of the command line.
fn filter(verbosity: Verbosity) -> EnvFilter {
    let level = match verbosity {
        Verbosity::Quiet => "warn",
        Verbosity::Normal => "info",
        Verbosity::Verbose | Verbosity::Debug => "debug",
    };
    let mut directives = vec![level.to_owned()];
    if verbosity != Verbosity::Debug {
        directives.extend(NOISY_LIBRARIES.iter().map(|library| format!("{library}=warn")));
    }
    directives.extend(std::env::var("RUST_LOG").ok().filter(|extra| !extra.is_empty()));
    EnvFilter::builder().parse_lossy(directives.join(","))
}

/// Callsites of `tracing` are static: one per level and logger.
macro_rules! at_callsite {
    ($action:ident, $level:expr, $logger:expr $(, $($argument:tt)*)?) => {
        match $logger {
            OBJECTS => at_callsite!(@ $action, $level, "kopf.objects" $(, $($argument)*)?),
            logger if logger.starts_with("kopf.activities") => {
                at_callsite!(@ $action, $level, "kopf.activities" $(, $($argument)*)?)
            }
            _ => at_callsite!(@ $action, $level, "kopf.engine" $(, $($argument)*)?),
        }
    };
    (@ $action:ident, $level:expr, $target:literal $(, $($argument:tt)*)?) => {
        match $level {
            Severity::Debug => tracing::$action!(target: $target, tracing::Level::DEBUG $(, $($argument)*)?),
            Severity::Info => tracing::$action!(target: $target, tracing::Level::INFO $(, $($argument)*)?),
            Severity::Warning => tracing::$action!(target: $target, tracing::Level::WARN $(, $($argument)*)?),
            Severity::Error => tracing::$action!(target: $target, tracing::Level::ERROR $(, $($argument)*)?),
        }
    };
}

/// Whether any subscriber wants such a record.
pub(crate) fn enabled(level: Severity, logger: &'static str) -> bool {
    at_callsite!(enabled, level, logger)
}

/// Emits one record.
pub(crate) fn emit(
    level: Severity,
    logger: &'static str,
    message: &dyn Display,
    object: Option<&ObjectReference>,
    traceback: Option<&dyn Display>,
) {
    let traceback = traceback.map(tracing::field::display);
    at_callsite!(
        event,
        level,
        logger,
        logger,
        object.apiVersion = object.and_then(|object| object.api_version.as_deref()),
        object.kind = object.and_then(|object| object.kind.as_deref()),
        object.name = object.and_then(|object| object.name.as_deref()),
        object.uid = object.and_then(|object| object.uid.as_deref()),
        object.namespace = object.and_then(|object| object.namespace.as_deref()),
        traceback,
        "{message}"
    );
}

/// The span around the call of a handler.
pub(crate) fn span(handler: &str, object: Option<&ObjectReference>) -> tracing::Span {
    // At the highest level, so that the quiet mode has it, too.
    tracing::error_span!(
        target: "kopf",
        "handler",
        handler,
        object.apiVersion = object.and_then(|object| object.api_version.as_deref()),
        object.kind = object.and_then(|object| object.kind.as_deref()),
        object.name = object.and_then(|object| object.name.as_deref()),
        object.uid = object.and_then(|object| object.uid.as_deref()),
        object.namespace = object.and_then(|object| object.namespace.as_deref()),
    )
}
