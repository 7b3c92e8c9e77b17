//! Calls of the users' functions, through the port to the front.

pub(crate) mod activity;
mod concurrency;

pub use activity::ActivityError;
pub(crate) use activity::{run_activity, target_of};
pub(crate) use concurrency::Gates;
