//! The data directory: what a cluster knows, kept over restarts and hard ends of the process.
//!
//! Every accepted write goes into a log before it is answered, by one `write` to the operating
//! system: whatever ends the process, it is there afterwards. The log is brought to the disk
//! within a second ([`journal::SYNC_INTERVAL`]), so that a loss of power costs that second at
//! most. When the log has grown, a snapshot of all objects takes its place.
//!
//! The files, all of them readable by their owner alone, since there are secrets in them:
//! `lock` (held while the cluster runs), `identity.json` (the token and the certificates),
//! `snapshot-N` and `log-N`: all objects at a version, and the changes from there on.

mod directory;
mod identity;
pub mod journal;
pub mod record;
mod recovery;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use identity::Identity;
pub use journal::Journal;

use super::Store;
use crate::support::options::Options;
use record::ReadError;

/// Why a cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works with the directory.
    #[error("the data directory {} is in use by another process{}", path.display(), process_text(.process))]
    InUse { path: PathBuf, process: Option<u32> },
    /// A file or the directory cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A file is not what it should be. Nothing was changed.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: ReadError },
    /// A file that others continue from is not there.
    #[error("{} is missing: there are newer files that continue it", path.display())]
    Missing { path: PathBuf },
    /// The token and the certificates cannot be read.
    #[error("cannot use {}: {reason}", path.display())]
    Identity { path: PathBuf, reason: String },
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[source] Arc<rcgen::Error>),
}

fn process_text(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (its id is {process})"))
}

/// What was found in a data directory, ready to go on with.
pub struct Opened {
    pub store: Store,
    pub journal: Journal,
    pub identity: Identity,
}

/// Opens a data directory, or makes it.
pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let lock = directory::lock(path)?;
    let identity = Identity::load(path, options.token.as_deref())?;
    let recovered = recovery::recover(path)?;
    let store = Store::restore(options.history_limit, recovered.version, recovered.objects);
    let journal = Journal::open(path, lock, recovered.position, options.data_log_limit)?;
    Ok(Opened { store, journal, identity })
}
