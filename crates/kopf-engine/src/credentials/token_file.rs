//! A token in a file: others renew it there, so that it is read again and again.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use tokio::time::Instant;

use super::CredentialsError;
use crate::support::clock::Clock;

/// How long it is trusted that the file is as it was.
const TRUSTED: Duration = Duration::from_secs(60);

/// The `Authorization` header by the token of a file.
pub(super) struct TokenFile {
    path: PathBuf,
    clock: Clock,
    /// When it was read last, and what it said.
    state: Mutex<(Instant, HeaderValue)>,
}

impl TokenFile {
    pub(super) fn open(path: impl Into<PathBuf>, clock: Clock) -> Result<Self, CredentialsError> {
        let path = path.into();
        let header = read(&path)?;
        let state = Mutex::new((clock.instant(), header));
        Ok(Self { path, clock, state })
    }

    /// Signs a request with the token of now.
    pub(super) fn sign<B>(&self, mut request: http::Request<B>) -> http::Request<B> {
        request.headers_mut().insert(AUTHORIZATION, self.header());
        request
    }

    fn header(&self) -> HeaderValue {
        let now = self.clock.instant();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.0) >= TRUSTED {
            state.0 = now;
            // A file that is gone, or is just being written, does not make the last token wrong.
            if let Ok(header) = read(&self.path) {
                state.1 = header;
            }
        }
        state.1.clone()
    }
}

fn read(path: &PathBuf) -> Result<HeaderValue, CredentialsError> {
    let content = std::fs::read_to_string(path);
    let content = content.map_err(|source| CredentialsError::TokenFile { path: path.clone(), source })?;
    // Editors and shells end files by a line break, which cannot be in a header.
    let mut header = HeaderValue::from_str(&format!("Bearer {}", content.trim())).map_err(CredentialsError::Header)?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_file_is_read_again() {
        let path = std::env::temp_dir().join(format!("kopf-token-{}", std::process::id()));
        std::fs::write(&path, "first\n").unwrap();
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let file = TokenFile::open(&path, clock.clone()).unwrap();
        let seen = || file.sign(http::Request::new(())).headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        assert_eq!(seen(), "Bearer first");
        std::fs::write(&path, "second").unwrap();
        assert_eq!(seen(), "Bearer first");
        clock.sleep(TRUSTED).await;
        assert_eq!(seen(), "Bearer second");
        std::fs::remove_file(&path).unwrap();
        clock.sleep(TRUSTED).await;
        assert_eq!(seen(), "Bearer second");
        let error = TokenFile::open(&path, clock).err().unwrap().to_string();
        assert!(error.starts_with("the token cannot be read from"), "{error}");
    }
}
