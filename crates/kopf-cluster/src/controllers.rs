//! What the controllers of a real cluster do after a write.

mod hooks;
mod gc;
pub(crate) mod namespaces;
mod resume;
pub(crate) mod workloads;

pub(crate) use hooks::Controllers;
pub(crate) use resume::resume;
