//! The native module `kopf._native`: the bridge between the engine and the Python front.
//!
//! It converts, calls, converts, and decides nothing. The engine runs on its own threads and queues jobs;
//! the front takes them in the thread of the user's event loop and answers from any thread.
//! No thread of the engine ever waits for the GIL.

mod mailbox;
mod memory;
mod job;
mod cycle;
mod front;
mod review;
mod webhooks;
mod operator;
mod failures;

use kopf_object::{FieldPath, MergePatch};
use pyo3::prelude::*;
use serde_json::{Value, json};

// Free-threaded interpreters switch the GIL on for it: the Python side of the front relies on it.
#[pymodule(gil_used = true)]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<operator::Operator>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<cycle::Cycle>()?;
    module.add_class::<review::Review>()?;
    module.add_class::<cycle::Live>()?;
    module.add_class::<cycle::Keeper>()?;
    for (name, value) in job::KINDS {
        module.add(*name, *value)?;
    }
    module.add_function(wrap_pyfunction!(storage_keys, module)?)?;
    module.add_function(wrap_pyfunction!(diff, module)?)?;
    module.add_function(wrap_pyfunction!(shrink_essence, module)?)?;
    module.add_function(wrap_pyfunction!(self_signed, module)?)?;
    module.add_function(wrap_pyfunction!(describe_certificate, module)?)?;
    module.add_function(wrap_pyfunction!(yaml_to_json, module)?)?;
    module.add_function(wrap_pyfunction!(operator::advance_clock, module)?)?;
    module.add_function(wrap_pyfunction!(operator::clock_shift, module)?)?;
    Ok(())
}

/// The annotations under which a key is stored, the newest scheme first.
#[pyfunction]
#[pyo3(signature = (prefix, key, v1, /))]
fn storage_keys(prefix: &str, key: &str, v1: bool) -> Vec<String> {
    kopf_object::keys::keys(prefix, key, v1, None)
}

/// The differences of two JSON texts, as a JSON text.
#[pyfunction]
#[pyo3(signature = (old, new, /))]
fn diff(old: &str, new: &str) -> PyResult<String> {
    let parse = |text: &str| serde_json::from_str(text).map_err(failures::invalid_json);
    let (old, new): (Value, Value) = (parse(old)?, parse(new)?);
    Ok(kopf_object::diff(Some(&old), Some(&new)).to_json().to_string())
}

/// The text to be stored under these annotations; shorter if all of it would not fit beside the other annotations.
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

/// What Python's `ssl` would tell about a certificate, as a JSON text.
#[pyfunction]
#[pyo3(signature = (der, /))]
fn describe_certificate(der: &[u8]) -> String {
    kopf_engine::describe_certificate(der).to_string()
}

/// A YAML document as a JSON text; null if there is none.
#[pyfunction]
#[pyo3(signature = (text, /))]
fn yaml_to_json(text: &str) -> PyResult<String> {
    let value: Option<Value> = serde_saphyr::from_str(text).map_err(failures::invalid_value)?;
    Ok(value.unwrap_or_default().to_string())
}
