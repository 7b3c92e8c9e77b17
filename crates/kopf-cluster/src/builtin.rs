//! Built-in kinds: names, defaults, validation, conversion between versions, and their special cases.

pub mod kinds;
pub mod strategy;
pub mod rules;
pub mod defaults;
pub mod convert;
pub mod crd;
pub mod namespaces;
mod completion;

pub use completion::{complete, normalize_structure};
