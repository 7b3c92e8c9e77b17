//! Built-in kinds: names, defaults, validation, conversion between versions, and their special cases.

pub(crate) mod kinds;
pub(crate) mod strategy;
pub(crate) mod rules;
pub(crate) mod defaults;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod namespaces;
mod completion;

pub(crate) use completion::{complete, normalize_structure};
