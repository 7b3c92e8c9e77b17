//! Storages: where the object keeps the progress of handlers and the last handled essence.
//!
//! The standard storages are byte-compatible with kopf 1.45. Storages that users have written live in the front, which
//! executes the same operations.

mod handler_state;
mod fields;
mod annotation_budget;
mod progress;
mod diff_base;
mod compact;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use annotation_budget::remaining_annotation_budget;
pub use compact::compact_sample;
pub use diff_base::DiffBaseStorage;
pub(crate) use fields::Corruption;
pub use handler_state::HandlerState;
pub use progress::ProgressStorage;

/// One change of the stored state; the cycle writes them into its patch, in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum StorageOperation {
    /// Stores the progress of a handler.
    Store {
        /// The handler.
        id: Arc<str>,
        /// Its progress, see [`HandlerState::to_record`].
        record: Value,
    },
    /// Removes the progress of a handler.
    Purge {
        /// The handler.
        id: Arc<str>,
    },
    /// Removes what kopf 1.45 writes to wake objects up.
    Touch {
        /// Always `None` here.
        value: Option<String>,
    },
    /// Stores the essence that was handled.
    #[serde(rename = "diffbase")]
    DiffBase {
        /// The essence.
        essence: Value,
    },
}

#[cfg(test)]
mod tests;
