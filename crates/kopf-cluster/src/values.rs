//! Values with a Kubernetes syntax: names, addresses, selectors, JSON paths, CEL expressions.

pub(crate) mod names;
pub(crate) mod addresses;
pub(crate) mod selector;
pub(crate) mod jsonpath;
pub(crate) mod cel;
