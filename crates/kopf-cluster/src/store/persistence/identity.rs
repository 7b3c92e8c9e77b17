//! The identity of a cluster across restarts: its token, its certificates, its port.
//!
//! It keeps kubeconfigs valid that were handed out before a restart.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::OpenError;
use super::directory::{failed, replace};
use crate::support::certificates::Certificates;

/// The version of the file; other versions are rejected.
const FORMAT: u32 = 1;

/// The identity of a cluster, and its file.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    content: Mutex<IdentityFile>,
}

#[derive(Clone, Serialize, Deserialize)]
struct IdentityFile {
    format: u32,
    token: String,
    certificates: Certificates,
    /// The port of the last run.
    port: Option<u16>,
}

impl std::fmt::Debug for IdentityFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets do not belong in logs.
        formatter.debug_struct("IdentityFile").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Identity {
    /// Loads the identity of a directory, or creates it. A given token replaces the stored one.
    pub(crate) fn load(directory: &Path, token: Option<&str>) -> Result<Self, OpenError> {
        let path = directory.join("identity.json");
        let unusable = |reason: String| OpenError::Identity { path: path.clone(), reason };
        let found: Option<IdentityFile> = match std::fs::read(&path) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(OpenError::Io { action: "read", path, source }),
        };
        if let Some(format) = found.as_ref().map(|content| content.format).filter(|format| *format != FORMAT) {
            return Err(unusable(format!("it has the format {format}, while {FORMAT} is known here")));
        }
        let changed = found.as_ref().is_none_or(|content| token.is_some_and(|token| token != content.token));
        let mut content = match found {
            Some(content) => content,
            None => {
                let certificates =
                    Certificates::generate().map_err(|error| OpenError::Certificate(std::sync::Arc::new(error)))?;
                IdentityFile {
                    format: FORMAT,
                    token: crate::support::certificates::new_token(),
                    certificates,
                    port: None,
                }
            }
        };
        if let Some(token) = token {
            content.token = token.to_owned();
        }
        if changed {
            write(&path, &content).map_err(failed("write", &path))?;
        }
        Ok(Self { path, content: Mutex::new(content) })
    }

    pub(crate) fn token(&self) -> String {
        self.content().token.clone()
    }

    pub(crate) fn certificates(&self) -> Certificates {
        self.content().certificates.clone()
    }

    /// The port of the last run.
    pub(crate) fn port(&self) -> Option<u16> {
        self.content().port
    }

    /// Stores the port for the next run.
    pub(crate) fn set_port(&self, port: u16) {
        let mut content = self.content();
        if content.port != Some(port) {
            content.port = Some(port);
            // If this fails, the next run takes another port, as without a directory.
            let _ = write(&self.path, &content);
        }
    }

    fn content(&self) -> std::sync::MutexGuard<'_, IdentityFile> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(path: &Path, content: &IdentityFile) -> std::io::Result<()> {
    let text = serde_json::to_vec_pretty(content)?;
    replace(path, |file| file.write_all(&text))
}
