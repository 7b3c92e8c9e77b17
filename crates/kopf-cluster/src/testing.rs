//! What tests can do to a cluster: inject faults and count requests.

mod request_info;
mod faults;
mod counts;

pub(crate) use counts::Counts;
pub use counts::RequestCount;
pub use faults::{ActiveFault, Effect, Fault, FaultError, Faults, Match};
pub(crate) use faults::{Disruption, FaultRegistry, WatchFaults};
pub(crate) use request_info::RequestInfo;
