//! The data directory itself: its lock, and files that only their owner can read.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

/// The lock of a data directory. The operating system also frees it when the process ends.
///
/// It is unlocked explicitly. If the file were only closed, a child process that this process is just
/// starting would keep the directory locked until it closes the inherited descriptor.
#[derive(Debug)]
pub(crate) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If this fails, closing the file still frees the lock.
        let _ = self.0.unlock();
    }
}

/// Creates the directory if necessary, and locks it for this process while the lock lives.
pub(super) fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    make(directory).map_err(failed("make", directory))?;
    let path = directory.join("lock");
    let mut file =
        private(OpenOptions::new().read(true).write(true).create(true)).open(&path).map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            // The process id is only a hint; without it, the message is shorter.
            let _ = file.read_to_string(&mut process);
            return Err(OpenError::InUse { path: directory.to_owned(), process: process.trim().parse().ok() });
        }
        Err(TryLockError::Error(source)) => return Err(OpenError::Io { action: "lock", path, source }),
    }
    let note = |file: &mut File| -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    note(&mut file).map_err(failed("write", &path))?;
    Ok(DirectoryLock(file))
}

/// Writes a file atomically.
pub(super) fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    let temporary = PathBuf::from(name);
    let mut file = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&temporary)?;
    fill(&mut file)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// The suffix of unfinished files; opening a cluster removes them.
pub(super) const TEMPORARY: &str = ".unfinished";

/// Opens a log for appending.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().append(true).create(true)).open(path)
}

/// Makes new and renamed files of a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(directory)?.sync_all(),
        // Other systems cannot open directories as files, and need not.
        false => Ok(()),
    }
}

/// Wraps an I/O error with the failed step and the path.
pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { action, path, source }
}

fn make(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    // An existing directory keeps its permissions: it may be shared on purpose.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_in_a_child_process_does_not_keep_the_lock() {
        let path = std::env::temp_dir().join(format!("kopf-directory-{}", std::process::id()));
        let first = lock(&path).unwrap();
        // A child process inherits the descriptor until it executes its program.
        let inherited = first.0.try_clone().unwrap();
        assert!(matches!(lock(&path), Err(OpenError::InUse { .. })));
        drop(first);
        drop(lock(&path).unwrap());
        drop(inherited);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
