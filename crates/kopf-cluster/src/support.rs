//! Foundations: the options, the clock, the captured documents of a real server, certificates.

pub(crate) mod options;
pub(crate) mod clock;
pub(crate) mod capture;
pub(crate) mod certificates;
