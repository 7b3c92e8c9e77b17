//! What a server written in Go says and prints: values, structs, differences, field errors.
//!
//! Clients compare messages, so they have to be those of the real server. Everybody who quotes a value
//! in a message comes here.

pub mod text;
pub mod field_error;
pub mod quantity;
pub mod structure;
pub mod struct_text;
pub mod internal;
pub mod crd_text;
mod text_diff;

pub use field_error::{FieldError, FieldErrorKind};
#[cfg(test)]
pub use text::encode_whole_floats;
pub use text::{json as go_json, plain as go_plain, quote as go_quote};

/// The package of the types that a real server works with, as its messages show them.
pub fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        group => group.split('.').next().unwrap_or_default(),
    }
}
