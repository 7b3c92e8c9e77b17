//! What every part of the engine uses: the clock, the log, the request to stop, limits and small containers.

// Time.
pub(crate) mod clock;
pub(crate) mod pacing;
// What the operator tells, and when it ends.
pub(crate) mod log;
mod stop;
pub(crate) mod crashes;
// When it works and when it does not.
pub(crate) mod pauses;
pub(crate) mod idle;
// Limits and containers.
pub(crate) mod connection_limit;
mod fifo;
// How the operator refers to objects.
mod object_key;
mod version;
mod env;

pub use clock::{Clock, TimeShift, seconds};
pub use log::{FrontError, Log, Record, Sink};
pub use pacing::Pacing;
pub use pauses::Pauses;
pub use stop::Stop;

pub(crate) use env::Env;
pub(crate) use fifo::Fifo;
pub(crate) use object_key::{ObjectKey, ResourceKey};
pub(crate) use version::{Version, version_number};
