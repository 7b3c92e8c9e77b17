//! Values with a syntax of Kubernetes: names, addresses, selectors, paths, expressions.

pub mod names;
pub mod addresses;
pub mod selector;
pub mod jsonpath;
pub mod cel;
