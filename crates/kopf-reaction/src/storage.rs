//! Where the progress of handlers and the last handled essence are kept on the object.
//!
//! The standard storages are decided here and are byte-compatible with kopf 1.45. Storages written by
//! users live in the front: the same operations are then carried out there.

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

/// One thing to be written down; in order, into the patch of the cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum StorageOperation {
    /// The progress of a handler.
    Store { id: Arc<str>, record: Value },
    /// The progress of a handler is not needed any more.
    Purge { id: Arc<str> },
    /// Removes what was once written to wake the object up.
    Touch { value: Option<String> },
    /// The essence as it was handled.
    #[serde(rename = "diffbase")]
    DiffBase { essence: Value },
}

#[cfg(test)]
mod tests;
