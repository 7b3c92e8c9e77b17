//! The data directory: keeps a cluster across restarts and crashes.
//!
//! Every accepted write goes into a log before the response, by one `write` to the operating system: it
//! survives any end of the process. A thread flushes the log to disk within a second
//! ([`journal::SYNC_INTERVAL`]), so that a power failure loses that second at most. When the log has grown,
//! a snapshot of all objects replaces it.
//!
//! Hand-written, because a cluster must start in 1-2 ms and a write must cost microseconds: opening a redb
//! database and reading 1.5 MB from it took 17 to 60 ms on the same machine, and a write without a flush 80 to
//! 850 µs.
//!
//! The files are readable by their owner only, since they contain secrets: `lock` (held while the cluster
//! runs), `identity.json` (the token and the certificates), `snapshot-N` and `log-N` (all objects at a
//! version, and the changes since).

mod directory;
mod identity;
pub(crate) mod journal;
pub(crate) mod record;
mod recovery;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use identity::Identity;
pub(crate) use journal::Journal;

use super::Store;
use crate::support::options::Options;
use record::ReadError;

/// Why a cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("the data directory {} is in use by another process{}", path.display(), process_text(.process))]
    InUse { path: PathBuf, process: Option<u32> },
    /// The directory or a file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A file is damaged or foreign. Nothing was changed.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: ReadError },
    /// A file is missing that others continue.
    #[error("{} is missing: there are newer files that continue it", path.display())]
    Missing { path: PathBuf },
    /// The token and the certificates cannot be read.
    #[error("cannot use {}: {reason}", path.display())]
    Identity { path: PathBuf, reason: String },
    /// The certificate cannot be generated.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[source] Arc<rcgen::Error>),
}

fn process_text(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (its id is {process})"))
}

/// The recovered state of a data directory.
pub(crate) struct Opened {
    pub store: Store,
    pub journal: Journal,
    pub identity: Identity,
}

/// Opens a data directory, or creates it.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let lock = directory::lock(path)?;
    let identity = Identity::load(path, options.token.as_deref())?;
    let recovered = recovery::recover(path)?;
    let store = Store::restore(options.history_limit, recovered.version, recovered.objects);
    let journal = Journal::open(path, lock, recovered.position, options.data_log_limit)?;
    Ok(Opened { store, journal, identity })
}
