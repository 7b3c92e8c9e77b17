//! Daemons and timers: which of them must run, when they are due, how they stop.
//!
//! The cycle of an object decides which tasks start and stop ([`BackgroundPlan`]). Each task is a separate machine
//! ([`BackgroundTask`]): it knows when it is due, takes the outcomes of calls, and stops step by step. The engine keeps
//! the schedule and makes the calls.

mod settings;
mod reasons;
mod plan;
mod stopping;
mod task;

pub use plan::{BackgroundPlan, BackgroundView, TaskPhase};
pub use reasons::StopReasons;
pub use settings::TaskSettings;
pub use stopping::StopStep;
pub use task::{BackgroundTask, Moment, TaskEnding, TaskStep};
