//! What tests can do with a cluster: faults on demand, and counts of requests.

mod facts;
mod faults;
mod counts;

pub use counts::{Counts, RequestCount};
pub use facts::Facts;
pub use faults::{ActiveFault, Disruption, Effect, Fault, FaultError, Faults, Match, Switchboard, WatchFaults};
