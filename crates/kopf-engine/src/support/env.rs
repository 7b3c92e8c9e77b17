//! What nearly every part of a running operator needs; made once by the operator.

use super::crashes::Crashes;
use super::{Clock, Log};

/// Clones are cheap and share everything.
#[derive(Clone)]
pub(crate) struct Env {
    pub clock: Clock,
    pub log: Log,
    /// Where a task reports its panic.
    pub crashes: Crashes,
}
