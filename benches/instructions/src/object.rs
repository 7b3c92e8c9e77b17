//! The object that all steps use: about 1 KB of content, and the fields that the API adds.

use std::hint::black_box;

use kopf_object::ObjectIdentity;
use serde_json::{Value, json};

use crate::Outcome;

/// An object as the API sends it, before any handler was called.
pub(crate) fn fresh() -> Value {
    let fields = json!({"f:spec": {".": {}, "f:color": {}, "f:payload": {}, "f:settings": {".": {}, "f:a": {}, "f:b": {}},
        "f:size": {}, "f:tags": {}, "f:title": {}}});
    json!({
        "apiVersion": "bench.dev/v1",
        "kind": "Widget",
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["bench.dev/kopf"],
            "generation": 1,
            "labels": {"app": "widgets", "tier": "gold"},
            "managedFields": [
                {"apiVersion": "bench.dev/v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "loader",
                 "operation": "Update", "time": "2026-01-01T00:00:00Z"},
                {"apiVersion": "bench.dev/v1", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, "v:\"bench.dev/kopf\"": {}}}}, "manager": "kopf",
                 "operation": "Update", "time": "2026-01-01T00:00:00Z"},
            ],
            "name": "widget-1",
            "namespace": "bench",
            "resourceVersion": "12345",
            "uid": "8f14e45f-ceea-467f-a6b0-8f14e45fceea",
        },
        "spec": {
            "color": "green",
            "payload": "0123456789abcdef".repeat(50),
            "settings": {"a": "one", "b": "two"},
            "size": 3,
            "tags": ["a", "b", "c"],
            "title": "A widget",
        },
    })
}

/// The identity of an object: enough to recognize the echo of our own patch.
pub(crate) fn recognise(count: usize) -> Outcome {
    let text = fresh().to_string().into_bytes();
    for _ in 0..count {
        black_box(ObjectIdentity::from_slice(black_box(&text))?);
    }
    Ok(())
}
