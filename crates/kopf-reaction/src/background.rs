//! Daemons and timers: what is declared of them, which of them must run, how they run, how they are stopped.
//!
//! The cycle of an object decides which runs begin and end ([`BackgroundPlan`]). Each run is a machine of its own
//! ([`BackgroundTask`]): when it is due, what came of a call, how far its stopping is. The engine keeps the time and calls.

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
