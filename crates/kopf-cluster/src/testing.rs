//! What tests can do with a cluster: faults on demand, and counts of requests.

mod request_info;
mod faults;
mod counts;

pub use counts::{Counts, RequestCount};
pub use faults::{ActiveFault, Disruption, Effect, Fault, FaultError, FaultRegistry, Faults, Match, WatchFaults};
pub use request_info::RequestInfo;
