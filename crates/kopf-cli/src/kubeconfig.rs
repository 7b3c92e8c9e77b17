//! Writes the kubeconfig of the embedded cluster to a file that the user named.
//!
//! The file may be the user's only access to a real cluster. So `kopf cluster` and `kopf dev` replace only files that
//! they wrote themselves, and readers never see a half-written file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why the kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file exists, and kopf did not write it.
    #[error(
        "the file {} exists, and kopf did not write it. It may lead to a real cluster, so kopf leaves it unchanged: \
         name another file, or remove this one",
        path.display()
    )]
    NotOurs { path: PathBuf },
    /// The file cannot be read, or the new one cannot be written.
    #[error("the kubeconfig cannot be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the file for this user only. It must be new, empty, or a kubeconfig of an earlier embedded cluster.
pub fn write(path: &Path, text: &str) -> Result<(), KubeconfigError> {
    check(path)?;
    replace(path, text)
}

/// Checks that the file can be written without harm. Called before the cluster starts, so that it does not start in vain.
pub fn check(path: &Path) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { path: path.to_owned(), source };
    let ours = match fs::metadata(path) {
        // A link to nowhere is followed by `replace`: it makes the file that the link names.
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.is_file() => false,
        Ok(metadata) if metadata.len() == 0 => true,
        Ok(_) => {
            let content = fs::read(path).map_err(failed)?;
            std::str::from_utf8(&content).is_ok_and(kopf_cluster::is_own_kubeconfig)
        }
    };
    if ours { Ok(()) } else { Err(KubeconfigError::NotOurs { path: path.to_owned() }) }
}

/// Replaces the file atomically. The caller owns the folder, or has checked the file.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { path: path.to_owned(), source };
    // A link stays a link: its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| match fs::read_link(path) {
        Ok(link) => path.parent().unwrap_or(Path::new("")).join(link),
        Err(_) => path.to_owned(),
    });
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(name);
    // A killed process with this id may have left the file.
    let _ = fs::remove_file(&beside);
    let written = write_private(&beside, text).and_then(|()| fs::rename(&beside, &target));
    written.map_err(|error| {
        // The error matters, not the leftover.
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

/// Only the user may read it: the kubeconfig contains the token.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "apiVersion: v1\nkind: Config\ncurrent-context: production\n";

    async fn own() -> String {
        let cluster = kopf_cluster::Cluster::new(kopf_cluster::Options::default());
        let server = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        server.kubeconfig()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kopf-kubeconfig-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn only_own_files_are_replaced() {
        let text = own().await;
        let more = format!("{text}- name: production\n");
        let cases = [
            (None, true),
            (Some(""), true),
            (Some(text.as_str()), true),
            (Some(OTHER), false),
            (Some(more.as_str()), false),
            (Some("notes"), false),
        ];
        let folder = folder("replaced");
        for (number, (before, expected)) in cases.into_iter().enumerate() {
            let path = folder.join(number.to_string());
            if let Some(before) = before {
                fs::write(&path, before).unwrap();
            }
            let written = write(&path, &text);
            assert_eq!(written.is_ok(), expected, "{before:?}: {written:?}");
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(after, if expected { &text } else { before.unwrap() }, "{before:?}");
        }
        assert!(matches!(write(&folder, &text), Err(KubeconfigError::NotOurs { .. })), "a folder");
        assert!(matches!(write(&folder.join("no/folder"), &text), Err(KubeconfigError::Write { .. })));
        assert!(fs::read_dir(&folder).unwrap().all(|entry| !entry.unwrap().path().to_string_lossy().ends_with(".new")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn files_are_private_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (folder, text) = (folder("private"), own().await);
        fs::write(folder.join("target"), &text).unwrap();
        fs::set_permissions(folder.join("target"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink("target", folder.join("link")).unwrap();
        write(&folder.join("link"), &text).unwrap();
        assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
        let mode = fs::metadata(folder.join("target")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(folder).unwrap();
    }
}
