//! In which form a client wants its answer: objects, tables, or only the metadata.
//!
//! Read from the `Accept` header. kubectl asks for tables, informers of metadata for partial
//! objects; everybody else gets the objects as they are.

use crate::query::Query;
use crate::status::Refusal;

/// What the objects of an answer are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing: they are sent as they are.
    Objects,
    /// Only the metadata is sent.
    Metadata,
    /// Rows of a table.
    Table(RowObject),
}

/// What is sent beside the cells of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowObject {
    /// Nothing.
    Nothing,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// What the server can send for objects.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Form {
    /// The first form of the header that is known here.
    pub fn negotiate(accept: &str, query: &Query) -> Result<Self, Refusal> {
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
        known.ok_or_else(|| Refusal::not_acceptable(ACCEPTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_negotiated() {
        let table = Form::Table(RowObject::Metadata);
        for (accept, expected) in [
            ("", Some(Form::Objects)),
            ("*/*", Some(Form::Objects)),
            ("application/json", Some(Form::Objects)),
            ("application/vnd.kubernetes.protobuf, application/json", Some(Form::Objects)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(table)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Objects)),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Form::Metadata)),
            ("text/html", None),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            assert_eq!(Form::negotiate(accept, &Query::default()).ok(), expected, "{accept}");
        }
    }
}
