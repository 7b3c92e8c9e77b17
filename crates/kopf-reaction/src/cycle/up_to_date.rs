//! Recognizes objects that are up to date by comparing raw JSON, without parsing them.
//!
//! The queue of the engine uses it: a restarted operator lists thousands of handled objects, and most changes in a
//! cluster are to the status. Usually, the stored text of the last handled essence equals the current pieces of the
//! object. If not, the check claims nothing, and the cycle decides.

use kopf_object::keys::{self, is_under};
use kopf_object::text::{Members, Unsupported, elements, members, plain_string};

use crate::{DiffBaseStorage, Handler, HandlerSet, ProgressStorage, ReactionSettings};

/// How the objects of one resource look when no handler has anything to do.
#[derive(Clone, Debug)]
pub struct UpToDateCheck {
    /// The annotation with the last handled essence, if a storage uses one.
    handled_key: Option<String>,
    /// The field of the status with the last handled essence, if a storage uses one.
    handled_field: Option<StatusField>,
    /// Other annotations under these prefixes mean unfinished handlers.
    prefixes: Vec<String>,
    /// Anything else in these fields of the status means unfinished handlers.
    status_areas: Vec<String>,
    finalizer: String,
    /// Whether the object must have the finalizer.
    needs_finalizer: bool,
}

/// A field two levels deep in the status.
#[derive(Clone, Debug)]
struct StatusField {
    area: String,
    name: String,
}

impl UpToDateCheck {
    /// `None` if comparing raw JSON is not enough: with filters, resuming handlers, or other storages.
    pub fn of(handlers: &HandlerSet, settings: &ReactionSettings) -> Option<Self> {
        let HandlerSet {
            resource: _,
            event_handlers,
            change_handlers,
            index_handlers,
            background_handlers,
            distinct_change_handlers: _,
            extra_fields,
        } = handlers;
        let is_about_changes = event_handlers.is_empty() && index_handlers.is_empty() && background_handlers.is_empty();
        let is_plain = extra_fields.is_empty() && change_handlers.iter().all(|handler| is_unconditional(handler));
        if change_handlers.is_empty() || !is_about_changes || !is_plain {
            return None;
        }
        let mut check = Self {
            handled_key: None,
            handled_field: None,
            prefixes: Vec::new(),
            status_areas: Vec::new(),
            finalizer: settings.finalizer.clone(),
            needs_finalizer: change_handlers.iter().any(|handler| handler.requires_finalizer),
        };
        (check.add_diffbase(&settings.diffbase) && check.add_progress(&settings.progress)).then_some(check)
    }

    /// Adds the annotation or the field of the storage; returns whether the check supports it.
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

    /// Adds the annotations or the fields of the storage; returns whether the check supports it.
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

    /// Whether the object with this JSON text is certainly up to date.
    pub fn is_up_to_date(&self, json: &[u8]) -> bool {
        ObjectText::cut(json).and_then(|object| self.check(&object)).unwrap_or(false)
    }

    fn check(&self, object: &ObjectText<'_>) -> Result<bool, Unsupported> {
        if object.is_being_deleted || self.has_finalizer(object)? != self.needs_finalizer {
            return Ok(false);
        }
        let in_status = match object.status {
            Some(status) => self.handled_in_status(status)?,
            None => None,
        };
        let annotations = &object.annotations;
        let is_handled_key = |key: &str| self.handled_key.as_deref() == Some(key);
        let in_annotations = annotations.iter().find(|(key, _)| is_handled_key(key)).map(|(_, value)| *value);
        let handled = match (in_status, in_annotations) {
            (Some(handled), None) | (None, Some(handled)) => handled,
            // Only the storages know which of them counts.
            (None, None) | (Some(_), Some(_)) => return Err(Unsupported),
        };
        // Other annotations of this operator mean unfinished handlers; those of other operators are not in the essence.
        let is_ours = |key: &str| self.prefixes.iter().any(|prefix| is_under(key, prefix));
        let marked = keys::detect_marked_prefixes(annotations.iter().map(|(key, _)| *key));
        let mut others = Vec::new();
        for (key, value) in annotations {
            let is_marker =
                || self.prefixes.iter().any(|prefix| keys::marker_key(prefix).is_some_and(|marker| marker == *key));
            if is_ours(key) {
                if !is_handled_key(key) && !is_marker() {
                    return Ok(false);
                }
            } else if *key != keys::KUBECTL_LAST_APPLIED && !marked.iter().any(|prefix| is_under(key, prefix)) {
                others.push((*key, *value));
            }
        }
        let handled: String = serde_json::from_slice(handled).map_err(|_| Unsupported)?;
        Ok(handled.trim_end_matches('\n').as_bytes() == essence_text(object, &others)?)
    }

    fn has_finalizer(&self, object: &ObjectText<'_>) -> Result<bool, Unsupported> {
        for finalizer in object.finalizers.map(elements).into_iter().flatten() {
            if plain_string(finalizer?)? == self.finalizer {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The last handled essence, if it is in the status; unsupported if the operator has something else there.
    fn handled_in_status<'a>(&self, status: &'a [u8]) -> Result<Option<&'a [u8]>, Unsupported> {
        if !self.status_areas.iter().any(|area| memchr::memmem::find(status, area.as_bytes()).is_some()) {
            return Ok(None);
        }
        let mut handled = None;
        for member in members(status) {
            let (area, content) = member?;
            if !self.status_areas.iter().any(|known| known == area) {
                continue;
            }
            for member in members(content) {
                let (name, value) = member?;
                let is_handled = |field: &StatusField| field.area == area && field.name == name;
                if !self.handled_field.as_ref().is_some_and(is_handled) || handled.replace(value).is_some() {
                    return Err(Unsupported);
                }
            }
        }
        Ok(handled)
    }
}

/// The text of the essence without its line break, put together from pieces of the object.
fn essence_text(object: &ObjectText<'_>, annotations: &[(&str, &[u8])]) -> Result<Vec<u8>, Unsupported> {
    let mut text = Vec::with_capacity(2048);
    text.push(b'{');
    for (key, value) in &object.payload {
        push_member(&mut text, key, value)?;
    }
    let labels = object.labels.filter(|labels| *labels != b"{}");
    if labels.is_some() || !annotations.is_empty() {
        push_member(&mut text, "metadata", b"{")?;
        if let Some(labels) = labels {
            push_member(&mut text, "labels", labels)?;
        }
        if !annotations.is_empty() {
            push_member(&mut text, "annotations", b"{")?;
            for (key, value) in annotations {
                push_member(&mut text, key, value)?;
            }
            text.push(b'}');
        }
        text.push(b'}');
    }
    text.push(b'}');
    Ok(text)
}

fn push_member(text: &mut Vec<u8>, key: &str, value: &[u8]) -> Result<(), Unsupported> {
    if !key.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        return Err(Unsupported);
    }
    if !text.ends_with(b"{") {
        text.push(b',');
    }
    text.push(b'"');
    text.extend_from_slice(key.as_bytes());
    text.extend_from_slice(b"\":");
    text.extend_from_slice(value);
    Ok(())
}

fn is_unconditional(handler: &Handler) -> bool {
    let has_filters = handler.labels.is_some() || handler.annotations.is_some() || handler.field.is_some();
    let has_values = handler.value.is_some() || handler.old.is_some() || handler.new.is_some();
    !has_filters && !has_values && !handler.when && handler.conditions.is_empty() && !handler.initial
}

/// The pieces of an object, as raw JSON.
#[derive(Default)]
struct ObjectText<'a> {
    /// Everything but the identity of the object and what the API or controllers maintain.
    payload: Vec<(&'a str, &'a [u8])>,
    status: Option<&'a [u8]>,
    labels: Option<&'a [u8]>,
    annotations: Vec<(&'a str, &'a [u8])>,
    finalizers: Option<&'a [u8]>,
    is_being_deleted: bool,
}

impl<'a> ObjectText<'a> {
    fn cut(json: &'a [u8]) -> Result<Self, Unsupported> {
        let mut text = Self::default();
        let mut object = members(json);
        while let Some(name) = object.next_name() {
            match name? {
                "apiVersion" | "kind" => drop(object.value()?),
                "metadata" => {
                    let mut metadata = object.enter_members();
                    text.cut_metadata(&mut metadata)?;
                    object.leave(metadata.end()?);
                }
                "status" => text.status = unless_null(object.value()?),
                name => text.payload.push((name, object.value()?)),
            }
        }
        Ok(text)
    }

    fn cut_metadata(&mut self, metadata: &mut Members<'a>) -> Result<(), Unsupported> {
        while let Some(name) = metadata.next_name() {
            match name? {
                "labels" => self.labels = unless_null(metadata.value()?),
                "annotations" if metadata.peek() == Some(b'{') => {
                    let mut annotations = metadata.enter_members();
                    self.annotations = annotations.by_ref().collect::<Result<_, Unsupported>>()?;
                    metadata.leave(annotations.end()?);
                }
                "finalizers" => self.finalizers = unless_null(metadata.value()?),
                "deletionTimestamp" => self.is_being_deleted = unless_null(metadata.value()?).is_some(),
                _ => drop(metadata.value()?),
            }
        }
        Ok(())
    }
}

fn unless_null(json: &[u8]) -> Option<&[u8]> {
    Some(json).filter(|json| *json != b"null")
}

#[cfg(test)]
mod tests;
