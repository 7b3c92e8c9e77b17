//! Foundations: the options, the clock, the captured documents of a real server, certificates.

pub mod options;
pub mod clock;
pub mod capture;
pub mod certificates;
