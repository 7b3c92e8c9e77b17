//! The manifests that are named on a command line: files, and folders of files.

use std::io;
use std::path::{Path, PathBuf};

/// A manifest that was named, and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub(crate) struct ReadError {
    path: PathBuf,
    source: io::Error,
}

/// The texts of all files, with their paths; of a folder, all YAML and JSON files by their names.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, ReadError> {
    let mut texts = Vec::new();
    for path in paths {
        for file in files_of(path).map_err(|source| ReadError { path: path.clone(), source })? {
            match std::fs::read_to_string(&file) {
                Ok(text) => texts.push((file, text)),
                Err(source) => return Err(ReadError { path: file, source }),
            }
        }
    }
    Ok(texts)
}

fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
