//! What everything else stands on: the clock, the documents of a real server, certificates.

pub mod options;
pub mod clock;
pub mod capture;
pub mod certificates;
