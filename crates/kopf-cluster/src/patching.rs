//! Patches: how a request changes an object that exists.
//!
//! The API front picks one by the content type of the request: [`apply_json_patch`],
//! [`apply_merge`], [`apply_strategic`], or server-side apply in [`managed`]; and after every
//! other write it records who wrote which fields, by [`managed`] as well.

mod merge;
mod json_patch;
mod strategic;
mod elements;
pub(crate) mod managed;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod properties;

pub(crate) use json_patch::{JsonPatchError, apply_json_patch};
pub(crate) use merge::apply_merge;
pub(crate) use strategic::{StrategicPatchError, apply_strategic};
