//! Kubernetes objects as data: what they are, what has changed in them, how to change them.
//!
//! Everything here is a plain function of its arguments: no async, no I/O, no clock. `kopf-reaction` decides with
//! it, `kopf-engine` sends and receives it, the fronts convert it. The embedded cluster does not use it, so that the
//! two cannot share a bug.
//!
//! ```
//! use kopf_object::{Body, EssenceOptions, FieldPath, MergePatch, build_essence, diff};
//! use serde_json::json;
//!
//! // The engine compares an object of the API with what was handled last.
//! let body = Body::from_value(json!({
//!     "metadata": {"name": "cache", "resourceVersion": "7"},
//!     "spec": {"size": 3},
//! }));
//! let old = json!({"spec": {"size": 1}});
//! let new = build_essence(body.value(), &EssenceOptions::default());
//! let changes = diff(Some(&old), Some(&new));
//! assert_eq!(changes.to_json(), json!([["change", ["spec", "size"], 1, 3]]));
//!
//! // A field handler sees only its field.
//! let sizes = changes.reduce(&FieldPath::parse("spec.size"));
//! assert_eq!(sizes.to_json(), json!([["change", [], 1, 3]]));
//!
//! // Handlers collect their changes in one patch.
//! let mut patch = MergePatch::new();
//! patch.set(&FieldPath::parse("status.size"), json!(3));
//! assert_eq!(patch.as_value(), &json!({"status": {"size": 3}}));
//! ```

#![warn(missing_docs)]

// Paths: where things are in objects.
mod path;

// Comparing: what has changed.
mod equality;

mod diff;

// Storing: what kopf keeps on objects, and under which names.
mod essence;

mod shortened_essence;

pub mod python_json;

pub mod keys;

// Patching: how objects are changed.
mod merge_patch;

mod json_patch;

pub mod finalizers;

// Reading: objects as raw JSON, in part, and as a whole.
pub mod text;

mod reference;

mod identity;

mod partial;

mod body;

pub use body::Body;
pub use diff::{Diff, DiffItem, DiffOp, diff, diff_left, inconsistencies};
pub use equality::python_equal;
pub use essence::{EssenceOptions, build_essence, clear_progress_annotations, clear_progress_field, encode_essence};
pub use identity::ObjectIdentity;
pub use json_patch::{
    JsonPatchError, PatchOperation, apply_json_patch, json_patch, split_status_operations, with_version_test,
};
pub use merge_patch::{MergePatch, combine, merge};
pub use partial::parse_partial;
pub use path::FieldPath;
pub use reference::ObjectReference;
pub use shortened_essence::{encode_essence_within, restore_essence};
