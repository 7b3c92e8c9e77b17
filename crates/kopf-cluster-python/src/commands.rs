//! The parts of the command line that kopf-cli implements: `kopf cluster`, and the kubeconfig that `kopf dev` writes.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::failures::unavailable;

/// Runs a command that needs no Python, and returns its exit code.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn command_line(python: Python<'_>, arguments: Vec<String>) -> u8 {
    python.detach(|| kopf_cli::run(arguments.into_iter().map(Into::into)))
}

/// Writes the kubeconfig of an embedded cluster to a file of the user's choice, unless kopf did not write that file.
#[pyfunction]
#[pyo3(signature = (path, text, /))]
pub(crate) fn write_kubeconfig(path: PathBuf, text: &str) -> PyResult<()> {
    kopf_cli::kubeconfig::write(&path, text).map_err(unavailable)
}
