//! Calls of the users' functions. Every call of every part of the engine goes through [`Caller`].

mod caller;
mod concurrency;
mod permit;
mod activity;

pub use activity::ActivityError;
pub(crate) use activity::{logger_of, run_activity};
pub(crate) use caller::Caller;
pub(crate) use concurrency::ConcurrencyLimits;
pub(crate) use permit::{LONG_CALL, WorkerLimits, WorkerPermit, WorkerPool};
