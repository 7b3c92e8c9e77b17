//! The cluster from outside: requests in, answers out. One program, since linking takes longer than running.

mod common;
mod objects;
mod watching;
mod definitions;
mod server;
mod persistence;
mod faults;
mod workloads;
mod hook;
mod webhooks;
mod conversion;
mod bad_input;
