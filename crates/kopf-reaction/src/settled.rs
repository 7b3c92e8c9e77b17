//! Objects that were handled already, recognised by their text alone.
//!
//! A restarted operator finds thousands of them, and most changes in a cluster are to the status. Whether there is
//! nothing to do for an object, is usually seen without parsing it: what was stored as handled last is the very text of
//! what is there now. Where it is not, nothing is claimed, and the cycle decides as ever.

use std::borrow::Cow;
use std::fmt;

use kopf_object::keys::{self, is_under};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{DiffBaseStorage, Handler, HandlerSet, ProgressStorage, ReactionSettings};

/// How the objects of one kind are when there is nothing to do for them.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The annotation with what was handled last, if it is in an annotation.
    handled_key: Option<String>,
    /// The field of the status with what was handled last, if it is in the status.
    handled_field: Option<StatusField>,
    /// Under these prefixes there are no other annotations, or else something is under way.
    prefixes: Vec<String>,
    /// These fields of the status have nothing else in them, or else something is under way.
    status_areas: Vec<String>,
    finalizer: String,
    /// Whether the finalizer is there.
    held: bool,
}

/// A field two levels deep in the status.
#[derive(Clone, Debug)]
struct StatusField {
    area: String,
    name: String,
}

impl Settled {
    /// None if it takes more than a look at the text: filters, handlers for resuming, other storages.
    pub fn of(handlers: &HandlerSet, settings: &ReactionSettings) -> Option<Self> {
        let HandlerSet { watching, changing, indexing, background, owned: _, extra_fields } = handlers;
        let is_about_changes = watching.is_empty() && indexing.is_empty() && background.is_empty();
        let is_plain = extra_fields.is_empty() && changing.iter().all(|handler| is_unconditional(handler));
        if changing.is_empty() || !is_about_changes || !is_plain {
            return None;
        }
        let mut settled = Self {
            handled_key: None,
            handled_field: None,
            prefixes: Vec::new(),
            status_areas: Vec::new(),
            finalizer: settings.finalizer.clone(),
            held: changing.iter().any(|handler| handler.requires_finalizer),
        };
        (settled.add_diffbase(&settings.diffbase) && settled.add_progress(&settings.progress)).then_some(settled)
    }

    /// Whether it is known where the storage keeps what was handled last: one annotation, one field, or either.
    fn add_diffbase(&mut self, storage: &DiffBaseStorage) -> bool {
        match storage {
            DiffBaseStorage::Annotations { prefix, key, ignored_fields, .. } => {
                self.prefixes.push(prefix.clone());
                self.handled_key.replace(keys::v2_key(prefix, key)).is_none() && ignored_fields.is_empty()
            }
            DiffBaseStorage::Status { field, ignored_fields } => {
                let segments: Vec<&str> = field.segments().collect();
                let ["status", area, name] = segments[..] else { return false };
                self.status_areas.push(area.to_owned());
                let field = StatusField { area: area.to_owned(), name: name.to_owned() };
                self.handled_field.replace(field).is_none() && ignored_fields.is_empty()
            }
            DiffBaseStorage::Multi { storages } => storages.iter().all(|storage| self.add_diffbase(storage)),
            DiffBaseStorage::Superseded { storage } => self.add_diffbase(storage),
            DiffBaseStorage::Front => false,
        }
    }

    /// Whether it is known where the storage keeps its records.
    fn add_progress(&mut self, storage: &ProgressStorage) -> bool {
        match storage {
            ProgressStorage::Annotations { prefix, .. } => {
                self.prefixes.push(prefix.clone());
                true
            }
            ProgressStorage::Status { field, touch_field, .. } => [field, touch_field].into_iter().all(|field| {
                let mut segments = field.segments();
                match (segments.next(), segments.next()) {
                    (Some("status"), Some(name)) => {
                        self.status_areas.push(name.to_owned());
                        true
                    }
                    _ => false,
                }
            }),
            ProgressStorage::Multi { storages } => storages.iter().all(|storage| self.add_progress(storage)),
            ProgressStorage::Superseded { storage } => self.add_progress(storage),
            ProgressStorage::Front => false,
        }
    }

    /// Whether there is certainly nothing to do for the object with this JSON text.
    pub fn holds(&self, json: &[u8]) -> bool {
        serde_json::from_slice::<Parts<'_>>(json).is_ok_and(|parts| self.judge(&parts).unwrap_or(false))
    }

    fn judge(&self, parts: &Parts<'_>) -> Option<bool> {
        let metadata = &parts.metadata;
        let held = metadata.finalizers.iter().flatten().any(|finalizer| *finalizer == self.finalizer);
        if metadata.deletion_timestamp.is_some() || held != self.held {
            return Some(false);
        }
        let in_status = match parts.status {
            Some(status) => self.handled_in_status(status)?,
            None => None,
        };
        let annotations = metadata.annotations.as_ref().map_or(&[][..], |Pairs(annotations)| annotations);
        let is_handled_key = |key: &str| self.handled_key.as_deref() == Some(key);
        let in_annotations = annotations.iter().find(|(key, _)| is_handled_key(key)).map(|(_, value)| *value);
        let handled = match (in_status, in_annotations) {
            (Some(handled), None) | (None, Some(handled)) => handled,
            // Which of them counts, the storages know.
            (None, None) | (Some(_), Some(_)) => return None,
        };
        // Nothing else of ours may be there; other operators' are not looked at, as in any essence.
        let is_ours = |key: &str| self.prefixes.iter().any(|prefix| is_under(key, prefix));
        let marked = keys::detect_marked_prefixes(annotations.iter().map(|(key, _)| &**key));
        let mut others = Vec::new();
        for (key, value) in annotations {
            let is_marker =
                || self.prefixes.iter().any(|prefix| keys::marker_key(prefix).is_some_and(|marker| marker == *key));
            if is_ours(key) {
                if !is_handled_key(key) && !is_marker() {
                    return Some(false);
                }
            } else if key != keys::KUBECTL_LAST_APPLIED && !marked.iter().any(|prefix| is_under(key, prefix)) {
                others.push((&**key, *value));
            }
        }
        let handled: Cow<'_, str> = serde_json::from_str::<Text<'_>>(handled.get()).ok()?.0;
        Some(handled.trim_end_matches('\n') == essence_text(parts, &others)?)
    }

    /// What was handled last, if it is in the status; None overall if something else of ours is there, too.
    fn handled_in_status<'a>(&self, status: &'a RawValue) -> Option<Option<&'a RawValue>> {
        let text = status.get();
        if !self.status_areas.iter().any(|area| memchr::memmem::find(text.as_bytes(), area.as_bytes()).is_some()) {
            return Some(None);
        }
        let mut handled = None;
        let Pairs(members) = serde_json::from_str(text).ok()?;
        for (area, content) in members.iter().filter(|(name, _)| self.status_areas.iter().any(|area| area == name)) {
            let Pairs(content) = serde_json::from_str(content.get()).ok()?;
            for (name, value) in content {
                let is_handled = |field: &StatusField| field.area == *area && field.name == name;
                if !self.handled_field.as_ref().is_some_and(is_handled) || handled.replace(value).is_some() {
                    return None;
                }
            }
        }
        Some(handled)
    }
}

/// The text of the essence, without its line break, if it takes no more than to put the pieces together.
fn essence_text(parts: &Parts<'_>, annotations: &[(&str, &RawValue)]) -> Option<String> {
    let mut text = String::with_capacity(2048);
    text.push('{');
    for (key, value) in &parts.payload {
        push_member(&mut text, key, value.get())?;
    }
    let labels = parts.metadata.labels.filter(|labels| !matches!(labels.get(), "{}" | "null"));
    if labels.is_some() || !annotations.is_empty() {
        push_member(&mut text, "metadata", "{")?;
        if let Some(labels) = labels {
            push_member(&mut text, "labels", labels.get())?;
        }
        if !annotations.is_empty() {
            push_member(&mut text, "annotations", "{")?;
            for (key, value) in annotations {
                push_member(&mut text, key, value.get())?;
            }
            text.push('}');
        }
        text.push('}');
    }
    text.push('}');
    Some(text)
}

fn push_member(text: &mut String, key: &str, value: &str) -> Option<()> {
    if !key.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        return None;
    }
    if !text.ends_with('{') {
        text.push(',');
    }
    text.push('"');
    text.push_str(key);
    text.push_str("\":");
    text.push_str(value);
    Some(())
}

fn is_unconditional(handler: &Handler) -> bool {
    let has_filters = handler.labels.is_some() || handler.annotations.is_some() || handler.field.is_some();
    let has_values = handler.value.is_some() || handler.old.is_some() || handler.new.is_some();
    !has_filters && !has_values && !handler.when && !handler.initial
}

/// The pieces of an object, as text.
#[derive(Default)]
struct Parts<'a> {
    /// All but what identifies the object and what the API or controllers maintain.
    payload: Vec<(Cow<'a, str>, &'a RawValue)>,
    status: Option<&'a RawValue>,
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<Pairs<'a>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// The members of an object, in their order.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string, borrowed where possible.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Parts<'de>, A::Error> {
        let mut parts = Parts::default();
        while let Some(Text(key)) = members.next_key()? {
            match &*key {
                "apiVersion" | "kind" => drop(members.next_value::<IgnoredAny>()?),
                "metadata" => parts.metadata = members.next_value::<Option<Metadata<'de>>>()?.unwrap_or_default(),
                "status" => parts.status = members.next_value()?,
                _ => parts.payload.push((key, members.next_value()?)),
            }
        }
        Ok(parts)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Text(key)) = members.next_key()? {
            pairs.push((key, members.next_value()?));
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests;
