//! Admission webhooks, and the conversion webhooks of CRDs.
//!
//! The verbs are synchronous functions. A verb that needs the response of a webhook looks it up in the
//! [`Replay`](crate::request::Replay) of its request. If the response is not there yet, the verb adds the call to
//! the replay and returns before it has written anything. `http/service.rs` then makes the calls, and runs the
//! verb again with their responses.

// Admission, in the order of a call.
mod admission;
mod review;
mod client;
mod trust;

// The versions of custom resources.
mod conversion;

pub(crate) use admission::Admission;
pub(crate) use client::fetch;
pub(crate) use conversion::{Converter, convert_stored};
