//! One object in a simulated cluster: enough of the API to simulate the life of an object.
//!
//! Shared by the tests: `life.rs` simulates random lives ([`plan`], [`simulation`]), `cycle` runs
//! written scenarios ([`scenario`]).

#![allow(dead_code, reason = "each test crate uses its own part of it")]

pub(crate) mod plan;
pub(crate) mod scenario;
pub(crate) mod life;

use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::{Body, MergePatch, finalizers};
use kopf_reaction::{FinalizerChange, Handler};
use serde_json::{Value, json};

/// An object as the API keeps it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterObject {
    value: Value,
    finalizer: String,
    /// How often our finalizer was added and removed.
    pub finalizer_changes: (usize, usize),
    /// The API knows it; once it is gone, its last state is still here.
    pub exists: bool,
}

impl ClusterObject {
    pub(crate) fn new(content: Value, finalizer: &str) -> Self {
        let mut value = json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "example", "namespace": "default", "uid": "uid1", "resourceVersion": "1"},
        });
        kopf_object::merge(&mut value, &content);
        Self { value, finalizer: finalizer.to_owned(), finalizer_changes: (0, 0), exists: true }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn body(&self) -> Body {
        Body::from_value(self.value.clone())
    }

    pub(crate) fn version(&self) -> u64 {
        self.value["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse().unwrap_or_default()
    }

    pub(crate) fn is_deletion_ongoing(&self) -> bool {
        finalizers::is_deletion_ongoing(&self.value)
    }

    pub(crate) fn is_held(&self) -> bool {
        finalizers::is_deletion_blocked(&self.value, &self.finalizer)
    }

    /// Somebody changes the object; nothing happens if it is gone, and there is no new version without a change.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        if !self.exists {
            return;
        }
        let before = self.value.clone();
        change(&mut self.value);
        // The API does not keep empty metadata.
        for stanza in ["labels", "annotations", "finalizers"] {
            let metadata = &mut self.value["metadata"];
            let is_empty = metadata.get(stanza).is_some_and(|value| *value == json!({}) || *value == json!([]));
            if is_empty && let Some(metadata) = metadata.as_object_mut() {
                metadata.shift_remove(stanza);
            }
        }
        if self.value != before {
            self.value["metadata"]["resourceVersion"] = (self.version() + 1).to_string().into();
        }
        let is_released = self.is_deletion_ongoing() && self.value["metadata"].get("finalizers").is_none();
        self.exists = !is_released;
    }

    pub(crate) fn delete(&mut self, now: Timestamp) {
        if !self.is_deletion_ongoing() {
            self.edit(|value| value["metadata"]["deletionTimestamp"] = now.to_string().into());
        }
    }

    pub(crate) fn merge(&mut self, patch: &MergePatch) {
        if !patch.is_empty() {
            self.edit(|value| patch.apply_to(value));
        }
    }

    /// Guarded by the version that the decision was made on; refused if there is a newer one.
    pub(crate) fn change_finalizer(&mut self, change: FinalizerChange, version: u64) -> bool {
        if !self.exists || self.version() != version {
            return false;
        }
        let finalizer = self.finalizer.clone();
        match change {
            FinalizerChange::Add => {
                assert!(!self.is_deletion_ongoing(), "the API refuses new finalizers on {:#}", self.value);
                self.finalizer_changes.0 += 1;
                self.edit(|value| finalizers::add_finalizer(value, &finalizer));
            }
            FinalizerChange::Remove => {
                self.finalizer_changes.1 += 1;
                self.edit(|value| finalizers::remove_finalizer(value, &finalizer));
            }
        }
        true
    }
}

/// A change handler, declared as the fronts do it.
pub(crate) fn declare(index: usize, id: &str, declaration: Value) -> Arc<Handler> {
    let mut full = json!({"index": index, "id": id, "fn": index, "kind": "changing"});
    kopf_object::merge(&mut full, &declaration);
    match serde_json::from_value(full.clone()) {
        Ok(handler) => Arc::new(handler),
        Err(error) => panic!("{error}: {full:#}"),
    }
}
