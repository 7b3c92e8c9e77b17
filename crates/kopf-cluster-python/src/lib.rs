//! The native module `kopf._native_cluster`: the embedded cluster, for Python.
//!
//! Only `kopf dev`, `kopf cluster` and `kopf.testing` load it. A production operator runs with `kopf._native` alone,
//! which links neither the API server nor its command line.

mod cluster;
mod commands;
mod failures;

use pyo3::prelude::*;

// Free-threaded interpreters enable the GIL for this module: the Python side relies on it.
#[pymodule(gil_used = true)]
#[pyo3(name = "_native_cluster")]
fn native_cluster(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<cluster::Cluster>()?;
    module.add_function(wrap_pyfunction!(commands::command_line, module)?)?;
    module.add_function(wrap_pyfunction!(commands::write_kubeconfig, module)?)?;
    Ok(())
}
