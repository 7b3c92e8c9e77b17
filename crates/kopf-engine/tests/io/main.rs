//! The parts of the engine that talk to the API, against a scripted one in the same process.
//!
//! All tests run on paused time: pauses and time-outs cost nothing and are exact.

// Helpers outside of test functions may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod discovery;
mod fake;
mod posting;
mod watch;
