//! One watch: its events, as they come, to its end.

use std::time::Duration;

use bytes::Bytes;
use kopf_reaction::EventType;
use tokio::time::Instant;

use super::filters::{Filters, push_filters};
use super::framing::{LineSplitter, decode_line, ends_initial_events, resource_version};
use super::{Ending, Listing, Position, Progress, StreamItem, StreamSink, TARGET, WatchStream, send};
use crate::client::{ApiError, ByteStream, with_query};
use crate::support::seconds;

/// A watch that lives so long has worked, even without events.
const ALIVE_AFTER: Duration = Duration::from_secs(1);

/// Longer than any stream lives, and short enough to be added to any instant.
const FAR_AWAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl WatchStream {
    /// Opens one watch and passes its events on, to its end.
    pub(super) async fn watch(&self, progress: &mut Progress, output: &mut impl StreamSink) -> Result<(), Ending> {
        let mut initial = matches!(progress.position, Position::Unlisted);
        let url = self.watch_url(&progress.position, &progress.filters);
        let connect_timeout = self.settings.connect_timeout.map(seconds);
        let mut stream = match self.api.watch_stream(&url, connect_timeout).await {
            Ok(stream) => stream,
            Err(ApiError::Unprocessable(_) | ApiError::Client(_)) if initial => {
                let text = format!("The initial streaming is not supported for {}; listing.", self.location());
                self.log.info(TARGET, text);
                progress.listing = Listing::Paged;
                return Ok(());
            }
            Err(error) => return Err(Ending::of(error)),
        };
        if initial {
            send(output, StreamItem::ListStarted).await?;
        }
        let opened = self.clock.instant();
        let mut heard = opened;
        let mut lines = LineSplitter::default();
        while let Some(chunk) = self.next_chunk(&mut stream, opened, heard, progress).await? {
            heard = self.clock.instant();
            progress.silences = 0;
            self.health.touch(self.clock.now());
            let too_long = |_| Ending::Failed(ApiError::Unclear { reason: format!("{url}: an endless line") });
            lines.push(&chunk).map_err(too_long)?;
            drop(chunk);
            while let Some(line) = lines.next_line() {
                let line = decode_line(&line)
                    .map_err(|source| Ending::Failed(ApiError::Decoding { what: url.clone(), source }))?;
                let object = line.object;
                let event = match line.kind {
                    "ADDED" if initial => EventType::Listed,
                    "ADDED" => EventType::Added,
                    "MODIFIED" => EventType::Modified,
                    "DELETED" => EventType::Deleted,
                    "BOOKMARK" => {
                        self.mark_healthy(progress);
                        if initial && !ends_initial_events(object) {
                            // The objects that are still to come must not be taken for deleted ones.
                            continue;
                        }
                        if let Some(version) = resource_version(object) {
                            progress.position = Position::Version(version);
                        }
                        if std::mem::take(&mut initial) {
                            self.health.count_listing();
                            send(output, StreamItem::ListDone).await?;
                        }
                        continue;
                    }
                    "ERROR" => return Err(Ending::of(ApiError::in_stream(url, object))),
                    other => {
                        self.log.warn(TARGET, format!("Ignoring an unsupported event type: {other:?}"));
                        continue;
                    }
                };
                self.mark_healthy(progress);
                // A separate copy, so that one object does not keep a whole buffer in memory.
                let raw = Bytes::copy_from_slice(object);
                if !initial {
                    progress.position = Position::Object(raw.clone());
                }
                send(output, StreamItem::Event { event, raw }).await?;
                // Time spent in the consumer's queue is no silence of the server.
                heard = self.clock.instant();
            }
        }
        Ok(())
    }

    /// The next bytes of a watch, None at its normal end, or the silence that ends it.
    async fn next_chunk(
        &self,
        stream: &mut ByteStream,
        opened: Instant,
        heard: Instant,
        progress: &mut Progress,
    ) -> Result<Option<Bytes>, Ending> {
        let silence = heard + seconds(self.settings.inactivity_timeout).min(FAR_AWAY);
        let end = opened + self.settings.client_timeout.map_or(FAR_AWAY, seconds).min(FAR_AWAY);
        // A server that was asked to end it soon keeps its word, counted from the request.
        let half = self.settings.server_timeout.map_or(ALIVE_AFTER, |timeout| seconds(timeout / 2.0));
        let alive = opened + ALIVE_AFTER.min(half);
        loop {
            let now = self.clock.instant();
            if now >= alive {
                self.mark_healthy(progress);
            }
            if now >= silence {
                // The server may be gone without a word, and the other connections to it with this one.
                self.api.distrust_connections(heard);
                return Err(Ending::Silent);
            }
            if now >= end {
                return Ok(None);
            }
            let deadline = if now < alive { silence.min(end).min(alive) } else { silence.min(end) };
            match self.clock.timeout(deadline - now, stream.next()).await {
                Err(_) => {}
                Ok(None) => return Ok(None),
                Ok(Some(Ok(chunk))) => return Ok(Some(chunk)),
                // Connections break every now and then; a watch that has worked just goes on.
                Ok(Some(Err(_))) if progress.worked => {
                    progress.is_in_doubt = true;
                    return Ok(None);
                }
                Ok(Some(Err(error))) => return Err(Ending::of(error)),
            }
        }
    }

    pub(super) fn watch_url(&self, position: &Position, filters: &Filters) -> String {
        let version = position.version();
        let server_timeout = self.settings.server_timeout.map(|timeout| format!("{}", timeout.ceil().max(1.0) as u64));
        let mut parameters: Vec<(&str, &str)> = vec![("watch", "true"), ("allowWatchBookmarks", "true")];
        push_filters(&mut parameters, filters);
        if let Some(version) = &version {
            parameters.push(("resourceVersion", version));
        }
        if let Some(server_timeout) = &server_timeout {
            parameters.push(("timeoutSeconds", server_timeout));
        }
        if matches!(position, Position::Unlisted) {
            parameters.push(("sendInitialEvents", "true"));
            parameters.push(("resourceVersionMatch", "NotOlderThan"));
        }
        with_query(&self.path(), &parameters)
    }
}
