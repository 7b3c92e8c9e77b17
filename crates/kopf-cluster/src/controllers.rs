//! What the controllers of a real cluster do after a write.

mod hooks;
mod gc;
pub mod namespaces;
mod resume;
pub mod workloads;

pub use hooks::Controllers;
pub use resume::resume;
