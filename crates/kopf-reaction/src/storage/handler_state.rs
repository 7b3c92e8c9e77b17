//! The progress of one handler on one object: the object stores it between the cycles.
//!
//! The record is byte-compatible with kopf 1.45: an operator can continue what another one has begun.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kopf_object::restore_essence;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::time::{after, format_time, parse_time};

/// The progress of one handler.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerState {
    /// The handler belongs to the current batch; otherwise, its record is only counted and purged.
    pub active: bool,
    /// When it was first due.
    pub started: Timestamp,
    /// When it was finished.
    pub stopped: Option<Timestamp>,
    /// When the next attempt is due; `None` means at once, or never if it is finished.
    pub delayed: Option<Timestamp>,
    /// The reason for which it is called; `None` in records of unknown origin.
    pub purpose: Option<String>,
    /// The number of attempts so far.
    pub retries: u32,
    /// It is finished and has succeeded.
    pub success: bool,
    /// It is finished and has failed.
    pub failure: bool,
    /// The text of the last error.
    pub message: Option<String>,
    /// The ids of its sub-handlers of all levels.
    pub subrefs: BTreeSet<String>,
    /// The encoded essence with which the handler has finished, since a success counts for one state of the object only.
    /// `None` for unfinished handlers, and in records of kopf 1.45, which ignores the field.
    pub essence: Option<String>,
    /// The record on the object; `None` for a new one.
    origin: Option<Value>,
}

impl HandlerState {
    /// The progress of a handler that has just become due.
    pub fn new(purpose: Option<&str>, now: Timestamp) -> Self {
        Self {
            active: true,
            started: now,
            stopped: None,
            delayed: None,
            purpose: purpose.map(str::to_owned),
            retries: 0,
            success: false,
            failure: false,
            message: None,
            subrefs: BTreeSet::new(),
            essence: None,
            origin: None,
        }
    }

    /// Reads a stored record. Unreadable fields count as absent.
    pub fn from_record(record: &Value, now: Timestamp) -> Self {
        let time = |field: &str| record.get(field).and_then(Value::as_str).and_then(parse_time);
        let text = |field: &str| record.get(field).and_then(Value::as_str).map(str::to_owned);
        let flag = |field: &str| record.get(field).and_then(Value::as_bool).unwrap_or_default();
        let retries = record.get("retries").and_then(Value::as_u64).unwrap_or_default();
        Self {
            active: false,
            started: time("started").unwrap_or(now),
            stopped: time("stopped"),
            delayed: time("delayed"),
            purpose: text("purpose").filter(|purpose| !purpose.is_empty()),
            retries: u32::try_from(retries).unwrap_or(u32::MAX),
            success: flag("success"),
            failure: flag("failure"),
            message: text("message"),
            subrefs: record
                .get("subrefs")
                .and_then(Value::as_array)
                .map(|ids| ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect())
                .unwrap_or_default(),
            essence: text("essence"),
            origin: Some(record.clone()),
        }
    }

    /// The record to store, with nulls for unset fields.
    pub fn to_record(&self) -> Value {
        let time = |moment: Option<Timestamp>| moment.map_or(Value::Null, |moment| format_time(moment).into());
        let mut record = json!({
            "started": format_time(self.started),
            "stopped": time(self.stopped),
            "delayed": time(self.delayed),
            "purpose": self.purpose,
            "retries": self.retries,
            "success": self.success,
            "failure": self.failure,
            "message": self.message,
            "subrefs": if self.subrefs.is_empty() { Value::Null } else { json!(self.subrefs) },
        });
        // Kopf 1.45 does not have this field: write it only if it is set, or to remove it.
        let is_stored = self.origin.as_ref().is_some_and(|origin| origin.get("essence").is_some());
        if self.essence.is_some() || is_stored {
            record["essence"] = json!(self.essence);
        }
        record
    }

    /// The essence with which the handler has finished; `current` replaces values that were too long to store.
    pub fn seen(&self, current: Option<&Value>) -> Option<Value> {
        let stored = serde_json::from_str(self.essence.as_ref().filter(|_| self.finished())?).ok()?;
        Some(restore_essence(stored, current))
    }

    /// Whether the progress differs from the stored record.
    pub fn differs_from_stored(&self) -> bool {
        let Some(Value::Object(origin)) = &self.origin else { return true };
        // Some storages write nulls, which mean the same as absent fields.
        let present = |record: &Map<String, Value>| -> Map<String, Value> {
            let fields = record.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(field, value)| (field.clone(), value.clone())).collect()
        };
        self.to_record().as_object().map(present) != Some(present(origin))
    }

    /// The first unreadable field of a stored record, if any.
    pub fn find_problem(record: &Value) -> Option<String> {
        let Value::Object(fields) = record else { return Some("not an object".to_owned()) };
        fields.iter().filter(|(_, value)| !value.is_null()).find_map(|(field, value)| {
            let readable = match field.as_str() {
                "started" | "stopped" | "delayed" => value.as_str().is_some_and(|text| parse_time(text).is_some()),
                "retries" => value.is_u64(),
                "success" | "failure" => value.is_boolean(),
                "purpose" | "message" | "essence" => value.is_string(),
                "subrefs" => value.as_array().is_some_and(|ids| ids.iter().all(Value::is_string)),
                _ => true,
            };
            (!readable).then(|| format!("{field} is {value}"))
        })
    }

    /// Whether the object has a record of it.
    pub fn is_stored(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether no more attempts follow.
    pub fn finished(&self) -> bool {
        self.success || self.failure
    }

    /// Whether the handler is due: not finished, and not delayed.
    pub fn awakened(&self, now: Timestamp) -> bool {
        !self.finished() && self.delayed.is_none_or(|delayed| delayed <= now)
    }

    /// The time since it was first due.
    pub fn runtime(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.started)
    }

    /// The progress after one more attempt.
    pub fn with_outcome(mut self, outcome: &Outcome, now: Timestamp) -> Self {
        self.stopped = self.stopped.or(outcome.is_final.then_some(now));
        self.delayed = outcome.delay.map(|seconds| after(now, seconds));
        self.success = outcome.is_final && outcome.error.is_none();
        self.failure = outcome.is_final && outcome.error.is_some();
        self.retries = self.retries.saturating_add(1);
        self.message = outcome.error.clone();
        self.subrefs.extend(outcome.subrefs.iter().cloned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-11-15T12:34:56.123456Z".parse().unwrap()
    }

    #[test]
    fn unreadable_fields_of_a_record_count_as_absent() {
        let table = [json!(null), json!([]), json!("x"), json!({"retries": "many", "started": 5, "subrefs": {}})];
        for record in table {
            assert!(HandlerState::find_problem(&record).is_some(), "{record}");
            let state = HandlerState::from_record(&record, now());
            assert_eq!((state.retries, state.started, state.finished()), (0, now(), false), "{record}");
        }
    }

    fn moments() -> impl Strategy<Value = Timestamp> {
        (0i64..4_000_000_000_000_000).prop_map(|microseconds| Timestamp::from_microsecond(microseconds).unwrap())
    }

    proptest! {
        #[test]
        fn a_stored_record_reads_back_unchanged(
            started in moments(), stopped in proptest::option::of(moments()), delayed in proptest::option::of(moments()),
            purpose in proptest::option::of("[a-z]{1,9}"), retries in 0u32..1000, success: bool, failure: bool,
            message in proptest::option::of(".*"), subrefs in proptest::collection::btree_set("[a-z/]{1,9}", 0..4),
            essence in proptest::option::of(".*"),
        ) {
            let state = HandlerState {
                active: false, started, stopped, delayed, purpose, retries, success, failure, message, subrefs, essence,
                origin: None,
            };
            let Value::Object(mut record) = state.to_record() else { unreachable!() };
            record.retain(|_, value| !value.is_null());
            let record = Value::Object(record);
            let read = HandlerState::from_record(&record, now());
            prop_assert!(!read.differs_from_stored());
            prop_assert_eq!(HandlerState::find_problem(&record), None);
            prop_assert!(!HandlerState::from_record(&state.to_record(), now()).differs_from_stored(), "with nulls");
            prop_assert_eq!(HandlerState { origin: None, ..read }, state);
        }
    }
}
