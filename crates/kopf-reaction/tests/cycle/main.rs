//! The main flows as written scenarios: effects, notes and patches, word by word as kopf 1.45 has them.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "../simulation/mod.rs"]
mod simulation;

mod handling;
mod finalizer;
mod superseding;
mod partial_handling;
mod fronts;
mod records;

use std::sync::Arc;

use kopf_reaction::{CallError, Handler};
use serde_json::{Value, json};
use simulation::declare;
use simulation::scenario::Outcome;

pub fn temporary(delay: f64) -> Outcome {
    Err(CallError::Temporary { message: "wait".into(), display: "wait".into(), delay: Some(delay) })
}

pub fn arbitrary() -> Outcome {
    Err(CallError::Arbitrary { message: "boo".into(), display: "boo".into() })
}

pub fn on(index: usize, id: &str, reason: &str) -> Arc<Handler> {
    declare(index, id, json!({"reason": reason, "requires_finalizer": reason == "delete"}))
}

pub fn spec() -> Value {
    json!({"spec": {"x": 1}})
}

/// An object that was handled in full with these contents.
pub fn handled(content: Value, essence: Value) -> Value {
    let mut whole = json!({"metadata": {"annotations": {
        "kopf.zalando.org/last-handled-configuration": format!("{essence}\n"),
    }}});
    kopf_object::merge(&mut whole, &content);
    whole
}
