//! The whole operator, by `run`, with a scripted front and a small cluster in the same process.
//!
//! Almost all tests run on paused time: delays cost nothing and are exact. What is awaited is a condition,
//! never a time; time is let pass only to see that nothing more happens.

// Helpers outside of test functions may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod running;
mod script;
mod cluster;
mod wire;

mod asks;
mod background;
mod failover;
mod faults;
mod handling;
mod indexes;
mod kinds;
mod limits;
mod peering;
mod process;
mod streams;
