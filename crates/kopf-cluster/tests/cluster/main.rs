//! Integration tests of the cluster: requests and responses. They are one program, since linking takes longer than
//! running.

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
