//! The native module `kopf._native`: the bridge between the engine and the Python front.
//!
//! It converts, calls, converts, and decides nothing. The engine runs on its own threads and enqueues jobs; the front
//! takes them in the thread of the user's event loop, and answers from any thread. No engine thread waits for the GIL.

mod operator;
mod front;
mod bridge;
mod job_queue;
mod job;
mod jobs;
mod cycle;
mod review;
mod webhooks;
mod failures;
mod memory;

use kopf_object::{FieldPath, MergePatch};
use pyo3::prelude::*;
use serde_json::{Value, json};

// Free-threaded interpreters enable the GIL for this module: the Python side of the front relies on it.
#[pymodule(gil_used = true)]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<operator::Operator>()?;
    module.add_class::<cycle::Cycle>()?;
    module.add_class::<cycle::ObjectMemory>()?;
    module.add_class::<cycle::LatestBody>()?;
    module.add_class::<review::Review>()?;
    jobs::register(module)?;
    module.add_function(wrap_pyfunction!(shrink_essence, module)?)?;
    module.add_function(wrap_pyfunction!(self_signed, module)?)?;
    module.add_function(wrap_pyfunction!(describe_certificate, module)?)?;
    module.add_function(wrap_pyfunction!(yaml_to_json, module)?)?;
    module.add_function(wrap_pyfunction!(operator::advance_clock, module)?)?;
    module.add_function(wrap_pyfunction!(operator::clock_shift, module)?)?;
    Ok(())
}

/// The text of an essence to store in these annotations. It is compressed or shortened if the other annotations leave too
/// little space.
#[pyfunction]
#[pyo3(signature = (essence, keys, annotations, patched, /))]
fn shrink_essence(essence: &str, keys: Vec<String>, annotations: &str, patched: &str) -> PyResult<String> {
    let parse = |text: &str| serde_json::from_str(text).map_err(failures::invalid_json);
    let (essence, annotations, patched): (Value, Value, Value) =
        (parse(essence)?, parse(annotations)?, parse(patched)?);
    let mut patch = MergePatch::new();
    patch.set(&FieldPath::from(["metadata", "annotations"]), patched);
    let body = json!({"metadata": {"annotations": annotations}});
    Ok(kopf_object::encode_essence_within(&essence, kopf_reaction::remaining_annotation_budget(&keys, &body, &patch)))
}

/// A self-signed certificate for the names, and its key, both in PEM.
#[pyfunction]
#[pyo3(signature = (names, /))]
fn self_signed(names: Vec<String>) -> PyResult<(String, String)> {
    kopf_engine::self_signed(&names, kopf_engine::Clock::system().now()).map_err(failures::invalid_value)
}

/// What Python's `ssl` reports about a certificate, as JSON.
#[pyfunction]
#[pyo3(signature = (der, /))]
fn describe_certificate(der: &[u8]) -> String {
    kopf_engine::describe_certificate(der).to_string()
}

/// A YAML document as JSON; null if the text is empty.
#[pyfunction]
#[pyo3(signature = (text, /))]
fn yaml_to_json(text: &str) -> PyResult<String> {
    let value: Option<Value> = serde_saphyr::from_str(text).map_err(failures::invalid_value)?;
    Ok(value.unwrap_or_default().to_string())
}
