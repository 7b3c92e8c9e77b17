//! Writes the log of a data directory, and snapshots when it has grown.
//!
//! `state.rs` appends every change before committing it, under the lock of the store. A sync thread flushes
//! the log to disk and writes snapshots, so that no request waits for the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::OpenError;
use super::directory::{DirectoryLock, failed, open_log, replace, sync_directory};
use super::record::{FileType, HEADER_SIZE, Header, Record, encode_put, encode_remove};
use super::recovery::{Position, log_path, snapshot_path};
use crate::store::{Change, Event, Snapshot};

/// How long an appended change waits at most to be flushed to disk.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A snapshot is due when the log is this many times as long as the last one.
const GROWTH: u64 = 2;

/// The open log.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    /// Opened for appending.
    file: File,
    generation: u64,
    /// The length of its whole records.
    length: u64,
    /// Snapshots are not due before this length of the log.
    limit: u64,
    /// Set when the end of the log is in an unknown state; the journal then rejects all writes.
    broken: bool,
    /// Reused for every record.
    buffer: Vec<u8>,
    shared: Arc<SyncState>,
    orders: Option<Sender<SyncCommand>>,
    sync_thread: Option<JoinHandle<()>>,
    /// Held while the directory is in use.
    _lock: DirectoryLock,
}

/// What the journal and the sync thread share.
#[derive(Debug, Default)]
struct SyncState {
    /// Whether the log has changes that are not on disk yet.
    dirty: AtomicBool,
    /// Whether a snapshot is being written.
    busy: AtomicBool,
    snapshot_size: AtomicU64,
}

/// A command for the sync thread.
enum SyncCommand {
    /// Flush the log.
    Sync,
    /// Continue with this log file, and write a snapshot that replaces everything before it.
    Snapshot { log: File, generation: u64, snapshot: Snapshot },
}

impl Journal {
    /// Continues a log after its last whole record, or creates it.
    pub(crate) fn open(
        directory: &Path,
        lock: DirectoryLock,
        position: Position,
        limit: u64,
    ) -> Result<Self, OpenError> {
        let path = log_path(directory, position.generation);
        let mut file = open_log(&path).map_err(failed("open", &path))?;
        let mut length = position.length;
        // The rest was truncated, so the client never got a response.
        file.set_len(length).map_err(failed("cut", &path))?;
        if length == 0 {
            let header =
                Header { file_type: FileType::Log, generation: position.generation, version: position.version };
            file.write_all(&header.encode()).map_err(failed("write", &path))?;
            length = HEADER_SIZE as u64;
        }
        file.sync_all().map_err(failed("sync", &path))?;
        sync_directory(directory).map_err(failed("sync", directory))?;
        let shared = Arc::new(SyncState::default());
        shared.snapshot_size.store(position.snapshot_size, Ordering::Relaxed);
        let (orders, receiver) = channel();
        let sync_thread = SyncThread {
            directory: directory.to_owned(),
            log: file.try_clone().map_err(failed("open", &path))?,
            shared: Arc::clone(&shared),
        };
        let sync_thread = std::thread::Builder::new()
            .name("kopf-cluster-disk".into())
            .spawn(move || sync_thread.run(&receiver))
            .map_err(failed("start a thread for", directory))?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            generation: position.generation,
            length,
            limit,
            broken: false,
            buffer: Vec::new(),
            shared,
            orders: Some(orders),
            sync_thread: Some(sync_thread),
            _lock: lock,
        })
    }

    /// Appends a change that is about to be committed. If that fails, the change must not be committed.
    pub(crate) fn append(&mut self, resource: &str, event: &Event) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the log could not be written before"));
        }
        let object = &event.object;
        self.buffer.clear();
        match event.change {
            Change::Deleted => encode_remove(&mut self.buffer, object.version, resource, &object.object_key),
            _ => encode_put(&mut self.buffer, object.version, resource, &object.object_key, &object.raw),
        }
        if let Err(error) = self.file.write_all(&self.buffer) {
            // A part of the record may be written; the next record must not follow it.
            self.broken = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += self.buffer.len() as u64;
        if !self.shared.dirty.swap(true, Ordering::AcqRel) {
            self.order(SyncCommand::Sync);
        }
        Ok(())
    }

    /// Whether the log is long enough to be replaced by a snapshot.
    pub(crate) fn is_long(&self) -> bool {
        let due = self.shared.snapshot_size.load(Ordering::Relaxed).saturating_mul(GROWTH).max(self.limit);
        self.length > due && !self.shared.busy.load(Ordering::Acquire)
    }

    /// Begins a new log, and requests a snapshot that replaces the previous files.
    pub(crate) fn rotate(&mut self, snapshot: Snapshot) {
        let generation = self.generation + 1;
        match self.begin_log(generation, snapshot.version) {
            Ok((file, log)) => {
                self.file = file;
                self.generation = generation;
                self.length = HEADER_SIZE as u64;
                self.shared.busy.store(true, Ordering::Release);
                self.order(SyncCommand::Snapshot { log, generation, snapshot });
            }
            Err(_) => {
                // Continue the current log; no other file may claim to follow it.
                let removed = std::fs::remove_file(log_path(&self.directory, generation));
                self.broken = removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
                self.limit = self.limit.max(self.length).saturating_mul(2);
            }
        }
    }

    /// The file of a new log, for the journal and for the sync thread.
    fn begin_log(&self, generation: u64, version: u64) -> io::Result<(File, File)> {
        // Only the last log may be truncated, so this one must be complete on disk first.
        self.file.sync_data()?;
        let mut file = open_log(&log_path(&self.directory, generation))?;
        file.write_all(&Header { file_type: FileType::Log, generation, version }.encode())?;
        sync_directory(&self.directory)?;
        let log = file.try_clone()?;
        Ok((file, log))
    }

    fn order(&self, order: SyncCommand) {
        if let Some(orders) = &self.orders {
            // The sync thread lives as long as the journal.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // When the channel closes, the sync thread flushes the rest and ends.
        self.orders = None;
        if let Some(sync_thread) = self.sync_thread.take() {
            let _ = sync_thread.join();
        }
    }
}

/// The thread that writes to disk.
struct SyncThread {
    directory: PathBuf,
    log: File,
    shared: Arc<SyncState>,
}

impl SyncThread {
    fn run(mut self, orders: &Receiver<SyncCommand>) {
        while let Ok(order) = orders.recv() {
            self.execute(order);
            // Changes that arrive in the meantime are flushed together.
            let due = Instant::now() + SYNC_INTERVAL;
            while let Ok(order) = orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                self.execute(order);
            }
            self.sync();
        }
        self.sync();
    }

    fn execute(&mut self, order: SyncCommand) {
        match order {
            SyncCommand::Sync => {}
            SyncCommand::Snapshot { log, generation, snapshot } => {
                self.log = log;
                // The logs still have everything; the journal retries when they have grown.
                if let Ok(size) = write_snapshot(&self.directory, generation, &snapshot) {
                    self.shared.snapshot_size.store(size, Ordering::Relaxed);
                    remove_older(&self.directory, generation);
                }
                self.shared.busy.store(false, Ordering::Release);
            }
        }
    }

    fn sync(&self) {
        if self.shared.dirty.swap(false, Ordering::AcqRel) {
            // The next change retries; until then, only a power failure would lose anything.
            let _ = self.log.sync_data();
        }
    }
}

/// Writes all objects to a temporary file, and renames it when complete.
fn write_snapshot(directory: &Path, generation: u64, snapshot: &Snapshot) -> io::Result<u64> {
    let mut size = HEADER_SIZE as u64;
    replace(&snapshot_path(directory, generation), |file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&Header { file_type: FileType::Snapshot, generation, version: snapshot.version }.encode())?;
        let mut buffer = Vec::new();
        for (resource, object) in &snapshot.objects {
            buffer.clear();
            encode_put(&mut buffer, object.version, resource, &object.object_key, &object.raw);
            out.write_all(&buffer)?;
            size += buffer.len() as u64;
        }
        buffer.clear();
        Record::End { count: snapshot.objects.len() as u64 }.encode(&mut buffer);
        size += buffer.len() as u64;
        out.write_all(&buffer)?;
        out.flush()
    })?;
    Ok(size)
}

/// Removes the files that a snapshot replaces.
fn remove_older(directory: &Path, generation: u64) {
    for older in (0..generation).rev() {
        let removed = [log_path(directory, older), snapshot_path(directory, older)].map(std::fs::remove_file);
        // Older files were removed with earlier snapshots; a failed attempt leaves its log.
        if removed.iter().all(Result::is_err) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::persistence::{directory, recovery};
    use crate::store::{ObjectKey, Store, Write as StoreWrite};

    #[test]
    fn what_cannot_be_written_leaves_no_trace() {
        let path = std::env::temp_dir().join(format!("kopf-journal-{}", std::process::id()));
        let position = Position { generation: 0, version: 1, length: 0, snapshot_size: 0 };
        let mut journal = Journal::open(&path, directory::lock(&path).unwrap(), position, 1000).unwrap();
        let mut store = Store::new(10);
        let things: Arc<str> = "things".into();
        let mut write = |journal: &mut Journal, name: &str| {
            let write = StoreWrite::Create { object_key: ObjectKey::new("", name), value: json!({"metadata": {}}) };
            let event = store.prepare(&things, write.drafted()).unwrap();
            journal.append(&things, &event).map(|()| store.commit(&things, event).object.version)
        };
        assert_eq!(write(&mut journal, "a").unwrap(), 2);
        let writable = std::mem::replace(&mut journal.file, File::open(log_path(&path, 0)).unwrap());
        write(&mut journal, "b").unwrap_err();
        // The journal stops writing to a file that it cannot truncate.
        journal.file = writable;
        assert!(write(&mut journal, "c").unwrap_err().to_string().contains("before"));
        journal.broken = false;
        assert_eq!(write(&mut journal, "d").unwrap(), 3);
        drop(journal);
        let recovered = recovery::recover(&path).unwrap();
        assert_eq!(recovered.version, 3);
        let names: Vec<&str> = recovered.objects["things"].keys().map(|object_key| &*object_key.name).collect();
        assert_eq!(names, ["a", "d"]);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
