//! What tests can do to a cluster: inject faults and count requests.

mod request_info;
mod faults;
mod counts;

pub use counts::{Counts, RequestCount};
pub use faults::{ActiveFault, Disruption, Effect, Fault, FaultError, FaultRegistry, Faults, Match, WatchFaults};
pub use request_info::RequestInfo;
