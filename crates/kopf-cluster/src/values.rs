//! Values with a Kubernetes syntax: names, addresses, selectors, JSON paths, CEL expressions.

pub mod names;
pub mod addresses;
pub mod selector;
pub mod jsonpath;
pub mod cel;
