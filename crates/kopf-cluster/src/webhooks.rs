//! What others decide about objects: admission webhooks, and the conversion webhooks of CRDs.
//!
//! The verbs stay plain functions. Where one needs the word of a webhook, it asks its [`Replay`](crate::request::Replay);
//! an answer that is not there yet is noted, the verb stops before it has written anything, and
//! `http/service.rs` makes the calls and runs the verb again with what was answered.

// The way of a question.
mod admission;
mod review;
mod client;
mod trust;

// The versions of custom resources.
mod conversion;

pub(crate) use admission::Admission;
pub(crate) use client::fetch;
pub(crate) use conversion::{Converter, convert_stored};
