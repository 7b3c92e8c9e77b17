//! The captured documents of a real server, recorded by `scripts/capture_api.py`.
//!
//! Discovery and OpenAPI are served from here unchanged; the catalog reads the built-in kinds and their schemas
//! from here. Each OpenAPI document, such as `openapi/v3/apis/apps/v1`, exists a second time without
//! descriptions, as `schemas/apis/apps/v1`. Documents are decompressed on first use, so that a cluster starts
//! in milliseconds; all clusters of the process share them.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use serde_json::Value;

static ARCHIVE: &[u8] = include_bytes!("../../data/kubernetes-1.36.3.capture");

/// The version of the captured server, which the cluster reports as its own.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// A captured document as text, such as `openapi/v3/apis/apps/v1`; None if there is none.
pub(crate) fn document(name: &str) -> Option<Bytes> {
    static UNPACKED: OnceLock<Mutex<HashMap<String, Bytes>>> = OnceLock::new();
    let unpacked = UNPACKED.get_or_init(Mutex::default);
    if let Some(known) = unpacked.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(known.clone());
    }
    let document = unpack(*index().get(name)?)?;
    unpacked.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), document.clone());
    Some(document)
}

/// A captured document as data; cached for the life of the process.
pub(crate) fn value(name: &str) -> Option<Arc<Value>> {
    static DECODED: OnceLock<Mutex<HashMap<String, Arc<Value>>>> = OnceLock::new();
    let decoded = DECODED.get_or_init(Mutex::default);
    if let Some(known) = decoded.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(Arc::clone(known));
    }
    let value = Arc::new(serde_json::from_slice(&unpack(*index().get(name)?)?).ok()?);
    decoded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&value));
    Some(value)
}

/// A part of the discovery document: `version`, `apis`, `aggregatedApis`, …
pub(crate) fn discovery(part: &str) -> Value {
    value("discovery").and_then(|all| all.get(part).cloned()).unwrap_or_default()
}

/// Where each document is: the offset and the length after the index.
fn index() -> &'static HashMap<String, (usize, usize)> {
    static INDEX: OnceLock<HashMap<String, (usize, usize)>> = OnceLock::new();
    INDEX
        .get_or_init(|| serde_json::from_slice(ARCHIVE.get(4..members_start()).unwrap_or_default()).unwrap_or_default())
}

fn members_start() -> usize {
    let length = ARCHIVE.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
    4 + length as usize
}

fn unpack((offset, length): (usize, usize)) -> Option<Bytes> {
    let start = members_start() + offset;
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(ARCHIVE.get(start..start + length)?).read_to_end(&mut text).ok()?;
    Some(Bytes::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_can_be_read() {
        assert!(index().len() > 40, "{:?}", index().keys());
        for name in index().keys().filter(|name| !name.ends_with(".protobuf")) {
            let text = document(name).unwrap_or_else(|| panic!("{name} cannot be unpacked"));
            serde_json::from_slice::<Value>(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(discovery("version")["gitVersion"], KUBERNETES_VERSION);
        assert!(document("nope").is_none());
    }

    #[test]
    fn schemas_are_the_definitions_without_descriptions() {
        fn without_descriptions(value: &mut Value) {
            match value {
                Value::Object(fields) => {
                    fields.retain(|name, field| name != "description" || !field.is_string());
                    fields.values_mut().for_each(without_descriptions);
                }
                Value::Array(items) => items.iter_mut().for_each(without_descriptions),
                _ => {}
            }
        }
        let documents: Vec<&String> = index().keys().filter(|name| name.starts_with("openapi/v3/")).collect();
        assert!(documents.len() > 20, "{documents:?}");
        for name in documents {
            let mut whole = (*value(name).unwrap()).clone();
            without_descriptions(&mut whole["components"]["schemas"]);
            let schemas = value(&name.replace("openapi/v3/", "schemas/")).unwrap_or_default();
            assert_eq!(schemas["components"]["schemas"], whole["components"]["schemas"], "{name}");
        }
    }
}
