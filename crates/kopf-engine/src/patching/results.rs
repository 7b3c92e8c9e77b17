//! Where the results of handlers go in the status, as the schema of the resource allows.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::discovery::schema::{Placement, placement};

/// What became of a result.
pub(super) enum Stored {
    InStatus,
    /// The API server would drop it.
    Nowhere {
        reason: String,
    },
}

/// Adds a result to the wanted patch.
pub(super) fn store_result(schema: Option<&Value>, wanted: &mut Option<Value>, id: &Arc<str>, result: Value) -> Stored {
    let place = placement(schema, id, &result);
    let patch = wanted.get_or_insert_with(|| Value::Object(Map::new()));
    let Some(status) = patch.as_object_mut().map(|patch| patch.entry("status").or_insert_with(|| Map::new().into()))
    else {
        return Stored::InStatus;
    };
    if !status.is_object() {
        *status = Map::new().into();
    }
    let Value::Object(status) = status else { return Stored::InStatus };
    match (place, result) {
        (Placement::MergedIntoStatus, Value::Object(fields)) => status.extend(fields),
        (Placement::Lost { reason }, _) => {
            if status.is_empty()
                && let Some(Value::Object(patch)) = wanted
            {
                patch.shift_remove("status");
            }
            return Stored::Nowhere { reason };
        }
        (_, Value::Object(fields)) => match status.get_mut(&**id) {
            Some(Value::Object(present)) => present.extend(fields),
            _ => {
                status.insert(id.to_string(), fields.into());
            }
        },
        (_, result) => {
            status.insert(id.to_string(), result);
        }
    }
    Stored::InStatus
}
