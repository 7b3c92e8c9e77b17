//! The representation that a client asks for in its `Accept` header: objects, tables, or metadata alone.
//!
//! kubectl asks for tables, metadata informers for partial objects, and all other clients for the objects
//! themselves. The verbs negotiate it; `publish/render.rs` writes it.

use super::query::Query;
use super::status::StatusError;
use crate::catalog::ResourceType;
use crate::go::internal_package;

/// What the server turns the objects of a response into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The objects themselves.
    Objects,
    /// Only the metadata is sent.
    Metadata,
    /// Rows of a table.
    Table(RowObject),
}

/// What a row carries besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowObject {
    /// Nothing.
    Nothing,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// The media types that the server can send for objects.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Representation {
    /// The first representation in the header that this server supports.
    pub(crate) fn negotiate(accept: &str, query: &Query) -> Result<Self, StatusError> {
        if accept.trim().is_empty() {
            return Ok(Self::Objects);
        }
        let row = match query.get("includeObject") {
            Some("None") => RowObject::Nothing,
            Some("Object") => RowObject::Object,
            _ => RowObject::Metadata,
        };
        let known = accept.split(',').find_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let media_type = parts.next()?;
            if !matches!(media_type, "application/json" | "application/*" | "*/*" | "application/yaml") {
                return None;
            }
            let parameter = |name: &str| {
                let parts = entry.split(';').skip(1).filter_map(|part| part.trim().split_once('='));
                parts.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
            };
            let meta =
                parameter("g") == Some("meta.k8s.io") && parameter("v").is_some_and(|v| v == "v1" || v == "v1beta1");
            match parameter("as") {
                None => Some(Self::Objects),
                Some("Table") if meta => Some(Self::Table(row)),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => Some(Self::Metadata),
                Some(_) => None,
            }
        });
        known.ok_or_else(|| StatusError::not_acceptable(ACCEPTED))
    }
}

/// Rejects clients that accept none of the media types of built-in kinds.
pub(crate) fn check_representation(accept: &str, watching: bool) -> Result<(), StatusError> {
    let readable = |entry: &str| {
        let media_type = entry.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || media_type == "application/*" || ACCEPTED.split(", ").any(|sent| sent == media_type)
    };
    if accept.trim().is_empty() || accept.split(',').any(readable) {
        return Ok(());
    }
    let streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    Err(StatusError::no_such_representation(&format!("{ACCEPTED}{}", if watching { streams } else { "" })))
}

/// Rejects watches in YAML: a stream of YAML has no marker for the end of an event.
pub(crate) fn check_stream(accept: &str) -> Result<(), StatusError> {
    const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    if wants_yaml(accept) { Err(StatusError::not_acceptable(STREAMS)) } else { Ok(()) }
}

/// Whether YAML is the first accepted media type that the server can send.
pub(crate) fn wants_yaml(accept: &str) -> bool {
    let media_types = accept.split(',').map(|entry| entry.split(';').next().unwrap_or_default().trim());
    let known = ["application/json", "application/yaml", "application/*", "*/*"];
    media_types.into_iter().find(|media_type| known.contains(media_type)) == Some("application/yaml")
}

/// Whether the client asks for metadata as a list.
pub(crate) fn asks_for_list(accept: &str) -> bool {
    asked_form(accept) == Some("PartialObjectMetadataList")
}

/// The `as` parameter of the first media type.
fn asked_form(accept: &str) -> Option<&str> {
    let first = accept.split(',').next().unwrap_or_default();
    let mut parameters = first.split(';').filter_map(|part| part.trim().split_once('='));
    parameters.find(|(key, _)| *key == "as").map(|(_, form)| form)
}

/// Rejects requests for metadata as a list where the response is an object, and vice versa.
pub(crate) fn check_partial(accept: &str, resource: &ResourceType, is_list: bool) -> Result<(), StatusError> {
    let (package, kind, list) = match resource.custom() {
        Some(_) => ("unstructured", "Unstructured", "UnstructuredList"),
        None => (internal_package(&resource.group), resource.kind.as_str(), resource.list_kind.as_str()),
    };
    match asked_form(accept) {
        Some(representation @ "PartialObjectMetadata") if is_list => Err(StatusError::unfit_form(format!(
            "you requested {representation}, but the requested object is a list (*{package}.{list})"
        ))),
        Some(representation @ "PartialObjectMetadataList") if !is_list => Err(StatusError::unfit_form(format!(
            "you requested {representation}, but the requested object is not a list (*{package}.{kind})"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_negotiated() {
        let table = Representation::Table(RowObject::Metadata);
        for (accept, expected) in [
            ("", Some(Representation::Objects)),
            ("*/*", Some(Representation::Objects)),
            ("application/json", Some(Representation::Objects)),
            ("application/vnd.kubernetes.protobuf, application/json", Some(Representation::Objects)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(table)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Representation::Objects)),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Representation::Metadata)),
            ("text/html", None),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            assert_eq!(Representation::negotiate(accept, &Query::default()).ok(), expected, "{accept}");
        }
    }
}
