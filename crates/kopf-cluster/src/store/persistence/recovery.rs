//! Reads a data directory when a cluster is opened: the newest snapshot, and the logs after it.
//!
//! Each file names the version that it continues from, so that a missing one is noticed. Only the last log
//! can end within a record: that write was never acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::OpenError;
use super::directory::{TEMPORARY, failed};
use super::record::{FileType, HEADER_SIZE, Header, ReadError, Record, Records, decode_all};
use crate::store::ObjectKey;

/// All objects of all resources, with their versions.
pub(super) type RecoveredObjects = HashMap<Arc<str>, BTreeMap<ObjectKey, (u64, Bytes)>>;

/// The content of a data directory.
#[derive(Debug)]
pub(super) struct Recovered {
    pub version: u64,
    pub objects: RecoveredObjects,
    pub position: Position,
}

/// Where the journal continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The generation of the log to continue.
    pub generation: u64,
    /// The version of the latest change in it.
    pub version: u64,
    /// The length of its whole records; 0 if the file does not exist.
    pub length: u64,
    /// The size of the snapshot that it continues.
    pub snapshot_size: u64,
}

pub(super) fn recover(directory: &Path) -> Result<Recovered, OpenError> {
    let files = Files::find(directory)?;
    // A new store starts at 1, as in `Store::new`.
    let mut recovered = Recovered {
        version: 1,
        objects: HashMap::new(),
        position: Position { generation: 0, version: 1, length: 0, snapshot_size: 0 },
    };
    let first = files.snapshots.last().copied().unwrap_or(0);
    if let Some(generation) = files.snapshots.last() {
        recovered.read_snapshot(directory, *generation)?;
    }
    let logs: Vec<u64> = files.logs.iter().copied().filter(|generation| *generation >= first).collect();
    for (index, generation) in logs.iter().enumerate() {
        let expected = first + index as u64;
        if *generation != expected {
            return Err(OpenError::Missing { path: log_path(directory, expected) });
        }
        recovered.read_log(directory, *generation, index + 1 == logs.len())?;
    }
    if logs.is_empty() && !files.snapshots.is_empty() {
        return Err(OpenError::Missing { path: log_path(directory, first) });
    }
    files.remove_superseded(directory, first);
    Ok(recovered)
}

pub(super) fn log_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("log-{generation}"))
}

pub(super) fn snapshot_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("snapshot-{generation}"))
}

impl Recovered {
    fn read_snapshot(&mut self, directory: &Path, generation: u64) -> Result<(), OpenError> {
        let path = snapshot_path(directory, generation);
        let bytes = std::fs::read(&path).map_err(failed("read", &path))?;
        let unreadable = |source| OpenError::Unreadable { path: path.clone(), source };
        let header = Header::decode(&bytes).map_err(unreadable)?;
        if header.file_type != FileType::Snapshot || header.generation != generation {
            return Err(unreadable(ReadError::Damaged { offset: 0, reason: "it is another file than its name says" }));
        }
        let Records { records, end } = decode_all(&bytes).map_err(unreadable)?;
        let count = records.len() as u64 - u64::from(!records.is_empty());
        if records.last() != Some(&Record::End { count }) || end != bytes.len() {
            return Err(unreadable(ReadError::Damaged { offset: end, reason: "the end of the snapshot is missing" }));
        }
        self.version = header.version;
        self.position.snapshot_size = bytes.len() as u64;
        records.into_iter().for_each(|record| self.apply(record));
        Ok(())
    }

    fn read_log(&mut self, directory: &Path, generation: u64, last: bool) -> Result<(), OpenError> {
        let path = log_path(directory, generation);
        let bytes = std::fs::read(&path).map_err(failed("read", &path))?;
        let unreadable = |source| OpenError::Unreadable { path: path.clone(), source };
        self.position.generation = generation;
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            // The process ended while it created the file.
            Err(ReadError::CutHeader) if last => {
                self.position.length = 0;
                return Ok(());
            }
            Err(error) => return Err(unreadable(error)),
        };
        let damaged = |offset, reason| unreadable(ReadError::Damaged { offset, reason });
        if header.file_type != FileType::Log || header.generation != generation {
            return Err(damaged(0, "it is another file than its name says"));
        }
        if header.version != self.version {
            return Err(damaged(0, "it does not continue the file before"));
        }
        let Records { records, end } = decode_all(&bytes).map_err(unreadable)?;
        if end != bytes.len() && !last {
            return Err(damaged(end, "its end is missing, though there is a newer log"));
        }
        for record in records {
            let version = match &record {
                Record::Put { version, .. } | Record::Remove { version, .. } => *version,
                Record::End { .. } => return Err(damaged(HEADER_SIZE, "it has the end of a snapshot")),
            };
            if version != self.version + 1 {
                return Err(damaged(HEADER_SIZE, "the versions of its changes do not follow each other"));
            }
            self.version = version;
            self.apply(record);
        }
        self.position.version = self.version;
        self.position.length = end as u64;
        Ok(())
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Put { version, resource, object_key, raw } => {
                self.objects.entry(resource).or_default().insert(object_key, (version, raw));
            }
            Record::Remove { resource, object_key, .. } => {
                if let Some(objects) = self.objects.get_mut(&resource) {
                    objects.remove(&object_key);
                }
            }
            Record::End { .. } => {}
        }
    }
}

/// The generations of the files of a directory, in their order.
#[derive(Debug, Default)]
struct Files {
    snapshots: Vec<u64>,
    logs: Vec<u64>,
    unfinished: Vec<PathBuf>,
}

impl Files {
    fn find(directory: &Path) -> Result<Self, OpenError> {
        let mut files = Self::default();
        for entry in std::fs::read_dir(directory).map_err(failed("read", directory))? {
            let entry = entry.map_err(failed("read", directory))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<u64>().ok();
            if let Some(generation) = number("snapshot-") {
                files.snapshots.push(generation);
            } else if let Some(generation) = number("log-") {
                files.logs.push(generation);
            } else if name.ends_with(TEMPORARY) {
                files.unfinished.push(entry.path());
            }
        }
        files.snapshots.sort_unstable();
        files.logs.sort_unstable();
        Ok(files)
    }

    /// Removes the files that the newest snapshot replaces.
    fn remove_superseded(self, directory: &Path, first: u64) {
        let old = |generations: Vec<u64>, path: fn(&Path, u64) -> PathBuf| {
            let old = generations.into_iter().filter(move |generation| *generation < first);
            old.map(|generation| path(directory, generation)).collect::<Vec<_>>()
        };
        let superseded = [old(self.snapshots, snapshot_path), old(self.logs, log_path), self.unfinished];
        for path in superseded.into_iter().flatten() {
            // A file that cannot be removed only takes space.
            let _ = std::fs::remove_file(path);
        }
    }
}
