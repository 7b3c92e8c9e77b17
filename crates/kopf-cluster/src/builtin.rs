//! What is known about built-in kinds: names, defaults, checks, versions.

pub mod kinds;
pub mod traits;
pub mod rules;
pub mod defaults;
pub mod convert;
pub mod crd;
pub mod namespaces;
mod completion;

pub use completion::{complete, settle_form};
