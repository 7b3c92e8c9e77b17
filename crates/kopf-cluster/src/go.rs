//! Go's texts: how a server written in Go prints values, structs, diffs and field errors.
//!
//! Clients compare messages, so they must be those of the real server. All code that quotes a value in a
//! message uses this module.

pub(crate) mod text;
pub(crate) mod field_error;
pub(crate) mod quantity;
pub(crate) mod structure;
pub(crate) mod struct_text;
pub(crate) mod internal;
pub(crate) mod crd_text;
mod text_diff;

pub(crate) use field_error::{FieldError, FieldErrorKind};
#[cfg(test)]
pub(crate) use text::encode_whole_floats;
pub(crate) use text::{json as go_json, plain as go_plain, quote as go_quote};

/// The package of the types that a real server works with, as its messages show them.
pub(crate) fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        group => group.split('.').next().unwrap_or_default(),
    }
}
