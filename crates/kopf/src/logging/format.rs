//! The formats of the log, the same as of `kopf run`: full, plain, and JSON.
//!
//! The fields `object.*` of a record, or of a span around it, name its object.

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::LogOptions;

/// The formats by their names on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// The time, the logger, the level, and the message.
    #[default]
    Full,
    /// Only the message.
    Plain,
    /// One JSON object per line.
    Json,
}

/// Formats the records and writes the lines.
pub(crate) struct FormatLayer<W> {
    format: LogFormat,
    prefix: bool,
    refkey: String,
    /// Writes one record, with its line breaks.
    write: W,
}

impl<W> FormatLayer<W> {
    pub(crate) fn new(options: &LogOptions, write: W) -> Self {
        Self {
            format: options.format,
            prefix: options.prefix.unwrap_or(options.format != LogFormat::Json),
            refkey: options.refkey.clone().unwrap_or_else(|| "object".to_owned()),
            write,
        }
    }

    fn render(&self, now: Timestamp, level: Level, target: &str, fields: &Fields) -> String {
        let name = fields.logger.as_deref().unwrap_or(target);
        let prefix = if self.prefix { fields.prefix() } else { String::new() };
        let mut message = format!("{prefix}{}", fields.message);
        if self.format == LogFormat::Json {
            return self.render_json(now, level, message, fields);
        }
        for (key, value) in &fields.others {
            message.push_str(&format!(" {key}={value}"));
        }
        if let Some(traceback) = &fields.traceback {
            message.push('\n');
            message.push_str(traceback.trim_end());
        }
        match self.format {
            LogFormat::Plain | LogFormat::Json => format!("{message}\n"),
            LogFormat::Full => {
                let time = Zoned::new(now, TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
                let milliseconds = now.subsec_millisecond().abs();
                let level = level_name(level);
                format!("[{time},{milliseconds:03}] {name:<20.20} [{level:<8.8}] {message}\n")
            }
        }
    }

    fn render_json(&self, now: Timestamp, level: Level, message: String, fields: &Fields) -> String {
        let time = now.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
        let mut record = Map::new();
        record.insert("message".to_owned(), message.into());
        if let Some(traceback) = &fields.traceback {
            record.insert("exc_info".to_owned(), traceback.as_str().into());
        }
        record.extend(fields.others.clone());
        record.insert("timestamp".to_owned(), time.into());
        if !fields.object.is_empty() {
            record.insert(self.refkey.clone(), Value::Object(fields.object.clone()));
        }
        record.insert("severity".to_owned(), severity(level).into());
        format!("{}\n", Value::Object(record))
    }
}

impl<S, W> Layer<S> for FormatLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id)
            && !fields.object.is_empty()
        {
            span.extensions_mut().insert(SpanObject(fields.object));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.object.is_empty()
            && let Some(mut scope) = context.event_scope(event)
            && let Some(object) = scope.find_map(|span| span.extensions().get::<SpanObject>().map(|it| it.0.clone()))
        {
            fields.object = object;
        }
        let metadata = event.metadata();
        (self.write)(&self.render(Timestamp::now(), *metadata.level(), metadata.target(), &fields));
    }
}

/// The object of a span.
struct SpanObject(Map<String, Value>);

/// The fields of a record, by their roles.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    logger: Option<String>,
    /// The reference to the object, as in the API.
    object: Map<String, Value>,
    traceback: Option<String>,
    /// The user's own fields.
    others: Map<String, Value>,
}

impl Fields {
    fn prefix(&self) -> String {
        let text = |key| self.object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => format!("[{namespace}/{name}] "),
            (None, Some(name)) => format!("[{name}] "),
            (_, None) => String::new(),
        }
    }

    fn take(&mut self, field: &Field, value: Value) {
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match field.name() {
            "message" => self.message = text(value),
            "logger" => self.logger = Some(text(value)),
            "traceback" => self.traceback = Some(text(value)),
            name => match name.strip_prefix("object.") {
                Some(key) => drop(self.object.insert(key.to_owned(), value)),
                None => drop(self.others.insert(name.to_owned(), value)),
            },
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}").into());
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        _ => "DEBUG",
    }
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

#[cfg(test)]
mod tests;
